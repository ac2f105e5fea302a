"""Ledger of sent, acknowledged, read and committed messages, with which a store is compared after it was stopped."""

from __future__ import annotations

import random
from collections import defaultdict

import attrs

from gantrymq.model.queue import Queue

DIGITS = 8


@attrs.define
class Sent:
    """One message on its way."""

    queue: Queue
    body: bytes
    queue_offset: int | None = None  # once acknowledged
    log_offset: int = 0  # the same
    acknowledged_at: float = 0.0  # monotonic
    deleted: bool = False  # its topic was deleted after it was sent
    inner: bool = False  # one of an inner batch: its key is that of the whole record
    light: tuple[str, ...] = ()  # light queues that list it as well


@attrs.define
class Ledger:
    """One run."""

    sent: list[Sent] = attrs.field(factory=list)
    seen: dict[Queue, dict[int, bytes]] = attrs.field(factory=lambda: defaultdict(dict))  # by queue offset
    committed: dict[Queue, int] = attrs.field(factory=dict)  # the highest offset ever committed
    topics: set[str] = attrs.field(factory=set)  # acknowledged
    cleaned: bool = False  # retention was requested; it continues with each full log file
    deleting: str = ""  # topics with a requested but unanswered deletion
    refusals: list[str] = attrs.field(factory=list)  # sends that were answered with an error
    problems: list[str] = attrs.field(factory=list)  # that showed while it went on
    _taken: set[tuple[Queue, int]] = attrs.field(factory=set)

    def write(self, queue: Queue, rng: random.Random) -> Sent:
        """A new message."""
        size = round(10 * 200 ** rng.random())
        sent = Sent(queue, f"{len(self.sent):0{DIGITS}d}".encode() + rng.randbytes(size))
        self.sent.append(sent)
        return sent

    def acknowledge(self, sent: Sent, queue_offset: int, log_offset: int, now: float) -> None:
        """*sent* was stored at *queue_offset*, in the log at *log_offset*."""
        if (sent.queue, queue_offset) in self._taken:
            self.problems.append(f"twice: {sent.queue} has given out {queue_offset} before {sent.body[:DIGITS]!r}")
        self._taken.add((sent.queue, queue_offset))
        sent.queue_offset, sent.log_offset, sent.acknowledged_at = queue_offset, log_offset, now

    def see(self, queue: Queue, queue_offset: int, body: bytes) -> None:
        """A consumer was given a message."""
        self.seen[queue][queue_offset] = body

    def delete(self, topic: str) -> None:
        """Record the answered deletion of *topic*; its earlier messages must not return."""
        self.deleting = ""
        for sent in self.sent:
            if sent.queue.topic == topic:
                sent.deleted = True
        self._taken = {(queue, at) for queue, at in self._taken if queue.topic != topic}
        for table in (self.seen, self.committed):
            for queue in [queue for queue in table if queue.topic == topic]:
                del table[queue]

    @property
    def acknowledged(self) -> list[Sent]:
        """Return the messages that must exist."""
        return [sent for sent in self.sent if sent.queue_offset is not None and not sent.deleted]


def number_of(body: bytes) -> int:
    """The message's number, -1 where the body has none."""
    head = bytes(body[:DIGITS])
    return int(head) if len(head) == DIGITS and head.isdigit() else -1
