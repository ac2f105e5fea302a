"""Which queues there are now, and which messages they have. No I/O; `queue_view` asks brokers for it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.model.queue import MessageQueue

__all__ = ["QueueState", "Snapshot"]


@attrs.frozen
class QueueState:
    """One queue: queue offsets from *first* to *end*, *end* being what the next message will get."""

    first: int
    end: int
    stored_ms: int = 0  # store time of the last message by the broker's clock; 0 without one
    first_stored_ms: int | None = None  # of the first message; None where nobody asked


@attrs.frozen
class Snapshot:
    """All queues that can be read.

    Queues of a broker that is away are not among *queues*; nothing is known of them, so that they are not lost either.
    """

    queues: Mapping[MessageQueue, QueueState]
    away: frozenset[str] = frozenset()  # names of brokers that do not answer or are not registered
