"""Checks that look at messages one by one or by their unique keys: bodies, duplicates, dead letters, lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from gantrymq.model.queue import Queue
from gantrymq_spark.jobs.audit_findings import AuditFinding

__all__ = [
    "CRC_COLUMNS",
    "KEY_COLUMNS",
    "KEY_SCHEMA",
    "crc_findings",
    "dead_letters",
    "duplicate_keys",
    "key_places",
    "lag_findings",
]

CRC_COLUMNS = ("brokerName", "topic", "queueId", "queueOffset", "commitLogOffset", "body", "bodyCRC")
KEY_COLUMNS = ("brokerName", "topic", "queueId", "queueOffset", "commitLogOffset", "storeSize", "uniqueKey")
KEY_SCHEMA = pa.schema(
    [
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("commitLogOffset", pa.int64()),
        ("uniqueKey", pa.string()),
        ("endLog", pa.int64()),  # behind the last record of the batch
    ]
)


def crc_findings(batch: pa.RecordBatch | pa.Table) -> list[AuditFinding]:
    """Bodies that are not what their CRC says. *batch* has `CRC_COLUMNS`, bodies as they are stored."""
    found = []
    wanted = batch["bodyCRC"].to_pylist()
    for row, body in enumerate(batch["body"]):
        data = body.as_buffer()
        crc = 0 if data is None else crc32(data) & 0x7FFFFFFF
        if crc != wanted[row]:
            text = f"the body's CRC is {crc}, and its record says {wanted[row]}"
            found.append(_of_row(batch, row, "body.crc", text))
    return found


def key_places(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """Where unique keys stand, in `KEY_SCHEMA`; messages of one client's batch, which share one, are one place.

    Left out are topics where a key comes again by rights: the broker's own, and those of retries and dead letters.
    """
    topics = batch["topic"].unique().to_pylist()
    ours = [
        topic for topic in topics if not is_system_topic(topic) and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    ]
    kept = pc.and_(pc.is_in(batch["topic"], pa.array(ours, pa.string())), pc.is_valid(batch["uniqueKey"]))
    rows = pa.table({name: batch[name] for name in KEY_COLUMNS}).filter(kept).sort_by("commitLogOffset")
    if not rows.num_rows:
        return KEY_SCHEMA.empty_table()
    logs = rows["commitLogOffset"].to_numpy()
    ends = logs + rows["storeSize"].to_numpy()
    begins = np.ones(len(logs), dtype=bool)
    begins[1:] = logs[1:] != ends[:-1]
    for name in ("brokerName", "topic", "queueId", "uniqueKey"):
        codes = rows[name].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        begins[1:] |= codes[1:] != codes[:-1]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(logs)) - 1
    places = rows.take(pa.array(first)).drop_columns(["storeSize"])
    return places.append_column("endLog", pa.array(ends[last])).cast(KEY_SCHEMA)


def duplicate_keys(places: pa.Table | Iterable[pa.Table]) -> list[AuditFinding]:
    """Unique keys that stand at several places of a topic. *places* of all batches, or all that share a key."""
    table = places if isinstance(places, pa.Table) else pa.concat_tables(list(places) or [KEY_SCHEMA.empty_table()])
    counts = table.group_by(["topic", "uniqueKey"]).aggregate([("commitLogOffset", "count")])
    several = counts.filter(pc.greater(counts["commitLogOffset_count"], 1))
    keys = set(zip(several["topic"].to_pylist(), several["uniqueKey"].to_pylist(), strict=True))
    if not keys:
        return []
    rows = table.filter(pc.is_in(table["uniqueKey"], several["uniqueKey"].combine_chunks())).to_pylist()
    rows.sort(key=lambda row: (row["topic"], row["uniqueKey"], row["brokerName"] or "", row["commitLogOffset"]))
    found: list[AuditFinding] = []
    for before, row in pairwise(rows):
        if any(row[name] != before[name] for name in ("topic", "uniqueKey")):
            continue
        names = ("brokerName", "queueId")
        batch = row["commitLogOffset"] == before["endLog"] and all(row[n] == before[n] for n in names)
        if not batch:
            text = (
                f"unique key {row['uniqueKey']} of topic {row['topic']} stands at {_place(before)} and at {_place(row)}"
            )
            found.append(_of_dict(row, "key.duplicate", text))
    return found


def dead_letters(batch: pa.RecordBatch | pa.Table) -> list[AuditFinding]:
    """Messages that groups gave up: one finding for each topic of dead letters and queue."""
    kept = pc.starts_with(batch["topic"], DLQ_PREFIX)
    rows = pa.table({name: batch[name] for name in KEY_COLUMNS[:5]}).filter(kept)
    names = ["brokerName", "topic", "queueId"]
    found = []
    for row in rows.group_by(names).aggregate([("queueOffset", "count"), ("queueOffset", "min")]).to_pylist():
        count, group = row["queueOffset_count"], row["topic"][len(DLQ_PREFIX) :]
        text = f"group {group} gave up {count} messages; they are in {row['topic']}"
        place = row["brokerName"] or "", row["topic"], row["queueId"], row["queueOffset_min"]
        found.append(AuditFinding("dead_letter", text, *place, count=count))
    return sorted(found, key=lambda each: (each.topic, each.broker_name, each.queue_id))


def lag_findings(
    ends: Mapping[Queue, int], progress: Mapping[str, Mapping[Queue, int]], most: int, broker_name: str = ""
) -> list[AuditFinding]:
    """Groups that are further behind than *most* messages in a queue.

    Args:
        ends: queue offset behind the last message of each queue.
        progress: by group, the next offset to consume of each queue.
    """
    found = []
    for group, offsets in sorted(progress.items()):
        for queue, offset in sorted(offsets.items()):
            lag = ends.get(queue, offset) - offset
            if lag > most:
                text = f"group {group} is {lag} messages behind in {queue.topic}/{queue.queue_id}; {most} are allowed"
                found.append(AuditFinding("lag", text, broker_name, queue.topic, queue.queue_id, offset, count=lag))
    return found


def _place(row: dict[str, object]) -> str:
    return f"queue {row['queueId']}, offset {row['queueOffset']}"


def _of_dict(row: dict[str, object], check: str, text: str) -> AuditFinding:
    names = ("brokerName", "topic", "queueId", "queueOffset", "commitLogOffset")
    broker, *place = (row[name] for name in names)
    return AuditFinding(check, text, broker or "", *place)  # type: ignore[arg-type]


def _of_row(batch: pa.RecordBatch | pa.Table, row: int, check: str, text: str) -> AuditFinding:
    names = ("brokerName", "topic", "queueId", "queueOffset", "commitLogOffset")
    return _of_dict({name: batch[name][row].as_py() for name in names}, check, text)
