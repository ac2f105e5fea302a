"""Makes appended records visible: their queue entries wait here until the gates (such as the flush) have passed.

A published entry is appended to its queue's in-memory tail, which cannot fail; it is written later (`pending_entries`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq_storage_mmap.queues.pending_entries import PendingEntries, Target


class Publisher:
    """Entries that are appended but not yet visible, in log order."""

    def __init__(self, pending: PendingEntries, *, repeats: bool = False) -> None:
        """*pending* receives the published entries; *repeats*: see there."""
        self.published_offset = 0  # log offset after the newest visible record
        self.published_timestamp = 0  # ms, the latest store time of a visible record
        self.newest = (-1, 0)  # log offset and size of that record
        # whether a record may have several entries, as in light queues, which follow that of its own queue
        self.repeats = repeats
        self._entries: list[DispatchEntry] = []
        self._targets: list[Target] = []
        self._packed: list[bytes] = []
        self._pending = pending

    def recovered(self, log_offset: int, timestamp: int, newest: tuple[int, int]) -> None:
        """Mark all before *log_offset* as visible; *newest*: log offset and size of the last record before it."""
        self.published_offset, self.published_timestamp, self.newest = log_offset, timestamp, newest

    def add(self, entries: list[DispatchEntry], targets: list[Target], packed: list[bytes]) -> None:
        """Hold appended records with the queue of each (None for none) and its packed queue entry."""
        self._entries += entries
        self._targets += targets
        self._packed += packed

    def publish(self, up_to: int) -> Sequence[DispatchEntry]:
        """Make every record that ends at or before *up_to* visible."""
        entries = self._entries
        if entries and _end(entries[-1]) <= up_to:
            self._pending.add(entries, self._targets, self._packed)
            self._entries, self._targets, self._packed = [], [], []
        else:
            count = bisect_right(entries, up_to, key=_end)
            if not count:
                return ()
            entries = entries[:count]
            self._pending.add(entries, self._targets[:count], self._packed[:count])
            del self._entries[:count], self._targets[:count], self._packed[:count]
        last = entries[-1]
        self.published_offset = last.log_offset + last.size
        self.published_timestamp = max(self.published_timestamp, last.store_timestamp)
        self.newest = (last.log_offset, last.size)
        return entries

    def cut(self, log_offset: int) -> None:
        """Forget the unpublished records at and after *log_offset*, and take back their queue offsets."""
        first = bisect_left(self._entries, log_offset, key=_start)
        removed = list(zip(self._entries[first:], self._targets[first:], strict=True))
        for entry, queue in reversed(removed):
            if queue is not None:
                queue.next_offset = entry.queue_offset
        del self._entries[first:], self._targets[first:], self._packed[first:]


def _start(entry: DispatchEntry) -> int:
    return entry.log_offset


def _end(entry: DispatchEntry) -> int:
    return entry.log_offset + entry.size
