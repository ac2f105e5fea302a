"""The role of a broker among the copies of its log."""

from __future__ import annotations

import enum
from typing import Final

ACTING_STEP: Final = 1000  # versions of a table that a missing master, which compares them, may be ahead of its copy


class Role(enum.Enum):
    """Who writes the log: the broker itself, or another one whose log it copies (RocketMQ's SLAVE).

    An acting master is a replica whose master is missing: it takes no messages, but runs the background services, whose
    output is stored by other brokers (RocketMQ's slave acting master).
    """

    MASTER = "MASTER"
    REPLICA = "REPLICA"
    ACTING_MASTER = "ACTING_MASTER"
