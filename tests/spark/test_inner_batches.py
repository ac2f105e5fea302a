"""Inner batches taken apart as Java's client does it."""

import sys

import numpy as np
from spark_columns import described

from gantrymq.formats.record import encode_record
from gantrymq.model.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from gantrymq_spark.batches import NO_LOG, record_batch
from gantrymq_spark.inner_batches import unwrapped
from gantrymq_spark.live.range_reader import record_positions

ADDED = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}  # by Java's client
OWN = ("storeSize", "bodyCRC")  # 0 in Java


def log_of(scenario):
    records = [bytes(record.raw) for record in scenario.log_records()]
    return b"".join(records)


def test_every_message_is_what_java_received(golden):
    scenario = golden("innerbatch")
    data = log_of(scenario)
    taken, at = unwrapped(data, record_positions(data))
    rows = record_batch(taken, at, NO_LOG, "broker-a").to_pylist()
    received = scenario.received("pull")
    found = {(row["topic"], row["queueId"], row["queueOffset"]): described(row, 1 << 30) for row in rows}
    assert len(rows) == len(found) == len(received) == 56
    for said in received:
        row = found[said["topic"], said["queueId"], said["queueOffset"]]
        assert row["properties"] == {k: v for k, v in said["properties"].items() if k not in ADDED}
        same = [name for name in said.keys() & row.keys() if name not in (*OWN, "kind", "msgId", "properties")]
        assert len(same) > 12
        assert {name: row[name] for name in same} == {name: said[name] for name in same}


def test_records_beside_them_stay_as_they_are(golden):
    one = log_of(golden("innerbatch"))
    other = bytes(golden("batch").log_records()[0].raw)
    data = other + one + other
    taken, at = unwrapped(data, record_positions(data))
    assert bytes(taken[: len(other)]) == bytes(taken[-len(other) :]) == other
    assert at.tolist() == record_positions(taken).tolist()


def test_without_one_nothing_is_copied(golden):
    data = log_of(golden("batch"))
    at = record_positions(data)
    assert unwrapped(data, at)[0] is data
    nothing = np.zeros(0, dtype=np.int64)
    assert unwrapped(b"", nothing)[1] is nothing


def test_a_body_that_cannot_be_taken_apart_stays(monkeypatch):
    both = INNER_BATCH | NEED_UNWRAP
    kinds = (both, b"no batch"), (both | COMPRESSED, b"not compressed"), (both | COMPRESSED | 0x100, b"no package")
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    for flags, body in kinds:
        raw = encode_record(topic="T", queue_id=0, body=body, properties=b"", sys_flag=flags)
        taken, at = unwrapped(raw, record_positions(raw))
        assert (taken, at.tolist()) == (raw, [0])
