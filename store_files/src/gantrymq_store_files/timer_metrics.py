"""``config/timermetrics``: how many messages of each topic wait for their time. JSON without spaces.

    {"dataVersion":{"counter":22,"stateVersion":0,"timestamp":T},"timingCount":{"TopicA":{"count":6,"timeStamp":T}}}

Source: apache/rocketmq store/.../timer/TimerMetrics.java (write0, decode).
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from gantrymq.errors import FormatError
from gantrymq.model.data_version import DataVersion

__all__ = ["TimerMetrics", "TopicCount"]


@attrs.define
class TopicCount:
    """Of one real topic."""

    count: int
    changed_ms: int


@attrs.define
class TimerMetrics:
    """Counts by topic."""

    version: DataVersion = attrs.field(factory=DataVersion)
    topics: dict[str, TopicCount] = attrs.field(factory=dict)

    def add(self, topic: str, change: int, now_ms: int) -> None:
        """*change* more messages of *topic* wait."""
        self.version.next(now_ms)
        known = self.topics.get(topic)
        self.topics[topic] = TopicCount((known.count if known is not None else 0) + change, now_ms)

    def forget(self, topic: str, now_ms: int) -> None:
        """*topic* was deleted."""
        if self.topics.pop(topic, None) is not None:
            self.version.next(now_ms)

    def to_json(self) -> dict[str, Any]:
        """The members RocketMQ writes, and answers request 61 with."""
        counts = {name: {"count": each.count, "timeStamp": each.changed_ms} for name, each in self.topics.items()}
        return {"dataVersion": self.version.to_json(), "timingCount": counts}

    def encode(self) -> bytes:
        """The file."""
        return json.dumps(self.to_json(), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> TimerMetrics:
        """Read the file.

        Raises:
            FormatError: it is not what RocketMQ writes.
        """
        try:
            members = json.loads(data)
            topics = {
                str(name): TopicCount(int(each["count"]), int(each["timeStamp"]))
                for name, each in members.get("timingCount", {}).items()
            }
            return cls(DataVersion.from_json(members.get("dataVersion")), topics)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError(f"timermetrics: {error!r}; expected the JSON of RocketMQ's timer metrics") from error
