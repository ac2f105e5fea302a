"""The work of the sources over a store's folder, on the driver and on executors, without Spark."""

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
from gantrymq_spark.damage import damage_batch
from gantrymq_spark.log_scan import LogScan
from gantrymq_spark.records import Records
from gantrymq_spark.store_options import StoreOptions
from gantrymq_spark.store_ranges import StoreRange, plan

T = TypeVar("T")


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
