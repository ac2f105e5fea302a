"""Queue entries in memory: those that are in no file yet, and those that are in files but not durable yet.

With one topic, publishing could write many entries at once. With ten thousand topics it would be one write, and often
one open and close, per message. So entries wait in the in-memory tails of their files (`SegmentedFile`), where readers
find them. The file that has waited longest is written first: when `MOST_WAITING_BYTES` are waiting, or when its oldest
bytes have waited for several ticks. Writing n entries costs the same as writing one, whatever the number of topics.

Every second (a tick), `EntryWriter` writes the entries that arrived `AGE_TICKS` ago or earlier, a few files at a time:
writing ten thousand files at once would block the event loop. Nothing is synced here; the checkpoint does that.

Entries can be rebuilt from the log, so a killed process loses nothing; recovery, which starts at the checkpoint, only
has a little more to read. If a file cannot be written, its bytes stay in memory and visible, the other files are still
written, and messages are refused until the write succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq.plugin.world import MAX_SLICE_S, Clock, Timer, is_disk_full
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile
from gantrymq_store_files.queue_entry import ENTRY_BYTES

MOST_WAITING_BYTES: Final = 131_072 * ENTRY_BYTES  # 2.6 MB: 1 ms to write if they belong to one queue
MOST_KEPT_BYTES: Final = 32 * 1024**2  # in memory until they are durable; more of them trigger a checkpoint
AGAIN: Final = "; its entries stay in memory, and messages are accepted again once the disk takes them"
Target = ConsumeQueue | BatchQueue | None
_RUN: Final = 16  # entries of one queue that are cheaper to add at once
AGE_TICKS: Final = 5  # an entry is in its file about 5 s after it became visible
SLICE_FILES: Final = 64  # written without a pause, unless they take longer than `MAX_SLICE_S`
PAUSE_S: Final = 0.01  # between slices


class PendingEntries:
    """Segmented files with bytes that are in no file, or not durable. All methods belong to the event loop."""

    def __init__(self) -> None:
        self.misplaced: str | None = None  # an entry is out of order; only a restart repairs that
        self.kept_bytes = 0  # upper estimate of the size of all tails
        self.unsynced: dict[SegmentedFile, None] = {}  # files with a tail
        self._ticks = 0
        self._waiting: dict[SegmentedFile, int] = {}  # oldest first; tick of the oldest unwritten byte
        self.waiting_bytes = 0  # bytes that are in no file
        self._failed: dict[SegmentedFile, OSError] = {}  # files whose last write failed

    @property
    def refusal(self) -> str | None:
        """Why messages are refused: a queue cannot be written. None while all of them can."""
        for segments, error in self._failed.items():
            return f"queue {segments.topic}/{segments.queue_id} cannot be written: {error}{AGAIN}"
        return self.misplaced

    @property
    def full(self) -> bool:
        """Whether a write failed because the disk is full."""
        return any(map(is_disk_full, self._failed.values()))

    def add(self, entries: Sequence[DispatchEntry], targets: Sequence[Target], packed: Sequence[bytes]) -> None:
        """Append each entry to its queue and make it visible."""
        added = self._add_run(entries, targets, packed) if len(targets) >= _RUN else 0
        if added == len(targets) * ENTRY_BYTES:
            self.count_appended(added)
            return
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
        self.count_appended(added)

    def _add_run(self, entries: Sequence[DispatchEntry], targets: Sequence[Target], packed: Sequence[bytes]) -> int:
        """Add consecutive entries of one ordinary queue at once; return their bytes, 0 if they are not that."""
        queue, start = targets[0], entries[0].queue_offset
        if (
            type(queue) is not ConsumeQueue
            or queue is not targets[-1]
            or queue.dropped
            or queue.ext is not None
            or start * ENTRY_BYTES != queue.end
            or targets.count(queue) < len(targets)
            or [entry[2] for entry in entries] != list(range(start, start + len(entries)))
        ):
            return 0
        if not queue.unwritten:
            self.begin(queue)
        queue.append(b"".join(packed))
        return len(entries) * ENTRY_BYTES

    def begin(self, segments: SegmentedFile) -> None:
        """Register *segments* before its first unwritten byte is appended."""
        self._waiting[segments] = self._ticks
        self.unsynced[segments] = None

    def appended(self, segments: SegmentedFile, length: int) -> None:
        """Account for *length* bytes that were appended to *segments*."""
        if segments not in self._waiting:
            self.begin(segments)
        self.count_appended(length)

    def count_appended(self, length: int) -> None:
        """Account for *length* appended bytes; if too many are waiting, write the oldest files."""
        self.waiting_bytes += length
        self.kept_bytes += length
        if self.waiting_bytes > MOST_WAITING_BYTES:
            for segments in list(self._waiting):
                if self.waiting_bytes <= MOST_WAITING_BYTES:
                    break
                if segments not in self._failed:
                    self.write(segments)

    def _add_unusual(self, entry: DispatchEntry, queue: ConsumeQueue | BatchQueue, item: bytes) -> int:
        """Add an entry of a batch queue or of a queue with ext files, or one out of order; return its bytes."""
        ext = queue.ext if isinstance(queue, ConsumeQueue) else None
        before = queue.end + (ext.end if ext is not None else 0)
        if not queue.add(entry, item):
            if self.misplaced is None:
                self.misplaced = (
                    f"queue {queue.topic}/{queue.queue_id} continues at {queue.max_offset}, but the record at log "
                    f"offset {entry.log_offset} says {entry.queue_offset}; it is in the log, restart the broker to "
                    "have the queue rebuilt"
                )
            if not queue.unwritten:
                self._waiting.pop(queue, None)
            return 0
        if ext is not None and ext.unwritten and ext not in self._waiting:
            self.begin(ext)
        return queue.end + (ext.end if ext is not None else 0) - before

    # --- time -------------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Advance the age of all waiting bytes. Return the number of the tick that has ended."""
        self._ticks += 1
        return self._ticks - 1

    def due(self, tick: int, most: int) -> list[SegmentedFile]:
        """Return up to *most* files with bytes from *tick* or earlier, oldest first, except those that failed."""
        found: list[SegmentedFile] = []
        for segments, came in self._waiting.items():
            if came > tick or len(found) >= most:
                break
            if segments not in self._failed:
                found.append(segments)
        return found

    # --- writes -----------------------------------------------------------------------------------------------------

    def write(self, segments: SegmentedFile) -> bool:
        """Write the waiting bytes of *segments*. Return False if that failed; see `refusal`."""
        unwritten = segments.unwritten
        try:
            segments.write_tail()
        except OSError as error:
            self._failed[segments] = error
            return False
        self._failed.pop(segments, None)
        self.waiting_bytes -= unwritten
        self._waiting.pop(segments, None)
        return True

    def write_all(self, segmented_files: Iterable[SegmentedFile] | None = None) -> bool:
        """Write all waiting bytes. Return False if any file failed."""
        written = [
            self.write(segments) for segments in list(self._waiting if segmented_files is None else segmented_files)
        ]
        return all(written)

    def retry(self) -> None:
        """Repeat the writes that failed."""
        for segments in list(self._failed):
            self.write(segments)

    # --- durability -------------------------------------------------------------------------------------------------

    def synced(self, segments: SegmentedFile, position: int) -> None:
        """Mark everything before *position* as durable."""
        if not segments.dropped and segments in self.unsynced:
            held = len(segments.tail)
            segments.synced(position)
            self.kept_bytes -= held - len(segments.tail)
            if not segments.tail:
                del self.unsynced[segments]

    def rewrite(self) -> None:
        """After a failed sync, schedule everything that is not known to be durable to be written again."""
        for segments in self.unsynced:
            self.waiting_bytes += len(segments.tail) - segments.unwritten
            segments.rewrite()
            if segments not in self._waiting:
                self._waiting[segments] = self._ticks

    def forget(self, segments: SegmentedFile) -> None:
        """Discard the pending bytes of a file that was deleted or starts over."""
        if segments in self.unsynced:
            self.waiting_bytes -= segments.unwritten
            self.kept_bytes -= len(segments.tail)
            for table in (self.unsynced, self._waiting, self._failed):
                table.pop(segments, None)


