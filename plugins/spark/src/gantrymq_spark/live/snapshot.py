"""The current queues and their offsets. No I/O; `queue_view` queries brokers."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.plugin.model import MessageQueue


@attrs.frozen
class QueueState:
    """One queue with queue offsets from *first* to *end*, the offset of the next message."""

    first: int
    end: int
    stored_ms: int = 0  # store time of the last message by the broker's clock; 0 without one
    first_stored_ms: int | None = None  # of the first message; None if it was not requested


@attrs.frozen
class Snapshot:
    """All queues that can be read.

    Queues of brokers that do not respond are not included; nothing is known about them, so they do not count as lost.
    """

    queues: Mapping[MessageQueue, QueueState]
    away: frozenset[str] = frozenset()  # names of brokers that do not respond or are not registered
