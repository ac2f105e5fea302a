"""Which records one get returns: the limits, and the runs of the log they lie in.

An entry that names the same record as the entry before it stands for a message that was lost to damage
(see `queue_rebuild`); the record is returned once.

Source: apache/rocketmq store/.../DefaultMessageStore.java (isTheBatchFull, checkInMemByCommitOffset).
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.formats.queue_entry import ENTRY, is_pre_blank
from gantrymq.interfaces import GetLimit, GetResult, GetStatus
from gantrymq_storage_mmap.commit_log import CommitLog
from gantrymq_storage_mmap.options import Options

__all__ = ["Selection"]

MIN_PULL_BYTES = 100
MAX_PULL_BYTES = 128 * 1024 * 1024


class Selection:
    """Filled entry by entry; at least one record is taken however large it is."""

    __slots__ = (
        "_last",
        "_limit",
        "_log",
        "_max_bytes",
        "_memory_from",
        "_options",
        "count",
        "next_offset",
        "runs",
        "size",
        "status",
    )

    def __init__(self, log: CommitLog, options: Options, queue_offset: int, limit: GetLimit) -> None:
        """*queue_offset*: of the first entry that is looked at."""
        self._log = log
        self._options = options
        self._limit = limit
        self._max_bytes = min(max(limit.max_bytes, MIN_PULL_BYTES), MAX_PULL_BYTES)
        self._memory_from = log.end - options.memory_window_bytes
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.next_offset = queue_offset
        self.count = 0
        self.size = 0
        self.runs: list[tuple[int, int]] = []  # log offsets [start, end), each within one file
        self._last = -1  # log offset of the record that was taken last

    def full(self, log_offset: int, size: int) -> bool:
        """Whether the entry is one too many."""
        count = self.count
        if not count:
            return False
        total = self.size + size
        if count >= self._limit.max_count or total > self._max_bytes:
            return True
        options = self._options
        if log_offset >= self._memory_from:
            return total > options.memory_limit_bytes or count >= options.memory_limit_count
        return total > options.disk_limit_bytes or count >= options.disk_limit_count

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

    def skipped(self) -> None:
        """A filter said no."""
        if not self.count:
            self.status = GetStatus.NO_MATCHED_MESSAGE

    def missed(self) -> None:
        """The record is not there (any more)."""
        if not self.count:
            self.status = GetStatus.MESSAGE_WAS_REMOVING

    def take_all(self, data: bytes) -> None:
        """Take every record of packed entries *data* until full. Budget: 0.3 us an entry."""
        add, full = self.add, self.full
        for log_offset, size, _ in ENTRY.iter_unpack(data):
            if full(log_offset, size):
                if log_offset == self._last:
                    self.next_offset += 1
                    continue
                break
            self.next_offset += 1
            if self.present(log_offset, size):
                add(log_offset, size)
            else:
                self.missed()

    def refuse(self, count: int, size: int) -> None:
        """Records that were taken turned out damaged: they are not returned."""
        self.count -= count
        self.size -= size
        if not self.count:
            self.status = GetStatus.MESSAGE_WAS_REMOVING

    def split(self) -> Selection:
        """An empty selection that is full when this one with its records added would be."""
        rest = Selection(self._log, self._options, self.next_offset, self._limit)
        rest.count, rest.size, rest._last = self.count, self.size, self._last
        return rest

    def result(
        self, min_offset: int, max_offset: int, buffers: Sequence[bytes | memoryview], *, cold: bool = False
    ) -> GetResult:
        """What was taken; *buffers* are the bytes of `runs`. Bytes that are gone by now make it "was removing"."""
        if cold and sum(map(len, buffers)) != self.size:
            return GetResult(GetStatus.MESSAGE_WAS_REMOVING, self.next_offset, min_offset, max_offset, cold=True)
        return GetResult(self.status, self.next_offset, min_offset, max_offset, buffers, self.count, self.size, cold)
