"""The log in memory and its queues, with the methods of `gantrymq.interfaces.RawLog`.

The log is one range of bytes without files. A blank at the end of a file is kept if it was copied from another log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

from gantrymq.errors import LogMismatch, StoreError
from gantrymq.plugin.formats import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.plugin.interfaces import DispatchEntry, LogRange, Segment
from gantrymq.plugin.model import Queue
from gantrymq.plugin.sys_flag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from gantrymq_store_files.log_listeners import LogListeners
from gantrymq_store_files.raw_records import mismatch, read_raw_records

_MAX_GAP_ENTRIES: Final = 1_000_000  # a larger gap between two records of a queue means that the second is damaged
_DELAY_LEVELS_MS: Final = parse_delay_levels(DEFAULT_DELAY_LEVELS)

start_of = attrgetter("log_offset")


class MemoryRawLog(LogListeners):
    """Log and queues of a `MemoryStore`."""

    def __init__(self, report: Callable[[str], object]) -> None:
        super().__init__(report)
        self._base = 0  # log offset of the first byte
        self._bytes = bytearray()
        self._log: list[DispatchEntry] = []  # of all records
        self._blanks: list[int] = []  # log offsets
        self._published = 0  # number of published entries of the log
        self._queues: dict[Queue, list[DispatchEntry]] = {}  # published entries, consecutive
        self._first: dict[Queue, int] = {}  # queue offset of the first entry, of queues that do not begin at 0
        self._next: dict[Queue, int] = {}  # queue offset of the next record
        self._misplaced: set[int] = set()  # log offsets of records that are in no queue
        self._dropped: dict[str, int] = {}  # topic to the log's end when it was last dropped
        self._store_time = 0
        self._refusal: str | None = "the store is not started"
        self._limit: int | None = None

    # --- reading ----------------------------------------------------------------------------------------------------

    def log_range(self) -> LogRange:
        """Return the range of the log."""
        return LogRange(self._base, self._end())

    def read_log(self, start: int, max_bytes: int) -> bytes:
        """Return up to *max_bytes* from *start* on."""
        if not self._base <= start <= self._end():
            raise LogMismatch(f"log offset {start} is outside the log, which has {self._base} to {self._end()}")
        return bytes(self._bytes[start - self._base :][: max(max_bytes, 0)])

    def sealed_segments(self) -> Sequence[Segment]:
        """Return nothing: there are no files."""
        return ()

    @property
    def visibility_limit(self) -> int | None:
        """Log offset after which nothing becomes visible."""
        return self._limit

    def limit_visibility(self, log_offset: int | None) -> None:
        """Set `visibility_limit`."""
        self._limit = log_offset
        self._tell(self._limit_moved)

    # --- copying ----------------------------------------------------------------------------------------------------

    def append_raw(self, log_offset: int, data: bytes | memoryview) -> int:
        """Append the whole records at the start of *data*."""
        self._check_writable()
        if log_offset != self._end() and (self._bytes or self._base):
            raise LogMismatch(f"the log ends at {self._end()}, so bytes at {log_offset} cannot be appended")
        data, place = bytes(data), 0
        while True:
            rest, at = data[place:], log_offset + place
            found = read_raw_records(rest, at, None, delay_levels_ms=_DELAY_LEVELS_MS, check_crc=True)
            batch = next((entry for entry in found.entries if entry.sys_flag & INNER_BATCH), None)
            if batch is not None:
                raise StoreError(
                    f"the record at log offset {batch.log_offset} is an inner batch (queue.type=BatchCQ), which "
                    "store=memory does not support; use store=mmap"
                )
            if not (size := found.size + found.blank):
                break
            if not self._bytes and not self._base:
                self._base = log_offset
            self._bytes += rest[:size]
            if found.blank:
                self._blanks.append(at + found.size)
            for entry in found.entries:
                self._take(entry)
            place += size
        if place:
            self._tell(self._appended, self._end())
        if found.problem:
            raise mismatch(self._end(), found.problem)
        return self._end()

    def _take(self, entry: DispatchEntry) -> None:
        """Append the entry of a copied record, which may leave out queue offsets."""
        self._log.append(entry)
        self._store_time = max(self._store_time, entry.store_timestamp)
        if not has_queue_entry(entry.sys_flag) or entry.log_offset < self._dropped.get(entry.topic, 0):
            return
        queue = Queue(entry.topic, entry.queue_id)
        expected = self._next.get(queue)
        if expected and entry.queue_offset == 0:  # the topic was deleted and created again
            self._drop(entry.topic, entry.log_offset)
        elif expected is not None and not expected <= entry.queue_offset <= expected + _MAX_GAP_ENTRIES:
            self._misplaced.add(entry.log_offset)
            return
        self._next[queue] = entry.queue_offset + 1

    def _list(self, entry: DispatchEntry) -> None:
        """Append a published entry to its queue; it also takes the queue offsets of lost messages before it."""
        if entry.log_offset in self._misplaced:
            return
        queue = Queue(entry.topic, entry.queue_id)
        entries = self._queues.setdefault(queue, [])
        if not entries and queue not in self._first and entry.queue_offset:
            self._first[queue] = entry.queue_offset
        entries += [entry] * (entry.queue_offset + 1 - len(entries) - self._first.get(queue, 0))

    # --- truncating -------------------------------------------------------------------------------------------------

    async def truncate(self, log_offset: int) -> None:
        """Remove everything at and after *log_offset*."""
        self._check_writable()
        number = bisect_left(self._log, log_offset, key=start_of)
        starts = number < len(self._log) and self._log[number].log_offset == log_offset
        if not (starts or log_offset in self._blanks or log_offset in (self._base, self._end())):
            raise LogMismatch(f"no record starts at log offset {log_offset}, so the log cannot be truncated there")
        if log_offset == self._end():
            return
        removed = self._log[number:]
        del self._log[number:]
        self._published = min(self._published, number)
        for queue in {Queue(entry.topic, entry.queue_id) for entry in removed}:
            entries = self._queues.get(queue, [])
            while entries and entries[-1].log_offset >= log_offset:
                entries.pop()
            left = [
                entry.queue_offset
                for entry in self._log[self._published :]
                if (entry.topic, entry.queue_id) == queue and has_queue_entry(entry.sys_flag)
            ]
            self._next[queue] = left[-1] + 1 if left else self._first.get(queue, 0) + len(entries)
            if not self._next[queue]:
                del self._next[queue]
                self._queues.pop(queue, None)
        self._misplaced = {each for each in self._misplaced if each < log_offset}
        self._dropped = {topic: min(end, log_offset) for topic, end in self._dropped.items()}
        self._blanks = [each for each in self._blanks if each < log_offset]
        self._tell(self._truncated, log_offset)
        del self._bytes[log_offset - self._base :]

    async def hide(self, log_offset: int) -> None:
        """Make everything at and after *log_offset* invisible again."""
        number = bisect_left(self._log, log_offset, key=start_of)
        starts = number < len(self._log) and self._log[number].log_offset == log_offset
        if not (starts or log_offset in self._blanks or log_offset == self._end()):
            raise LogMismatch(f"no record starts at log offset {log_offset}, so nothing can be hidden from there on")
        self._limit = log_offset
        if number < self._published:
            hidden, self._published = self._log[number : self._published], number
            for queue in {Queue(entry.topic, entry.queue_id) for entry in hidden}:
                entries = self._queues.get(queue, [])
                while entries and entries[-1].log_offset >= log_offset:
                    entries.pop()
            self._tell(self._truncated, log_offset)
            self._tell(self._appended, self._end())
        self._tell(self._limit_moved)

    # --- shared with the store --------------------------------------------------------------------------------------

    def _check_writable(self) -> None:
        if self._refusal is not None:
            raise StoreError(self._refusal)

    def _record(self, entry: DispatchEntry) -> bytes:
        start = entry.log_offset - self._base
        return bytes(self._bytes[start : start + entry.size])

    def _drop(self, topic: str, log_offset: int) -> None:
        """Forget the queues of *topic*, whose records before *log_offset* are deleted."""
        self._dropped[topic] = log_offset
        for queue in [queue for queue in self._next if queue.topic == topic]:
            del self._next[queue]
            self._queues.pop(queue, None)
            self._first.pop(queue, None)

    def _end(self) -> int:
        return self._base + len(self._bytes)

    def _published_offset(self) -> int:
        return end_of(self._log[self._published - 1]) if self._published else self._base


def has_queue_entry(sys_flag: int) -> bool:
    """False for prepared and rolled back messages (store/.../DefaultMessageStore.java, CommitLogDispatcher...)."""
    return sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)


def end_of(entry: DispatchEntry) -> int:
    """Return the log offset after the record of *entry*."""
    return entry.log_offset + entry.size
