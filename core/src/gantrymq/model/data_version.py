"""How RocketMQ tells two states of a table apart.

Source: apache/rocketmq remoting/.../protocol/DataVersion.java.
"""

from __future__ import annotations

from typing import Any

import attrs

from gantrymq.model.json_members import INT64, number_in


@attrs.define(order=False)
class DataVersion:
    """Equal only if all three members are."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0  # ms

    def next(self, now_ms: int) -> None:
        """Mark a change made at *now_ms*."""
        self.timestamp = now_ms
        self.counter += 1

    def to_json(self) -> dict[str, int]:
        """The members RocketMQ writes."""
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp}

    @classmethod
    def from_json(cls, members: dict[str, Any] | None) -> DataVersion:
        """Read what RocketMQ wrote; 4.9 leaves stateVersion out. Raises FormatError: a member is no number."""
        members = members or {}
        return cls(
            counter=number_in(members, "counter", 0, INT64),
            state_version=number_in(members, "stateVersion", 0, INT64),
            timestamp=number_in(members, "timestamp", 0, INT64),
        )
