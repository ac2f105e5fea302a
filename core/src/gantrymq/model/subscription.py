"""What a group wants of a topic.

Source: apache/rocketmq remoting/.../protocol/heartbeat/SubscriptionData.java, common/.../filter/FilterAPI.java.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

TAG = "TAG"
SQL92 = "SQL92"
ALL = "*"
_NAMED: Final = re.compile(r"\s*([A-Za-z_][\w.-]*)::\s*(.*)", re.DOTALL | re.ASCII)


@attrs.frozen
class Subscription:
    """One topic of one group; how the expression is read is its filter type's business."""

    topic: str
    expression: str = ALL
    type: str = TAG
    version: int = 0  # ms at which the client made it
    group: str = ""
    class_filter: bool = False
    tags: tuple[str, ...] = ()  # as the client sent them; a filter type may ignore them
    codes: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, members: dict[str, Any], group: str = "") -> Subscription:
        """Read one member of a heartbeat's subscriptionDataSet."""
        return cls(
            topic=str(members.get("topic") or ""),
            expression=str(members.get("subString") or ALL),
            type=str(members.get("expressionType") or TAG),
            version=int(members.get("subVersion") or 0),
            group=group,
            class_filter=bool(members.get("classFilterMode") or False),
            tags=tuple(str(tag) for tag in members.get("tagsSet") or ()),
            codes=tuple(int(code) for code in members.get("codeSet") or ()),
        )

    def resolved(self) -> Subscription:
        """This, or what SQL92 with ``NAME:: text`` stands for: *text* for the filter type NAME.

        RocketMQ's clients send TAG and SQL92 alone, and no expression of SQL92 begins so.
        """
        found = _NAMED.fullmatch(self.expression) if self.type == SQL92 else None
        return attrs.evolve(self, type=found[1], expression=found[2]) if found else self

    def to_json(self) -> dict[str, Any]:
        """The members RocketMQ writes, in its order."""
        return {
            "classFilterMode": self.class_filter,
            "codeSet": list(self.codes),
            "expressionType": self.type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": list(self.tags),
            "topic": self.topic,
        }
