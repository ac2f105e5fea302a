"""What is published and in no file yet, and what is in files and not durable yet, of every row.

With one topic a publication could be one write of many entries; with ten thousand topics it would be one write, and
often one open and close, for every message. So entries wait in the tails of their rows (`FileRow`), readers find them
there, and the row that has waited longest is written first: when `MOST_WAITING_BYTES` wait, or when its oldest bytes
have waited for some ticks. Writing n entries costs what writing one costs, whatever the number of topics.

Entries can be made again from the log, so nothing is lost with them: a killed process leaves a little more to recovery,
which begins where the checkpoint says. A row that cannot be written keeps its bytes in memory and visible; the others
are written all the same, and messages are refused until it can be written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gantrymq.interfaces import DispatchEntry
from gantrymq.world import is_full
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.file_row import FileRow
from gantrymq_store_files.queue_entry import ENTRY_BYTES

__all__ = ["MOST_KEPT_BYTES", "QueueTails", "Target"]

MOST_WAITING_BYTES: Final = 131_072 * ENTRY_BYTES  # 2.6 MB, a millisecond to write where they are of one queue
MOST_KEPT_BYTES: Final = 32 * 1024**2  # in memory until they are durable; more asks for a checkpoint

Target = ConsumeQueue | BatchQueue | None


class QueueTails:
    """Rows with bytes that are in no file, or not durable. All methods belong to the event loop."""

    def __init__(self) -> None:
        self.misplaced: str | None = None  # an entry did not follow its queue's newest; only a start can mend that
        self.kept_bytes = 0  # of all tails, roughly: at least what they hold
        self.unsynced: dict[FileRow, None] = {}  # rows with a tail
        self._ticks = 0
        self._waiting: dict[FileRow, int] = {}  # longest first; the tick in which the oldest unwritten byte came
        self.waiting_bytes = 0  # in no file, of all rows
        self._failed: dict[FileRow, OSError] = {}  # rows whose last write failed

    @property
    def refusal(self) -> str | None:
        """Why messages are refused: a row cannot be written. None while all can."""
        for row, error in self._failed.items():
            return f"queue {row.topic}/{row.queue_id} cannot be written: {error}"
        return self.misplaced

    @property
    def full(self) -> bool:
        """Whether a row found no room."""
        return any(map(is_full, self._failed.values()))

    def add(self, entries: Sequence[DispatchEntry], targets: Sequence[Target], packed: Sequence[bytes]) -> None:
        """Append each entry to its queue and make it visible."""
        added = 0
        for entry, queue, item in zip(entries, targets, packed, strict=True):
            if queue is None or queue.dropped:
                continue
            if not queue.unwritten:
                self.begin(queue)
            if type(queue) is ConsumeQueue and queue.ext is None and entry[2] * ENTRY_BYTES == queue.end:
                queue.tail += item
                queue.unwritten += ENTRY_BYTES  # before the end: threads look at `written`, and may get it too low
                queue.end += ENTRY_BYTES
                added += ENTRY_BYTES
            else:
                added += self._add_unusual(entry, queue, item)
        self.grown(added)

    def begin(self, row: FileRow) -> None:
        """Bytes are about to be appended to *row*, which has none that are in no file."""
        self._waiting[row] = self._ticks
        self.unsynced[row] = None

    def appended(self, row: FileRow, length: int) -> None:
        """So many bytes were appended to *row*."""
        if row not in self._waiting:
            self.begin(row)
        self.grown(length)

    def grown(self, length: int) -> None:
        """So many bytes were appended to rows; where too many wait, those that have waited longest are written."""
        self.waiting_bytes += length
        self.kept_bytes += length
        if self.waiting_bytes > MOST_WAITING_BYTES:
            for row in list(self._waiting):
                if self.waiting_bytes <= MOST_WAITING_BYTES:
                    break
                if row not in self._failed:
                    self.write(row)

    def _add_unusual(self, entry: DispatchEntry, queue: ConsumeQueue | BatchQueue, item: bytes) -> int:
        """An entry of a batch queue, of a queue with ext files, or that does not follow; how many bytes it took."""
        ext = queue.ext if isinstance(queue, ConsumeQueue) else None
        before = queue.end + (ext.end if ext is not None else 0)
        if not queue.add(entry, item):
            if self.misplaced is None:
                self.misplaced = (
                    f"queue {queue.topic}/{queue.queue_id} goes on at {queue.max_offset}, but the record at log offset "
                    f"{entry.log_offset} says {entry.queue_offset}; it is in the log, restart the broker to have the "
                    "queue made again"
                )
            if not queue.unwritten:
                self._waiting.pop(queue, None)
            return 0
        if ext is not None and ext.unwritten and ext not in self._waiting:
            self.begin(ext)
        return queue.end + (ext.end if ext is not None else 0) - before

    # --- time -------------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Time passes: what is added from now on is younger. Returns the tick that has ended."""
        self._ticks += 1
        return self._ticks - 1

    def due(self, tick: int, most: int) -> list[FileRow]:
        """Up to *most* rows with bytes that came in *tick* or before, oldest first; those that failed are left out."""
        found: list[FileRow] = []
        for row, came in self._waiting.items():
            if came > tick or len(found) >= most:
                break
            if row not in self._failed:
                found.append(row)
        return found

    # --- writes -----------------------------------------------------------------------------------------------------

    def write(self, row: FileRow) -> bool:
        """Write what waits of *row*; False when that failed, which `refusal` tells."""
        unwritten = row.unwritten
        try:
            row.write_tail()
        except OSError as error:
            self._failed[row] = error
            return False
        self._failed.pop(row, None)
        self.waiting_bytes -= unwritten
        self._waiting.pop(row, None)
        return True

    def write_all(self, rows: Iterable[FileRow] | None = None) -> bool:
        """Write everything that waits; False when some row failed."""
        written = [self.write(row) for row in list(self._waiting if rows is None else rows)]
        return all(written)

    def retry(self) -> None:
        """Try again the writes that failed."""
        for row in list(self._failed):
            self.write(row)

    # --- durability -------------------------------------------------------------------------------------------------

    def synced(self, row: FileRow, position: int) -> None:
        """Everything of *row* before *position* is durable."""
        if not row.dropped and row in self.unsynced:
            held = len(row.tail)
            row.synced(position)
            self.kept_bytes -= held - len(row.tail)
            if not row.tail:
                del self.unsynced[row]

    def rewrite(self) -> None:
        """A sync failed: whatever is not known to be durable is written again."""
        for row in self.unsynced:
            self.waiting_bytes += len(row.tail) - row.unwritten
            row.rewrite()
            if row not in self._waiting:
                self._waiting[row] = self._ticks

    def forget(self, row: FileRow) -> None:
        """Drop what waits of a row that is deleted, or begins anew."""
        if row in self.unsynced:
            self.waiting_bytes -= row.unwritten
            self.kept_bytes -= len(row.tail)
            for table in (self.unsynced, self._waiting, self._failed):
                table.pop(row, None)
