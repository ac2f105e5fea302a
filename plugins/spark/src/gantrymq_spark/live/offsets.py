"""How far a stream has read, as JSON that Spark keeps in its checkpoint.

    {"version":1,"queues":{"TopicTest":{"broker-a":{"0":{"next":70,"storedMs":1700000000000},
                                                    "1":{"next":20,"storedMs":1700000000000,"begin":0}}}}}

``next`` is the next queue offset to read, ``storedMs`` the store time of the queue's last message when the offset was
written (the broker's clock; 0 for an empty queue). ``begin`` is the start of the micro-batch that ends here if it does
not start where the previous one ended: in a new queue, and after a loss. Two such texts therefore determine the
messages of a micro-batch, and a restart plans the same ones without querying brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.model import MessageQueue

__all__ = ["Offsets", "QueuePosition", "QueueRange", "ranges_between"]

VERSION = 1


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
        return {"version": VERSION, "queues": topics}

    @classmethod
    def from_json(cls, data: Any) -> Offsets:
        """Parse the result of `to_json`.

        Raises:
            FormatError: *data* is malformed or of a later version.
        """
        if not isinstance(data, dict) or not isinstance(data.get("queues"), dict):
            raise FormatError(f"the checkpoint holds no offsets of the source gantrymq: {str(data)[:80]}")
        if data.get("version") != VERSION:
            raise FormatError(
                f"the checkpoint's offsets have version {data.get('version')}, this gantrymq-spark reads {VERSION}; "
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
