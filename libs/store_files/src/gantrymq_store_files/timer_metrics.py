"""``config/timermetrics``: numbers of waiting timed messages by topic. JSON without spaces.

    {"dataVersion":{"counter":22,"stateVersion":0,"timestamp":T},"timingCount":{"TopicA":{"count":6,"timeStamp":T}}}

Source: apache/rocketmq store/.../timer/TimerMetrics.java (write0, decode).
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from gantrymq.errors import FormatError
from gantrymq.model.data_version import DataVersion


@attrs.define
class TopicCount:
    """Count of one real topic."""

    count: int
    changed_ms: int

    def to_json(self) -> dict[str, int]:
        """Return the members as RocketMQ writes them."""
        return {"count": self.count, "timeStamp": self.changed_ms}


@attrs.define
class TimerMetrics:
    """Counts by topic."""

    version: DataVersion = attrs.field(factory=DataVersion)
    topics: dict[str, TopicCount] = attrs.field(factory=dict)

    def add(self, topic: str, change: int, now_ms: int) -> None:
        """Change the count of *topic* by *change*."""
        self.version.next(now_ms)
        known = self.topics.get(topic)
        self.topics[topic] = TopicCount((known.count if known is not None else 0) + change, now_ms)

    def forget(self, topic: str, now_ms: int) -> None:
        """Remove *topic*, which was deleted."""
        if self.topics.pop(topic, None) is not None:
            self.version.next(now_ms)

    def to_json(self) -> dict[str, Any]:
        """Return the members as RocketMQ writes them."""
        counts = {name: each.to_json() for name, each in self.topics.items()}
        return {"dataVersion": self.version.to_json(), "timingCount": counts}

    def encode(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(self.to_json(), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> TimerMetrics:
        """Decode the file.

        Raises:
            FormatError: it is not valid JSON of timer metrics.
        """
        try:
            members = json.loads(data)
            topics = {
                str(name): TopicCount(int(each["count"]), int(each["timeStamp"]))
                for name, each in members.get("timingCount", {}).items()
            }
            return cls(DataVersion.from_json(members.get("dataVersion")), topics)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise FormatError(f"timermetrics: {error!r}; expected the JSON of RocketMQ's timer metrics") from error
