"""The position of a stream over a store's folder: a log offset at which a record starts or will start.

A micro-batch ends after the last sound record that existed when it was planned, so a record that a broker is writing
belongs to the next one. The offset is stored in Spark's checkpoint and is all that a restart needs.
"""

from __future__ import annotations

from gantrymq.errors import StoreError
from gantrymq.plugin.real_world import RealFiles
from gantrymq_spark.store_options import EARLIEST, LATEST, StoreOptions
from gantrymq_spark.store_ranges import StoreRange, plan
from gantrymq_store_files.log_walk import LogWalk, align
from gantrymq_store_tools.log_reader import LogReader

__all__ = ["LogTail"]

LOOK_BACK_BYTES = 8 * 1024 * 1024  # twice the longest record that brokers accept by default


class LogTail:
    """The growing log of one store; each call scans the folder again."""

    def __init__(self, options: StoreOptions) -> None:
        """Nothing is read yet."""
        self._options = options

    def initial(self) -> int:
        """Return the start of a new query."""
        starting = self._options.starting
        if starting == LATEST:
            return self.end()
        parts = self._parts(1 << 62)
        first = parts[0].log.start if parts else 0
        if starting == EARLIEST or not parts:
            return first
        assert isinstance(starting, int)
        if starting < first:
            return self._lost(starting, first)
        reader = LogReader(RealFiles(), parts[0].log)
        try:
            return align(reader, min(starting, parts[-1].log_end))
        finally:
            reader.close()

    def end(self, start: int | None = None, limit_bytes: int | None = None) -> int:
        """Return the end of the last sound record; with *limit_bytes* about that many bytes after *start*.

        Raises:
            StoreError: the log starts after *start*, or ends before it, and failOnDataLoss is not false.
        """
        parts = self._parts(1 << 62)
        if not parts:
            return start or 0
        log, log_end = parts[0].log, parts[-1].log_end
        reader = LogReader(RealFiles(), log)
        try:
            if start is None:
                start = log.start
            elif start < log.start:
                start = self._lost(start, log.start)
            if limit_bytes is not None and start + limit_bytes < log_end - LOOK_BACK_BYTES:
                return align(reader, start + limit_bytes)
            found = self._sound_end(reader, start, log_end)
            if limit_bytes is not None and start + limit_bytes < found:
                found = min(found, align(reader, start + limit_bytes))
            return found
        finally:
            reader.close()

    def partitions(self, start: int, end: int) -> list[StoreRange]:
        """Return the ranges of ``[start, end)``."""
        found = []
        for part in self._parts(self._options.split_bytes):
            first, last = max(part.start, start), min(part.end, end)
            if first < last:
                found.append(StoreRange(part.log, first, last, end, part.vouched_ms))
        return found

    def _parts(self, split_bytes: int) -> list[StoreRange]:
        return plan(RealFiles(), self._options.path, split_bytes)

    def _sound_end(self, reader: LogReader, start: int, log_end: int) -> int:
        """Walk over the last megabytes, or over the data since *start* if that is less."""
        at = start
        if start >= log_end or log_end - LOOK_BACK_BYTES > start:
            at = align(reader, max(reader.start, log_end - LOOK_BACK_BYTES))
        walk = LogWalk(reader, at, log_end, check_beyond_end=False)
        for _ in walk:
            pass
        if walk.sound_end < start and self._options.fail_on_data_loss:
            raise StoreError(
                f"the log ends at {walk.sound_end}, but was read up to {start}: a broker cut it, or this is another "
                "store; start a new query, or set option failOnDataLoss to false to wait for new records"
            )
        return max(start, walk.sound_end)

    def _lost(self, wanted: int, first: int) -> int:
        if self._options.fail_on_data_loss:
            raise StoreError(
                f"the log starts at {first}, after {wanted}, which is next: the files between were deleted as "
                "expired; set option failOnDataLoss to false to continue at the log's start"
            )
        return first
