"""Spark reads the same messages of a topic at a Java broker as an official Java consumer."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Driver, create_topic
from harness.peers import used

pytestmark = pytest.mark.interop

QUEUES, COUNT, LARGE, LARGE_BYTES = 4, 300, 6, 20_000
QUERY_S = 120


def test_a_topic_of_a_java_broker_is_what_java_pulls(
    java_servers: Callable[[str], tuple[str, str]], spark: Any, tmp_path: Path, topic: str
) -> None:
    """A batch, by tag, and a stream that continues from its checkpoint; Java stores large bodies compressed."""
    from gantrymq_spark import register

    namesrv = java_servers("5.3.3")[0]
    create_topic(namesrv, topic, QUEUES)
    used("gantrymq-spark")
    register(spark)
    java = Driver("5.3.3", tmp_path, namesrv)
    given = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    target, checkpoint = str(tmp_path / "rows"), str(tmp_path / "checkpoint")

    def stream() -> None:
        frame = spark.readStream.format("gantrymq").options(**given, maxOffsetsPerTrigger="100").load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start(target).awaitTermination(QUERY_S)

    java.produce(topic, COUNT, tags="A,B", keys_prefix="k")
    stream()
    java.produce(topic, LARGE, size=LARGE_BYTES)
    stream()
    received = {(each["queueId"], each["queueOffset"]): each for each in java.pull(topic)}
    assert len(received) == COUNT + LARGE
    batch = spark.read.format("gantrymq").options(**given).load()
    for rows in (batch.collect(), spark.read.parquet(target).collect()):
        assert sorted((row.queueId, row.queueOffset) for row in rows) == sorted(received)
        for row in rows:
            _assert_same(row, received[row.queueId, row.queueOffset])
    stored = spark.read.format("gantrymq").options(**given, storedBodies="true").load().collect()
    compressed = [len(row.body) for row in stored if row.sysFlag & 1]
    assert len(compressed) == LARGE
    assert max(compressed) < LARGE_BYTES / 10

    tagged = spark.read.format("gantrymq").options(**given, tags="A").load().collect()
    places = sorted(place for place, each in received.items() if each["tags"] == "A")
    assert sorted((row.queueId, row.queueOffset) for row in tagged) == places
    assert places


def _assert_same(row: Any, event: dict[str, Any]) -> None:
    assert hashlib.sha256(row.body).hexdigest() == event["bodySha256"]
    assert (row.topic, row.brokerName, row.keys, row.tags) == tuple(
        event[name] for name in ("topic", "brokerName", "keys", "tags")
    )
    assert (row.bornHost, row.storeHost) == (event["bornHost"].lstrip("/"), event["storeHost"].lstrip("/"))
    assert (row.uniqueKey, row.commitLogOffset) == (event["msgId"], event["logOffset"])
    assert round(row.storeTimestamp.timestamp() * 1000) == event["storeTimestamp"]
    assert round(row.bornTimestamp.timestamp() * 1000) == event["bornTimestamp"]
    assert row.reconsumeTimes == event["reconsumeTimes"]
    mine = {"MIN_OFFSET", "MAX_OFFSET", "CLUSTER"}  # a client adds these
    assert {k: v for k, v in row.properties.items() if k not in mine} == {
        k: v for k, v in event["properties"].items() if k not in mine
    }
