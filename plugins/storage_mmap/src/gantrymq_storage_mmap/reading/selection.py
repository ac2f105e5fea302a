"""The records that one get returns: limits, and the runs of the log that contain them.

An entry that refers to the same record as the entry before it represents a message that was lost to damage (see
`recovery.requeue`); the record is returned once.

Source: apache/rocketmq store/.../DefaultMessageStore.java (isTheBatchFull, checkInMemByCommitOffset).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from copy import copy
from functools import cache
from operator import add, lt
from typing import Final

from gantrymq.errors import FormatError
from gantrymq.plugin.formats import read_record
from gantrymq.plugin.interfaces import GetLimit, GetResult, GetStatus, MessageFilter
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.reading.entry_repair import is_impossible
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, is_pre_blank

_MIN_PULL_BYTES = 100
_MAX_PULL_BYTES = 128 * 1024 * 1024
_PLAIN_ENTRIES: Final = 65  # a get of 64 messages examines one more
MAX_EXAMINED: Final = 4096  # entries per filtered get, whatever number of messages is requested


@cache
def _entries_of(count: int) -> struct.Struct:
    """Return the layout of *count* packed entries, at most `_PLAIN_ENTRIES`."""
    return struct.Struct(">" + ENTRY.format.removeprefix(">") * count)


def outside(queue_offset: int, low: int, high: int) -> GetResult:
    """Return the result for a *queue_offset* outside ``[low, high)``, the bounds of its queue."""
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    if queue_offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if queue_offset == high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)


class Selection:
    """Filled entry by entry; takes at least one record of any size."""

    __slots__ = (
        "_before",
        "_far",
        "_last",
        "_log",
        "_memory_from",
        "_near",
        "count",
        "next_offset",
        "runs",
        "size",
        "status",
        "wrong",
    )

    def __init__(self, log: CommitLog, options: Options, queue_offset: int, limit: GetLimit) -> None:
        """*queue_offset*: of the first entry to examine."""
        self._log = log
        most_bytes, most = min(max(limit.max_bytes, _MIN_PULL_BYTES), _MAX_PULL_BYTES), limit.max_count
        # Limits of bytes and records, near the log's end and further back.
        self._near = min(most_bytes, options.memory_limit_bytes), min(most, options.memory_limit_count)
        self._far = min(most_bytes, options.disk_limit_bytes), min(most, options.disk_limit_count)
        self._memory_from = log.end - options.memory_window_bytes
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self._before = self.next_offset = queue_offset
        self.count = 0
        self.size = 0
        self.runs: list[tuple[int, int]] = []  # log offsets [start, end), each within one file
        self._last = -1  # log offset of the last record taken
        self.wrong = False  # whether an entry refers to data that was never in the log

    def full(self, log_offset: int, size: int) -> bool:
        """Return whether the entry exceeds the limits."""
        most_bytes, most = self._near if log_offset >= self._memory_from else self._far
        return self.count > 0 and (self.size + size > most_bytes or self.count >= most)

    def room(self, log_offset: int) -> int:
        """Return how many records at *log_offset* may still be added, but at least 1."""
        _, most = self._near if log_offset >= self._memory_from else self._far
        return max(most - self.count, 1)

    def present(self, log_offset: int, size: int) -> bool:
        """Return whether the record can be in the log."""
        log = self._log
        return log.min_offset <= log_offset < log_offset + size <= log.end and not is_pre_blank(log_offset, size)

    def add(self, log_offset: int, size: int) -> bool:
        """Take a record, unless it is the last one taken. Return whether it was taken."""
        runs = self.runs
        if runs and runs[-1][1] == log_offset:
            runs[-1] = (runs[-1][0], log_offset + size)
        elif log_offset == self._last:
            return False
        else:
            runs.append((log_offset, log_offset + size))
        self._last = log_offset
        self.count += 1
        self.size += size
        self.status = GetStatus.FOUND
        return True

    def add_matching(self, log_offset: int, size: int, data: bytes | memoryview, match: MessageFilter) -> bool:
        """Take the record *data* if it passes the second filter stage; return whether it was taken."""
        try:
            record = read_record(data)
        except FormatError:
            self.missed()
            return False
        if match.match_message(record):
            return self.add(log_offset, size)
        self.skipped()
        return False

    def examine(self, end_offset: int) -> None:
        """Advance past an entry, which ends at *end_offset*."""
        self._before, self.next_offset = self.next_offset, end_offset

    def step_back(self) -> None:
        """Return to the last examined entry, whose filter postponed it to another turn."""
        self.next_offset = self._before

    def skipped(self) -> None:
        """Note that a filter rejected a record."""
        if not self.count:
            self.status = GetStatus.NO_MATCHED_MESSAGE

    def missed(self) -> None:
        """Note that a record is not, or no longer, in the log."""
        if not self.count:
            self.status = GetStatus.MESSAGE_WAS_REMOVING

    def take_all(self, data: bytes) -> None:
        """Take the records of packed entries *data* until full.

        Equivalent to `full`, `present` and `add` for each entry, in one loop.
        """
        if not self.runs and self._take_plain(data):
            return
        low, end, memory_from = self._log.min_offset, self._log.end, self._memory_from
        near, far = self._near, self._far
        runs, last, count, size = self.runs, self._last, self.count, self.size
        looked = missed_first = 0
        run_start, run_end = runs.pop() if runs else (0, -1)  # the run that may be extended
        for log_offset, record_bytes, _ in ENTRY.iter_unpack(data):
            most_bytes, most = near if log_offset >= memory_from else far
            if count and (size + record_bytes > most_bytes or count >= most):
                if log_offset != last:
                    break
                looked += 1
                continue
            looked += 1
            if not low <= log_offset < log_offset + record_bytes <= end or is_pre_blank(log_offset, record_bytes):
                missed_first = missed_first or not count
                self.wrong = self.wrong or is_impossible(log_offset, record_bytes, end)
                continue
            if log_offset == run_end:
                run_end += record_bytes
            elif log_offset == last:
                continue
            else:
                if run_end >= 0:
                    runs.append((run_start, run_end))
                    if log_offset < run_start:
                        self.wrong = True
                run_start, run_end = log_offset, log_offset + record_bytes
            last = log_offset
            count += 1
            size += record_bytes
        if run_end >= 0:
            runs.append((run_start, run_end))
        self.next_offset += looked
        self._last, self.count, self.size = last, count, size
        if count:
            self.status = GetStatus.FOUND
        elif missed_first:
            self.status = GetStatus.MESSAGE_WAS_REMOVING

    def _take_plain(self, data: bytes) -> bool:
        """Take records that are all apart, as in a log of several queues, or all adjacent; else return False."""
        entries = len(data) // ENTRY_BYTES
        if not 2 <= entries <= _PLAIN_ENTRIES:
            return False
        fields = _entries_of(entries).unpack_from(data)
        starts, sizes = fields[::3], fields[1::3]
        ends = tuple(map(add, starts, sizes))
        first = starts[0]
        if first < self._log.min_offset or ends[-1] > self._log.end or min(sizes) <= 0:
            return False
        nexts = starts[1:]
        adjacent = ends[:-1] == nexts
        if not adjacent and not all(map(lt, ends, nexts)):
            return False
        most_bytes, most = self._near if first >= self._memory_from else self._far
        count = min(entries, most)
        if not count or first < self._memory_from <= starts[-1] or (size := sum(sizes[:count])) > most_bytes:
            return False
        if adjacent:
            self.runs.append((first, ends[count - 1]))
        else:
            self.runs.extend(zip(starts[:count], ends, strict=False))
        self._last, self.count, self.size = starts[count - 1], count, size
        self.next_offset += count
        self.status = GetStatus.FOUND
        return True

    def settle(self, count: int, size: int) -> None:
        """Set number and bytes of the records that were read; the others are damaged, or were deleted meanwhile."""
        if self.count and not count:
            self.status = GetStatus.MESSAGE_WAS_REMOVING
        self.count, self.size = count, size

    def split(self) -> Selection:
        """Return an empty selection that is full when this one, with its records added, would be."""
        rest = copy(self)
        rest.runs = []
        return rest

    def result(
        self, min_offset: int, max_offset: int, buffers: Sequence[bytes | memoryview], *, cold: bool = False
    ) -> GetResult:
        """Return the result; *buffers* are the bytes of the records."""
        distant = 0 <= self._last < self._memory_from
        return GetResult(
            self.status, self.next_offset, min_offset, max_offset, buffers, self.count, self.size, cold, distant
        )
