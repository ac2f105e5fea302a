"""Offsets of live queues: how far a stream has read, the current ends, and messages that can no longer be read. No I/O.

Spark keeps in its checkpoint how far a stream has read, as JSON:

    {"version":1,"queues":{"TopicTest":{"broker-a":{"0":{"next":70,"storedMs":1700000000000},
                                                    "1":{"next":20,"storedMs":1700000000000,"begin":0}}}}}

``next`` is the next queue offset to read, ``storedMs`` the store time of the queue's last message when the offset was
written (the broker's clock; 0 for an empty queue). ``begin`` is the start of the micro-batch that ends here if it does
not start where the previous one ended: in a new queue, and after a loss. Two such texts therefore determine the
messages of a micro-batch, and a restart plans the same ones without querying brokers.

Messages that a query should read and no longer can are reported. With ``failOnDataLoss`` true, the default, the query
fails with the report. With false it continues, and the report is logged as warnings.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gantrymq.errors import FormatError, GantryError
from gantrymq.plugin.model import MessageQueue
from gantrymq_store_tools.findings import counted

logger = logging.getLogger(__name__)
_MAX_LINES = 20  # of a report
_VERSION = 1


class LossKind(enum.Enum):
    """The reason of a loss. Values are the words of the report."""

    EXPIRED = "are no longer in the queue; the broker has deleted them (fileReservedTime)"
    RECREATED = "belong to a topic that was deleted; a topic of that name was created since"
    TRUNCATED = "are not in the queue, which ends before them; the broker has lost the end of its log"
    QUEUE_GONE = "and later ones cannot be read, as the queue no longer exists (topic deleted, or fewer read queues)"


class DataLost(GantryError):
    """Raised when messages cannot be read and ``failOnDataLoss`` is true."""


@attrs.frozen
class Loss:
    """Queue offsets *first* to *end* (exclusive) of one queue; *end* is None if unknown."""

    kind: LossKind
    queue: MessageQueue
    first: int
    end: int | None = None

    def __str__(self) -> str:
        """Return the loss as one sentence."""
        queue = f"{self.queue.topic}, {self.queue.broker_name}, queue {self.queue.queue_id}"
        offsets = f"offset {self.first}" if self.end is None else f"offsets {self.first} to {self.end - 1}"
        return f"{queue}: {offsets} {self.kind.value}"


def report_losses(losses: Sequence[Loss], *, fail: bool) -> None:
    """Log *losses*, or fail with them.

    Raises:
        DataLost: *fail* is true and there are losses.
    """
    if not losses:
        return
    if not fail:
        for loss in losses:
            logger.warning("%s; continuing without them, as failOnDataLoss is false", loss)
        return
    lines = [str(loss) for loss in losses[:_MAX_LINES]]
    if len(losses) > _MAX_LINES:
        lines.append(f"and {counted(len(losses) - _MAX_LINES, 'queue')} more")
    raise DataLost(
        "messages cannot be read any more; set failOnDataLoss to false to continue without them: " + "; ".join(lines)
    )


@attrs.frozen
class QueuePosition:
    """How far one queue was read."""

    next: int
    stored_ms: int = 0
    begin: int | None = None


@attrs.frozen
class QueueRange:
    """Queue offsets *first* to *end* (exclusive) of one queue."""

    queue: MessageQueue
    first: int
    end: int

    @property
    def count(self) -> int:
        """The number of offsets."""
        return self.end - self.first


@attrs.frozen
class Offsets:
    """How far each queue was read."""

    queues: Mapping[MessageQueue, QueuePosition] = attrs.Factory(dict)

    def to_json(self) -> dict[str, Any]:
        """Return the offsets as JSON for Spark; equal offsets give equal texts."""
        topics: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
        for queue, reached in sorted(self.queues.items()):
            members = {"next": reached.next, "storedMs": reached.stored_ms}
            if reached.begin is not None:
                members["begin"] = reached.begin
            brokers = topics.setdefault(queue.topic, {})
            brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = members
        return {"version": _VERSION, "queues": topics}

    @classmethod
    def from_json(cls, data: Any) -> Offsets:
        """Parse the result of `to_json`.

        Raises:
            FormatError: *data* is malformed or of a later version.
        """
        if not isinstance(data, dict) or not isinstance(data.get("queues"), dict):
            raise FormatError(f"the checkpoint holds no offsets of the source gantrymq: {str(data)[:80]}")
        if data.get("version") != _VERSION:
            raise FormatError(
                f"the checkpoint's offsets have version {data.get('version')}, this gantrymq-spark reads {_VERSION}; "
                "use the one that wrote them, or a new checkpoint"
            )
        found: dict[MessageQueue, QueuePosition] = {}
        try:
            for topic, brokers in data["queues"].items():
                for broker, queues in brokers.items():
                    for queue_id, members in queues.items():
                        begin = members.get("begin")
                        found[MessageQueue(topic, broker, int(queue_id))] = QueuePosition(
                            int(members["next"]), int(members["storedMs"]), None if begin is None else int(begin)
                        )
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise FormatError(f"the checkpoint's offsets have members of the wrong kind: {problem!r}") from problem
        return cls(found)


def ranges_between(start: Offsets, end: Offsets) -> list[QueueRange]:
    """Return the non-empty ranges of the micro-batch from *start* to *end*, sorted by queue.

    Raises:
        FormatError: *start* and *end* do not belong together.
    """
    if start == end:
        return []
    found = []
    for queue, reached in sorted(end.queues.items()):
        before = start.queues.get(queue)
        begin = reached.begin if reached.begin is not None else before.next if before is not None else None
        if begin is None or begin > reached.next:
            raise FormatError(f"the checkpoint's offsets of {queue} do not say where a micro-batch begins")
        if begin < reached.next:
            found.append(QueueRange(queue, begin, reached.next))
    return found


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
