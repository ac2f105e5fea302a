"""The role of a broker among the copies of its log."""

from __future__ import annotations

import enum

__all__ = ["Role"]


class Role(enum.Enum):
    """Who writes the log: the broker itself, or another one whose log it copies (RocketMQ's SLAVE).

    An acting master is a replica whose master is missing: it takes no messages, but runs the background services, whose
    output is stored by other brokers (RocketMQ's slave acting master).
    """

    MASTER = "MASTER"
    REPLICA = "REPLICA"
    ACTING_MASTER = "ACTING_MASTER"
