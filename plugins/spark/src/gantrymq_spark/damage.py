"""Ranges of a log without a sound record, as rows of the source ``gantrymq.damage``.

- ``path``: the file, null if files are missing. ``commitLogOffset``, ``size``: the range, in bytes.
- ``kind``: ``damaged`` (a record contradicts itself), ``torn`` (an unfinished write), ``zeros`` (pages that never
  reached the disk), ``missing`` (missing files), ``unreadable`` (the system returns an error), ``remains`` (of an older
  log that a broker cut off), ``filler`` (written by `gantrymq store repair` in place of lost bytes).
- ``damage``: false if nothing is lost: the end of a log that a broker is writing or did not finish, as far as the
  checkpoint does not cover it, and remains.
- ``problem``: a sentence. ``storeTimestamp``: of the record before it, null without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

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
