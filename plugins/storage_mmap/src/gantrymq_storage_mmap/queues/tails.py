"""The newest entries of each queue, in memory until they are written: a queue file is touched once for many messages.

With one topic a publication is one write of many entries; with ten thousand topics it would be one write, and often
one open and close, for every message. So published entries wait here, readers find them here, and the queue that has
waited longest is written first: when `MOST_ENTRIES` wait, or when its oldest entry has waited for some ticks. Writing
n entries costs what writing one costs, whatever the number of topics.

Entries can be rebuilt from the log, so nothing is lost with them: a killed process leaves a little more to recovery,
which starts where the checkpoint says, and the checkpoint never passes an entry that still waits. A write that fails
(a full disk) leaves the entries here, visible, and is a reason to refuse messages until writing succeeds again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.retention.rules import is_full

__all__ = ["QueueTails"]

MOST_ENTRIES: Final = 131_072  # 2.6 MB, a millisecond to write where they are of one queue


class QueueTails:
    """Queues with entries that are in no file yet. All methods belong to the event loop."""

    def __init__(self) -> None:
        self.refusal: str | None = None  # why the last write failed
        self.full = False  # it found no room
        self.entries = 0  # that wait, of all queues
        self._ticks = 0
        self._waiting: dict[ConsumeQueue, int] = {}  # longest first; the tick in which the oldest entry came

    def add(self, targets: Sequence[ConsumeQueue | None], packed: Sequence[bytes]) -> None:
        """Append each entry to its queue and make it visible. Budget: 0.15 us an entry."""
        waiting, ticks = self._waiting, self._ticks
        added = 0
        for queue, entry in zip(targets, packed, strict=True):
            if queue is not None and not queue.dropped:
                tail = queue.tail
                if not tail:
                    waiting[queue] = ticks
                tail += entry
                queue.max_offset += 1
                added += 1
        self.entries += added
        if self.entries > MOST_ENTRIES and self.refusal is None:
            while self.entries > MOST_ENTRIES and self._write_oldest():
                pass

    def tick(self) -> int:
        """Time passes: what is added from now on is younger. Returns the tick that has ended."""
        self._ticks += 1
        return self._ticks - 1

    def due(self, tick: int) -> bool:
        """Whether an entry waits that came in *tick* or before."""
        return bool(self._waiting) and next(iter(self._waiting.values())) <= tick

    def write_due(self, tick: int, most: int) -> None:
        """Write up to *most* queues that are `due`; the first failure ends it and is told by `refusal`."""
        while most > 0 and self.due(tick) and self._write_oldest():
            most -= 1

    def write_all(self) -> None:
        """Write everything; the first failure ends it and is told by `refusal`."""
        while self._waiting and self._write_oldest():
            pass

    def retry(self) -> None:
        """Try again the write that failed; `refusal` is None when it succeeds, or when its queue is gone."""
        if self.refusal is not None and (not self._waiting or self._write_oldest()):
            self.refusal, self.full = None, False

    def forget(self, queue: ConsumeQueue) -> None:
        """Drop what waits of a queue that is deleted."""
        if self._waiting.pop(queue, None) is not None:
            self.entries -= len(queue.tail) // ENTRY_BYTES
            queue.tail.clear()

    def _write_oldest(self) -> bool:
        """Write the queue that has waited longest; False when that failed."""
        queue = next(iter(self._waiting))
        written = len(queue.tail) // ENTRY_BYTES
        try:
            queue.write_tail()
        except OSError as error:
            self.refusal = f"queue {queue.topic}/{queue.queue_id} cannot be written: {error}"
            self.full = is_full(error)
            return False
        self.refusal, self.full = None, False
        self.entries -= written
        del self._waiting[queue]
        return True
