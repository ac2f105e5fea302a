"""Subscriptions of groups to topics.

Source: apache/rocketmq remoting/.../protocol/heartbeat/SubscriptionData.java, common/.../filter/FilterAPI.java.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from gantrymq.model.json_members import INT64, flag_in, number_in, numbers_in, text_in, texts_in

TAG = "TAG"
SQL92 = "SQL92"
ALL = "*"
_NAMED: Final = re.compile(r"\s*([A-Za-z_][\w.-]*)::\s*(.*)", re.DOTALL | re.ASCII)


@attrs.frozen
class Subscription:
    """Subscription of one group to one topic. The filter type interprets the expression."""

    topic: str
    expression: str = ALL
    type: str = TAG
    version: int = 0  # creation time at the client, ms
    group: str = ""
    class_filter: bool = False
    tags: tuple[str, ...] = ()  # as sent by the client; filter types may ignore them
    codes: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, members: dict[str, Any], group: str = "") -> Subscription:
        """Parse one entry of a heartbeat's subscriptionDataSet. Raises FormatError if a member has the wrong type."""
        return cls(
            topic=text_in(members, "topic", ""),
            expression=text_in(members, "subString", "") or ALL,
            type=text_in(members, "expressionType", "") or TAG,
            version=number_in(members, "subVersion", 0, INT64),
            group=group,
            class_filter=flag_in(members, "classFilterMode", False),
            tags=texts_in(members, "tagsSet"),
            codes=numbers_in(members, "codeSet"),
        )

    def resolved(self) -> Subscription:
        """Return the subscription with filter type NAME for an SQL92 expression ``NAME:: text``, else self.

        RocketMQ's clients can send only TAG and SQL92, and no valid SQL92 expression begins like this.
        """
        found = _NAMED.fullmatch(self.expression) if self.type == SQL92 else None
        return attrs.evolve(self, type=found[1], expression=found[2]) if found else self

    def to_json(self) -> dict[str, Any]:
        """Return the members that RocketMQ writes, in its order."""
        return {
            "classFilterMode": self.class_filter,
            "codeSet": list(self.codes),
            "expressionType": self.type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": list(self.tags),
            "topic": self.topic,
        }
