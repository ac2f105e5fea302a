"""From appended to visible: queue entries of records that wait for their gates, written when the gates have passed.

All entries of one queue in one publication go to the disk in one write. Readers see them only when every write of the
publication has succeeded; one that failed leaves everything waiting, and writing it again does no harm.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress

from gantrymq.errors import StoreError
from gantrymq.interfaces import DispatchEntry
from gantrymq_storage_mmap.consume_queue import ConsumeQueue

__all__ = ["Publisher"]


class Publisher:
    """What is appended and not yet visible, in log order."""

    def __init__(self) -> None:
        self.published_offset = 0  # log offset behind the newest visible record
        self.published_timestamp = 0  # ms, its store time
        self.refusal: str | None = None  # why the last publication failed
        self._entries: list[DispatchEntry] = []
        self._targets: list[ConsumeQueue | None] = []
        self._packed: list[bytes] = []
        self._failed_up_to = 0  # log offset of the publication that failed

    def recovered(self, log_offset: int, timestamp: int) -> None:
        """Everything before *log_offset* is visible."""
        self.published_offset, self.published_timestamp = log_offset, timestamp

    def add(self, entries: list[DispatchEntry], targets: list[ConsumeQueue | None], packed: list[bytes]) -> None:
        """Keep what was appended: records, the queue each goes to (None for none), and its queue entry."""
        self._entries += entries
        self._targets += targets
        self._packed += packed

    def publish(self, up_to: int) -> Sequence[DispatchEntry]:
        """Make every record visible that ends at or before *up_to*. Budget: 0.5 us a record, 3 us a queue.

        Raises:
            StoreError: an entry could not be written; nothing became visible.
        """
        count = self._count(up_to)
        if not count:
            return ()
        runs = self._runs(count)
        self._write(runs, up_to)
        entries = self._entries
        for queue, run in runs.items():
            queue.max_offset += len(run)
        if count == len(entries):
            self._entries, self._targets, self._packed = [], [], []
        else:
            entries = entries[:count]
            del self._entries[:count], self._targets[:count], self._packed[:count]
        last = entries[-1]
        self.published_offset = last.log_offset + last.size
        self.published_timestamp = last.store_timestamp
        return entries

    def retry(self) -> None:
        """Try the writes of a failed publication once more; `refusal` is None when they succeed.

        Nothing becomes visible by it: that is the next call of `publish`.
        """
        if self.refusal is not None:
            with suppress(StoreError):
                self._write(self._runs(self._count(self._failed_up_to)), self._failed_up_to)

    def _count(self, up_to: int) -> int:
        """How many waiting records end at or before *up_to*."""
        entries = self._entries
        if not entries or _end(entries[-1]) <= up_to:
            return len(entries)
        return bisect_right(entries, up_to, key=_end)

    def _runs(self, count: int) -> dict[ConsumeQueue, list[bytes]]:
        """The packed entries of the first *count* waiting records, by queue."""
        runs: dict[ConsumeQueue, list[bytes]] = {}
        find = runs.get
        for queue, entry in zip(self._targets[:count], self._packed, strict=False):
            if queue is not None:
                run = find(queue)
                if run is None:
                    runs[queue] = [entry]
                else:
                    run.append(entry)
        return runs

    def _write(self, runs: dict[ConsumeQueue, list[bytes]], up_to: int) -> None:
        """Write each queue's entries behind its last visible one, which is where its oldest waiting one belongs."""
        for queue, run in runs.items():
            if not queue.dropped:
                try:
                    queue.write(queue.max_offset, b"".join(run))
                except OSError as error:
                    self._failed_up_to = up_to
                    self.refusal = f"queue {queue.topic}/{queue.queue_id} cannot be written: {error}"
                    raise StoreError(self.refusal) from error
        self.refusal = None


def _end(entry: DispatchEntry) -> int:
    return entry.log_offset + entry.size
