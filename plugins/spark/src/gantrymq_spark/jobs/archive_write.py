"""Writes messages to archive files: Arrow batches, divided by topic and day, as Parquet."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gantrymq.plugin.model import Queue
from gantrymq_spark.columns import schema
from gantrymq_spark.jobs.archive_layout import NO_DATE, ArchivedFile, folder_of, safe_name
from gantrymq_spark.jobs.archive_manifest import Archive
from gantrymq_spark.jobs.archive_plan import ArchiveRange

FILE_BYTES = 256 * 1024 * 1024  # of messages in memory, before Parquet's compression
Stage = Callable[[str, bytes], int]


def archive_batches(
    archive: Archive,
    wanted: Sequence[ArchiveRange],
    batches: Iterable[pa.RecordBatch],
    *,
    log_ends: dict[str, int] | None = None,
    file_bytes: int = FILE_BYTES,
) -> list[ArchivedFile]:
    """Archive the rows of *batches* within the ranges *wanted* with one commit; return the files.

    Args:
        batches: all columns of messages; rows outside the ranges are dropped.
        log_ends: by broker name, the log offset up to which *batches* have every record, if they do.
        file_bytes: memory limit, shared by topics and days that are written at the same time.

    Raises:
        StoreError, OSError: as `Archive.commit`.
    """
    rows = (rows_in_ranges(batch, wanted) for batch in batches)
    added = list(staged_files(rows, archive.stage, file_bytes=file_bytes))
    progress = {each.key: each.after(archive.state.progress.get(each.key)) for each in wanted}
    archive.commit(added, progress, log_ends)
    return added


def rows_in_ranges(batch: pa.RecordBatch, wanted: Sequence[ArchiveRange]) -> pa.RecordBatch:
    """Return the rows of *batch* within the ranges *wanted*."""
    offsets = batch["queueOffset"].to_numpy()
    kept = np.zeros(len(offsets), dtype=bool)
    named = {(each.broker_name, each.queue): each for each in wanted}
    for (broker_name, topic, queue_id), rows in _groups(batch, ("brokerName", "topic", "queueId")):
        each = named.get((broker_name or "", Queue(topic, queue_id)))
        if each is not None:
            kept[rows] = (offsets[rows] >= each.start) & (offsets[rows] < each.end)
    return batch.filter(pa.array(kept))


def staged_files(
    batches: Iterable[pa.RecordBatch], stage: Stage, *, file_bytes: int = FILE_BYTES
) -> Iterator[ArchivedFile]:
    """Write all rows to files by *stage*, one broker, topic and day each; yield their descriptions for a commit."""
    waiting: dict[tuple[str, str, str], list[pa.RecordBatch]] = {}
    held = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        batch = batch.cast(schema()) if batch.schema != schema() else batch
        days = pc.fill_null(pc.strftime(batch["storeTimestamp"], "%Y-%m-%d"), NO_DATE)
        dated = batch.append_column("date", days)
        for (broker_name, topic, date), rows in _groups(dated, ("brokerName", "topic", "date")):
            piece = batch.take(pa.array(rows))
            waiting.setdefault((broker_name or "", topic, date), []).append(piece)
            held += piece.nbytes
        while held > file_bytes:
            largest = max(waiting, key=lambda key: sum(piece.nbytes for piece in waiting[key]))
            pieces = waiting.pop(largest)
            held -= sum(piece.nbytes for piece in pieces)
            yield _write(largest, pieces, stage)
    for key, pieces in sorted(waiting.items()):
        yield _write(key, pieces, stage)


def _write(key: tuple[str, str, str], pieces: list[pa.RecordBatch], stage: Stage) -> ArchivedFile:
    broker_name, topic, date = key
    table = pa.Table.from_batches(pieces).sort_by([("queueId", "ascending"), ("queueOffset", "ascending")])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    name = f"{safe_name(broker_name) or 'store'}-{uuid.uuid4().hex}.parquet"
    size = stage(name, sink.getvalue().to_pybytes())
    spans = table.group_by("queueId").aggregate([("queueOffset", "min"), ("queueOffset", "max")]).to_pylist()
    times = pc.min_max(table["storeTimestamp"].cast(pa.int64())).as_py()
    return ArchivedFile(
        f"{folder_of(topic, date)}/{name}",
        broker_name,
        topic,
        date,
        table.num_rows,
        size,
        (times["min"] or 0) // 1000,
        (times["max"] or 0) // 1000,
        {row["queueId"]: (row["queueOffset_min"], row["queueOffset_max"] + 1) for row in spans},
    )


def _groups(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield distinct values of the columns *names*, each with its row indexes in order."""
    if not batch.num_rows:
        return
    columns = [batch[name].dictionary_encode() for name in names]
    codes = [column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) for column in columns]
    order = np.lexsort(codes[::-1])
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = False
    for code in codes:
        begins[1:] |= np.diff(code[order]) != 0
    for rows in np.split(order, np.flatnonzero(begins)[1:]):
        yield tuple(batch[name][int(rows[0])].as_py() for name in names), np.sort(rows)