@attrs.define(eq=False)
class EntryWriter:
    """Background writer of pending entries. All methods belong to the event loop; nothing runs before `start`."""

    _pending: PendingEntries
    _clock: Clock
    _interval_ms: int  # between ticks (``flushIntervalConsumeQueue``)
    _timer: Timer | None = None
    _slice_timer: Timer | None = None  # set while files are being written slice by slice
    _due: int = -1  # ticks up to this one are to be written

    def start(self) -> None:
        """Start the ticks."""
        self._timer = self._clock.call_later(self._interval_ms / 1000, self._tick)

    def halt(self) -> None:
        """Stop without writing what is pending."""
        for timer in (self._timer, self._slice_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._slice_timer = None

    def _tick(self) -> None:
        self.start()
        self._pending.retry()
        self._due = self._pending.tick() - AGE_TICKS
        if self._slice_timer is None:
            self._write_slice()

    def _write_slice(self) -> None:
        self._slice_timer = None
        segmented_files, until = self._pending.due(self._due, SLICE_FILES), self._clock.monotonic() + MAX_SLICE_S
        written = 0
        while written < len(segmented_files) and self._clock.monotonic() <= until:
            self._pending.write(segmented_files[written])
            written += 1
        if written < len(segmented_files) or written == SLICE_FILES:
            self._slice_timer = self._clock.call_later(PAUSE_S, self._write_slice)
