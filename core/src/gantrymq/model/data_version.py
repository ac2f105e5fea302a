"""Versions of tables, to detect changes.

Source: apache/rocketmq remoting/.../protocol/DataVersion.java.
"""

from __future__ import annotations

from typing import Any

import attrs

from gantrymq.model.json_members import INT64, number_in


@attrs.define(order=False)
class DataVersion:
    """Version of a table. Two versions are equal if all three members are."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0  # ms

    def next(self, now_ms: int) -> None:
        """Record a change made at *now_ms*."""
        self.timestamp = now_ms
        self.counter += 1

    def to_json(self) -> dict[str, int]:
        """Return the members that RocketMQ writes."""
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp}

    @classmethod
    def from_json(cls, members: dict[str, Any] | None) -> DataVersion:
        """Parse members written by RocketMQ; 4.9 omits stateVersion. Raises FormatError if one is not a number."""
        members = members or {}
        return cls(
            counter=number_in(members, "counter", 0, INT64),
            state_version=number_in(members, "stateVersion", 0, INT64),
            timestamp=number_in(members, "timestamp", 0, INT64),
        )
