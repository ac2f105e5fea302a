"""Which records one get returns: the limits, and the runs of the log they lie in.

An entry that names the same record as the entry before it stands for a message that was lost to damage
(see `recovery.requeue`); the record is returned once.

Source: apache/rocketmq store/.../DefaultMessageStore.java (isTheBatchFull, checkInMemByCommitOffset).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final

from gantrymq.errors import FormatError
from gantrymq.formats.record import read_record
from gantrymq.interfaces import GetLimit, GetResult, GetStatus, MessageFilter
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.reading.entry_repair import is_impossible
from gantrymq_store_files.queue_entry import ENTRY, is_pre_blank

__all__ = ["MAX_EXAMINED", "Selection", "outside"]

MIN_PULL_BYTES = 100
MAX_PULL_BYTES = 128 * 1024 * 1024
MAX_EXAMINED: Final = 4096  # entries in one get through a filter, however many messages its reader wants


def outside(queue_offset: int, low: int, high: int) -> GetResult:
    """What a get of *queue_offset* gets, which is not in ``[low, high)``, the bounds of its queue."""
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    if queue_offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if queue_offset == high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)


class Selection:
    """Filled entry by entry; at least one record is taken however large it is."""

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
        """*queue_offset*: of the first entry that is looked at."""
        self._log = log
        most_bytes, most = min(max(limit.max_bytes, MIN_PULL_BYTES), MAX_PULL_BYTES), limit.max_count
        # Most bytes and most records, near the log's end and further back.
        self._near = min(most_bytes, options.memory_limit_bytes), min(most, options.memory_limit_count)
        self._far = min(most_bytes, options.disk_limit_bytes), min(most, options.disk_limit_count)
        self._memory_from = log.end - options.memory_window_bytes
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self._before = self.next_offset = queue_offset
        self.count = 0
        self.size = 0
        self.runs: list[tuple[int, int]] = []  # log offsets [start, end), each within one file
        self._last = -1  # log offset of the record that was taken last
        self.wrong = False  # whether an entry names what was never in the log

    def full(self, log_offset: int, size: int) -> bool:
        """Whether the entry is one too many."""
        most_bytes, most = self._near if log_offset >= self._memory_from else self._far
        return self.count > 0 and (self.size + size > most_bytes or self.count >= most)

    def present(self, log_offset: int, size: int) -> bool:
        """Whether the record can be in the log."""
        log = self._log
        return log.min_offset <= log_offset < log_offset + size <= log.end and not is_pre_blank(log_offset, size)

    def add(self, log_offset: int, size: int) -> None:
        """Take a record, unless it is the one that was taken last."""
        runs = self.runs
        if runs and runs[-1][1] == log_offset:
            runs[-1] = (runs[-1][0], log_offset + size)
        elif log_offset == self._last:
            return
        else:
            runs.append((log_offset, log_offset + size))
        self._last = log_offset
        self.count += 1
        self.size += size
        self.status = GetStatus.FOUND

    def add_matching(self, log_offset: int, size: int, data: bytes | memoryview, match: MessageFilter) -> bool:
        """Take the record *data* if the second stage lets it pass; whether it did. No record is one that is gone."""
        try:
            record = read_record(data)
        except FormatError:
            self.missed()
            return False
        passes = match.match_message(record)
        if passes:
            self.add(log_offset, size)
        else:
            self.skipped()
        return passes

    def examine(self, end_offset: int) -> None:
        """Go on behind an entry, which ends at *end_offset*."""
        self._before, self.next_offset = self.next_offset, end_offset

    def step_back(self) -> None:
        """Go on at the entry that was looked at last: its filter wants to be asked again in another turn."""
        self.next_offset = self._before

    def skipped(self) -> None:
        """A filter said no."""
        if not self.count:
            self.status = GetStatus.NO_MATCHED_MESSAGE

    def missed(self) -> None:
        """The record is not there (any more)."""
        if not self.count:
            self.status = GetStatus.MESSAGE_WAS_REMOVING

    def take_all(self, data: bytes) -> None:
        """Take every record of packed entries *data* until full.

        The same as `full`, `present` and `add` for each, in one loop.
        """
        low, end, memory_from = self._log.min_offset, self._log.end, self._memory_from
        near, far = self._near, self._far
        runs, last, count, size = self.runs, self._last, self.count, self.size
        looked = missed_first = 0
        begin, behind = runs.pop() if runs else (0, -1)  # the run that may go on
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
            if log_offset == behind:
                behind += record_bytes
            elif log_offset == last:
                continue
            else:
                if behind >= 0:
                    runs.append((begin, behind))
                begin, behind = log_offset, log_offset + record_bytes
            last = log_offset
            count += 1
            size += record_bytes
        if behind >= 0:
            runs.append((begin, behind))
        self.next_offset += looked
        self._last, self.count, self.size = last, count, size
        if count:
            self.status = GetStatus.FOUND
        elif missed_first:
            self.status = GetStatus.MESSAGE_WAS_REMOVING

    def refuse(self, count: int, size: int) -> None:
        """Records that were taken turned out damaged: they are not returned."""
        self.count -= count
        self.size -= size
        if not self.count:
            self.status = GetStatus.MESSAGE_WAS_REMOVING

    def split(self) -> Selection:
        """An empty selection that is full when this one with its records added would be."""
        rest = copy(self)
        rest.runs = []
        return rest

    def result(
        self, min_offset: int, max_offset: int, buffers: Sequence[bytes | memoryview], *, cold: bool = False
    ) -> GetResult:
        """What was taken; *buffers* are the bytes of `runs`. Bytes that are gone by now make it "was removing"."""
        if cold and sum(map(len, buffers)) != self.size:
            return GetResult(GetStatus.MESSAGE_WAS_REMOVING, self.next_offset, min_offset, max_offset, cold=True)
        return GetResult(self.status, self.next_offset, min_offset, max_offset, buffers, self.count, self.size, cold)
