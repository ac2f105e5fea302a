"""Work of the sources over a store's folder, on the driver and on executors, without Spark; the position of a stream.

The position is a log offset at which a record starts or will start. A micro-batch ends after the last sound record that
existed when it was planned, so a record that a broker is writing belongs to the next one. The offset is stored in
Spark's checkpoint and is all that a restart needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from gantrymq.errors import StoreError
from gantrymq.plugin.names import is_system_topic
from gantrymq.plugin.real_world import RealFiles
from gantrymq_spark.log_scan import LogScan, damage_batch
from gantrymq_spark.records import Records
from gantrymq_spark.store_options import EARLIEST, LATEST, StoreOptions, StoreRange, plan
from gantrymq_store_files.log_walk import LogWalk, align
from gantrymq_store_tools.log_reader import LogReader

_LOOK_BACK_BYTES = 8 * 1024 * 1024  # twice the longest record that brokers accept by default
T = TypeVar("T")


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
            if limit_bytes is not None and start + limit_bytes < log_end - _LOOK_BACK_BYTES:
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
        if start >= log_end or log_end - _LOOK_BACK_BYTES > start:
            at = align(reader, max(reader.start, log_end - _LOOK_BACK_BYTES))
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


def plan_read(options: StoreOptions) -> list[StoreRange]:
    """Return the ranges of the log, in log order.

    Raises:
        StoreError: the folder is not a store that can be read; one sentence.
    """
    return with_store_errors(options.path, lambda: plan(RealFiles(), options.path, options.split_bytes))


def with_store_errors(path: Path, work: Callable[[], T]) -> T:
    """Return the result of *work*; an OSError is raised as StoreError with one sentence."""
    try:
        return work()
    except PermissionError as problem:
        text = f"{problem.filename or path} may not be read by the user that Spark runs as; grant it read access to"
        raise StoreError(f"{text} the store (chmod -R a+rX {path}, or by group)") from None
    except OSError as problem:
        raise StoreError(f"{problem.filename or path} cannot be read: {problem.strerror or problem}") from None


def rows_of_range(options: StoreOptions, part: StoreRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one range.

    Raises:
        StoreError: a file was deleted or may not be read.
        FormatError: as `batch_of`.
    """
    scan = LogScan(RealFiles(), part, check_crc=options.check_crc)
    batches = scan.batches(options.row_options(columns), partial(_wanted, options))
    yield from _while_there(options, part, batches)


def _wanted(options: StoreOptions, records: Records) -> Records:
    if not options.system_topics:
        records = without_system_topics(records)
    return records.unwrapped() if options.unwrap_batches and len(records) else records


def damage_of_range(options: StoreOptions, part: StoreRange) -> Iterator[pa.RecordBatch]:
    """Yield the damage of one range as rows. Raises StoreError, as `rows_of_range`."""
    scan = LogScan(RealFiles(), part, check_crc=options.check_crc)
    yield from _while_there(options, part, _damage(scan))


def _damage(scan: LogScan) -> Iterator[pa.RecordBatch]:
    for _ in scan.runs():
        pass
    if scan.damages:
        yield damage_batch(scan.damages)


def _while_there(
    options: StoreOptions, part: StoreRange, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = with_store_errors(options.path, lambda: next(batches, None))
        except StoreError as problem:
            if not isinstance(problem.__context__, FileNotFoundError):
                raise
            if not options.fail_on_data_loss:
                return
            raise StoreError(
                f"{problem.__context__.filename} was deleted during the query, as brokers delete expired files; start "
                "it again, or set option failOnDataLoss to false to read the remaining files"
            ) from None
        if batch is None:
            return
        yield batch


def without_system_topics(records: Records) -> Records:
    """Return the records of user topics."""
    names, indices = records.coded_topics
    kept = [number for number, raw in enumerate(names) if not is_system_topic(raw.decode("utf-8", "replace"))]
    return records if len(kept) == len(names) else records.at(np.isin(indices.to_numpy(), kept))
