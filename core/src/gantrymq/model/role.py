"""The role of a broker among the copies of its log."""

from __future__ import annotations

import enum

__all__ = ["Role"]


class Role(enum.Enum):
    """Who writes the log: the broker itself, or another one whose log it copies (RocketMQ's SLAVE)."""

    MASTER = "MASTER"
    REPLICA = "REPLICA"
