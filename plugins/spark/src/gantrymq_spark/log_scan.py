"""Reads a range of a log as Arrow batches and records damage.

A run of sound records is read in one step (`record_run`). `LogWalk` handles everything between runs: the first record
of a range, blanks, ends of files, unusual records and damage.

Ranges of a log without a sound record are the rows of the source ``gantrymq.damage``:

- ``path``: the file, null if files are missing. ``commitLogOffset``, ``size``: the range, in bytes.
- ``kind``: ``damaged`` (a record contradicts itself), ``torn`` (an unfinished write), ``zeros`` (pages that never
  reached the disk), ``missing`` (missing files), ``unreadable`` (the system returns an error), ``remains`` (of an older
  log that a broker cut off), ``filler`` (written by `gantrymq store repair` in place of lost bytes).
- ``damage``: false if nothing is lost: the end of a log that a broker is writing or did not finish, as far as the
  checkpoint does not cover it, and remains.
- ``problem``: a sentence. ``storeTimestamp``: of the record before it, null without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.world import Files
from gantrymq_spark.batches import RowOptions, batch_of
from gantrymq_spark.record_run import sound_run
from gantrymq_spark.records import Records
from gantrymq_spark.store_options import StoreRange
from gantrymq_store_files.filler import is_filler
from gantrymq_store_files.log_walk import LogDamage, LogWalk, align
from gantrymq_store_tools.log_reader import LogReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_COLUMNS: dict[str, Any] = {
    "path": pa.string(),
    "kind": pa.string(),
    "damage": pa.bool_(),
    "commitLogOffset": pa.int64(),
    "size": pa.int64(),
    "problem": pa.string(),
    "storeTimestamp": pa.timestamp("us", tz="UTC"),
}
_CHUNK_BYTES = 4 * 1024 * 1024  # fits in a processor's cache; half and twice the size were slower
_RETRY_AFTER_RECORDS = 64  # records to read one by one after an unusual one
RecordFilter = Callable[[Records], Records]


class Damage(NamedTuple):
    """One row."""

    path: str | None
    kind: str
    damage: bool
    log_offset: int
    size: int  # bytes
    problem: str
    timestamp: int  # ms, 0 for none


def damage_schema() -> pa.Schema:
    """Return the Arrow schema."""
    return pa.schema(list(_COLUMNS.items()))


def damage_spark_schema() -> StructType:
    """Return the same schema for Spark, all columns nullable. Imports pyspark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(damage_schema())


def damage_batch(found: Iterable[Damage]) -> pa.RecordBatch:
    """Return the rows of *found*."""
    rows = [
        dict(zip(_COLUMNS, (*each[:-1], each.timestamp * 1000 if each.timestamp else None), strict=True))
        for each in found
    ]
    return pa.RecordBatch.from_pylist(rows, schema=damage_schema())


class LogScan:
    """One pass over one range. `damages` is complete when the pass has ended."""

    def __init__(self, files: Files, part: StoreRange, *, check_crc: bool = True) -> None:
        """Create the scan without opening a file."""
        self.damages: list[Damage] = []
        self.records = 0
        self._part = part
        self._check_crc = check_crc
        self._reader = LogReader(files, part.log)

    def batches(self, options: RowOptions, wanted: RecordFilter | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range in log order.

        Args:
            options: columns and options.
            wanted: selects some of the records; None for all.

        Raises:
            FormatError: as `batch_of`.
        """
        for records in self.runs():
            chosen = records if wanted is None else wanted(records)
            if len(chosen):
                yield batch_of(chosen, options)

    def runs(self) -> Iterator[Records]:
        """Yield runs of sound records in log order."""
        try:
            yield from self._runs()
        finally:
            self._reader.close()

    def _runs(self) -> Iterator[Records]:
        part = self._part
        start = align(self._reader, part.start)
        walk = LogWalk(
            self._reader,
            start,
            part.end,
            check_crc=self._check_crc,
            check_beyond_end=part.end < part.log_end,
            chunk_bytes=_CHUNK_BYTES,
        )
        found = iter(walk)
        single: list[RecordView] = []
        alone = 1  # records to read one by one before the next attempt
        while True:
            while alone <= 0 and walk.position < part.end:
                records = sound_run(walk.window(), walk.position, part.end, check_crc=self._check_crc)
                if records is None:
                    break
                yield from self._joined(single)
                self.records += len(records)
                yield records
                last = records.last(2)
                size = int(records.starts[-1]) + last[-1].total_size
                walk.skip(size, last[-1].store_timestamp, last[0].store_timestamp)
            each = next(found, None)
            if each is None:
                break
            if isinstance(each, LogDamage):
                self._add(each)
            elif is_filler(each):
                text = "a filler that `gantrymq store repair` wrote for damage; its body says where the bytes are kept"
                self._add(LogDamage("filler", each.log_offset, each.total_size, text, each.store_timestamp))
            else:
                first = each.log_offset == self._reader.file_start(each.log_offset)  # it follows a blank
                alone = 0 if first else _RETRY_AFTER_RECORDS if alone <= 0 else alone - 1
                single.append(each)
        yield from self._joined(single)
        self._finish(walk)

    def _joined(self, single: list[RecordView]) -> Iterator[Records]:
        if single:
            ends = np.cumsum([record.total_size for record in single])
            self.records += len(single)
            yield Records(b"".join([record.raw for record in single]), np.concatenate([[0], ends[:-1]]))
            single.clear()

    # --- damage -----------------------------------------------------------------------------------------------------

    def _finish(self, walk: LogWalk) -> None:
        part = self._part
        if 0 <= walk.zeros_from < part.log_end and part.end < part.log_end:
            text = f"zeros from log offset {walk.zeros_from}, but the log continues at {walk.position}"
            size = walk.position - walk.zeros_from
            self._add(LogDamage("zeros", walk.zeros_from, size, text, walk.last_timestamp))
        for place, size, problem in self._reader.unreadable:
            if part.start <= place < part.end:
                text = f"bytes at log offset {place} cannot be read: {problem}"
                self._add(LogDamage("unreadable", place, size, text, 0))

    def _add(self, found: LogDamage) -> None:
        part = self._part
        is_damage = found.kind not in ("remains", "filler")
        if is_damage and part.vouched_ms is not None and found.end >= part.log_end:
            is_damage = found.timestamp < part.vouched_ms
        file = self._reader.file_at(found.log_offset)
        path = None if file is None else str(file.path)
        self.damages.append(Damage(path, found.kind, is_damage, *found[1:]))
