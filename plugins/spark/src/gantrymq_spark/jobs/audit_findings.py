"""Findings of an audit, one for each fault or remarkable fact, and checks of single messages or of unique keys.

| check | finding |
|---|---|
| `queue.gap` | queue offsets without a record, not explained by damage of the log |
| `queue.duplicate` | queue offsets that an earlier record already has |
| `queue.order` | a record after records of later queue offsets |
| `queue.time` | a record stored before the previous one: the broker's clock went back |
| `queue.restart` | offsets start at 0 again: the topic was deleted and recreated (no fault) |
| `key.duplicate` | one unique key at two positions of a topic that are not one batch |
| `body.crc` | a body that does not match its CRC |
| `log.damaged` | a range of the log without a sound record, and the queue offsets that it cost |
| `transaction.open` | a half message that was never committed, rolled back or discarded |
| `transaction.orphan` | a committed message without a half message at its stated log offset |
| `delay.late`, `delay.lost` | a delayed message that was delivered late, or not at all |
| `dead_letter` | messages that a group gave up |
| `lag` | a group with too much lag |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from gantrymq_store_tools.findings import counted

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
        ("endLog", pa.int64()),  # end of the last record of the batch
    ]
)
KEY_ORDER = ("topic", "uniqueKey", "brokerName", "commitLogOffset")


@attrs.frozen
class AuditFinding:
    """One finding."""

    check: str
    text: str  # one sentence
    broker_name: str = ""
    topic: str = ""
    queue_id: int = -1  # -1 if it does not concern one queue
    queue_offset: int = -1  # of the first message concerned
    log_offset: int = -1  # bytes; of its record, or of the missing record
    count: int = 1  # messages, or queue offsets
    fault: bool = True  # False: informational

    def to_json(self) -> dict[str, Any]:
        """Return the members."""
        return attrs.asdict(self)


def crc_findings(batch: pa.RecordBatch | pa.Table) -> list[AuditFinding]:
    """Return a finding for each body that does not match its CRC. *batch* has `CRC_COLUMNS`, bodies as stored."""
    found = []
    wanted = batch["bodyCRC"].to_pylist()
    for row, body in enumerate(batch["body"]):
        data = body.as_buffer()
        crc = 0 if data is None else crc32(data) & 0x7FFFFFFF
        if crc != wanted[row]:
            text = f"the body's CRC is {crc}, but its record states {wanted[row]}"
            found.append(_of_row(batch, row, "body.crc", text))
    return found


def key_places(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """Return the positions of unique keys in `KEY_SCHEMA`; messages of one client batch, which share a key, are one
    position.

    Topics in which keys may be repeated are excluded: the broker's own, and those of retries and dead letters.
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
    """Return the unique keys with several positions in a topic. *places* of all batches, or all that share a key."""
    table = places if isinstance(places, pa.Table) else pa.concat_tables(list(places) or [KEY_SCHEMA.empty_table()])
    filled = table.set_column(0, "brokerName", pc.fill_null(table["brokerName"], ""))
    return list(repeated_keys([filled.sort_by([(name, "ascending") for name in KEY_ORDER])]))


def repeated_keys(places: Iterable[pa.Table]) -> Iterator[AuditFinding]:
    """Like `duplicate_keys` for positions in `KEY_ORDER`, all of a key together; only the last position is held."""
    before: pa.Table | None = None
    for table in places:
        if not table.num_rows:
            continue
        rows = (table if before is None else pa.concat_tables([before, table])).combine_chunks()
        here, there = rows.slice(1), rows.slice(0, rows.num_rows - 1)
        same = pc.and_(pc.equal(here["topic"], there["topic"]), pc.equal(here["uniqueKey"], there["uniqueKey"]))
        batch = pc.equal(here["commitLogOffset"], there["endLog"])
        for name in ("brokerName", "queueId"):
            batch = pc.and_(batch, pc.equal(here[name], there[name]))
        twice = pc.and_not(same, batch)
        for row, first in zip(here.filter(twice).to_pylist(), there.filter(twice).to_pylist(), strict=True):
            text = f"unique key {row['uniqueKey']} of topic {row['topic']} is at {_place(first)} and at {_place(row)}"
            yield _of_dict(row, "key.duplicate", text)
        before = rows.slice(rows.num_rows - 1)


def dead_letters(messages: pa.RecordBatch | pa.Table) -> list[AuditFinding]:
    """Return one finding for each dead-letter topic and queue."""
    rows = pa.table({name: messages[name] for name in KEY_COLUMNS[:4]})
    counts = rows.group_by(["brokerName", "topic", "queueId"]).aggregate(
        [("queueOffset", "count"), ("queueOffset", "min")]
    )
    found = [
        dead_letter(row["brokerName"], row["topic"], row["queueId"], row["queueOffset_min"], row["queueOffset_count"])
        for row in counts.to_pylist()
        if row["topic"].startswith(DLQ_PREFIX)
    ]
    return sorted(found, key=lambda each: (each.topic, each.broker_name, each.queue_id))


def dead_letter(broker_name: str | None, topic: str, queue_id: int, first: int, count: int) -> AuditFinding:
    """Return the finding for a dead-letter queue with *count* messages from queue offset *first* on."""
    where = "it is" if count == 1 else "they are"
    text = f"group {topic[len(DLQ_PREFIX) :]} gave up {counted(count, 'message')}; {where} in {topic}"
    return AuditFinding("dead_letter", text, broker_name or "", topic, queue_id, first, count=count)


def _place(row: dict[str, object]) -> str:
    return f"queue {row['queueId']}, offset {row['queueOffset']}"


def _of_dict(row: dict[str, object], check: str, text: str) -> AuditFinding:
    names = ("brokerName", "topic", "queueId", "queueOffset", "commitLogOffset")
    broker, *place = (row[name] for name in names)
    return AuditFinding(check, text, broker or "", *place)  # type: ignore[arg-type]


def _of_row(batch: pa.RecordBatch | pa.Table, row: int, check: str, text: str) -> AuditFinding:
    names = ("brokerName", "topic", "queueId", "queueOffset", "commitLogOffset")
    return _of_dict({name: batch[name][row].as_py() for name in names}, check, text)
