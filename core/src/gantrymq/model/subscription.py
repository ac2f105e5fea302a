"""What a group wants of a topic.

Source: apache/rocketmq remoting/.../protocol/heartbeat/SubscriptionData.java, common/.../filter/FilterAPI.java.
"""

from __future__ import annotations

from typing import Any

import attrs

TAG = "TAG"
ALL = "*"


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
