"""From appended to visible: queue entries of records that wait for their gates, shown when the gates have passed.

Showing an entry is appending it to its queue's tail in memory, which does not fail; it is written later (`tails`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from gantrymq.interfaces import DispatchEntry
from gantrymq_storage_mmap.queues.tails import QueueTails, Target

__all__ = ["Publisher"]


class Publisher:
    """What is appended and not yet visible, in log order."""

    def __init__(self, tails: QueueTails) -> None:
        """*tails* gets what becomes visible."""
        self.published_offset = 0  # log offset behind the newest visible record
        self.published_timestamp = 0  # ms, its store time
        self.newest = (-1, 0)  # its place and size
        self._entries: list[DispatchEntry] = []
        self._targets: list[Target] = []
        self._packed: list[bytes] = []
        self._tails = tails

    def recovered(self, log_offset: int, timestamp: int, newest: tuple[int, int]) -> None:
        """Everything before *log_offset* is visible; *newest*: place and size of the last record before it."""
        self.published_offset, self.published_timestamp, self.newest = log_offset, timestamp, newest

    def add(self, entries: list[DispatchEntry], targets: list[Target], packed: list[bytes]) -> None:
        """Keep what was appended: records, the queue each goes to (None for none), and its queue entry."""
        self._entries += entries
        self._targets += targets
        self._packed += packed

    def publish(self, up_to: int) -> Sequence[DispatchEntry]:
        """Make every record visible that ends at or before *up_to*."""
        entries = self._entries
        if entries and _end(entries[-1]) <= up_to:
            self._tails.add(entries, self._targets, self._packed)
            self._entries, self._targets, self._packed = [], [], []
        else:
            count = bisect_right(entries, up_to, key=_end)
            if not count:
                return ()
            entries = entries[:count]
            self._tails.add(entries, self._targets[:count], self._packed[:count])
            del self._entries[:count], self._targets[:count], self._packed[:count]
        last = entries[-1]
        self.published_offset = last.log_offset + last.size
        self.published_timestamp = last.store_timestamp
        self.newest = (last.log_offset, last.size)
        return entries


def _end(entry: DispatchEntry) -> int:
    return entry.log_offset + entry.size
