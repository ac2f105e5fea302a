"""The sink in Spark, with a broker."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from polling import wait_until

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")

from pyspark.sql import functions as sql

from gantrymq.model.queue import Queue
from gantrymq_spark.sink.dedup import SINK_ID, SeenIds, once

pytestmark = pytest.mark.spark
SETTINGS = {"plugins": "storage_mmap,admin", "store": "mmap", "autoCreateTopicEnable": False}
QUERY = Path(__file__).parent / "sink_query.py"


def written(frame, broker, **options):
    frame.write.format("gantrymq").options(**{"namesrv": broker.namesrv, **options}).mode("append").save()


def read(session, broker, topic):
    return session.read.format("gantrymq").options(namesrv=broker.namesrv, subscribe=topic).load()


def test_rows_are_messages_and_each_sharding_key_keeps_its_order(session, broker):
    broker.create_topic("Sink", 4)
    frame = session.range(0, 3000, 1, 2).selectExpr(
        "'Sink' as topic",
        "cast(id as string) as body",
        "concat('k', id) as keys",
        "concat('t', id % 3) as tags",
        "map('a', cast(id as string), 'UNIQ_KEY', 'other') as properties",
        "if(id % 10 = 0, null, concat('s', id % 7)) as shardingKey",
    )
    written(frame, broker)
    messages = broker.pull("Sink")
    assert sorted(int(message.body) for message in messages) == list(range(3000))
    last: dict = {}
    homes: dict = {}
    for message in messages:  # queue by queue, in order
        number, key = int(message.body), message.properties.get("__SHARDINGKEY")
        assert (message.keys, message.tags, message.properties["a"]) == (f"k{number}", f"t{number % 3}", str(number))
        assert message.properties["UNIQ_KEY"] != "other"
        if key is not None:
            homes.setdefault(key, set()).add(message.queue_id)
            part = number // 1500  # of each task
            assert number > last.get((key, part), -1)
            last[key, part] = number
    assert all(len(queues) == 1 for queues in homes.values())
    assert len({message.properties[SINK_ID] for message in messages}) == 3000


def test_what_a_source_reads_can_be_written_as_it_is(session, broker):
    broker.create_topic("Copy", 4)
    for number in range(40):
        broker.send("Copy", b"%d" % number, tags="t", keys=f"k{number}", properties={"a": "1"})
    broker.create_topic("Copied", 4)
    written(read(session, broker, "Copy"), broker, topic="Copied", keepQueues="true")
    told = lambda m: (m.queue_id, m.body, m.tags, m.keys, m.properties["a"])  # noqa: E731
    assert [told(m) for m in broker.pull("Copied")] == [told(m) for m in broker.pull("Copy")]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("'x' body", {}, "no topic is named; set option"),
        ("'x' body", {"topic": "Nothing"}, "Nothing"),
        ("'x' body", {"topic": "Mistakes", "namesrv": "127.0.0.1:1"}, "127.0.0.1:1"),
        ("'x' body; -3 delayLevel", {"topic": "Mistakes"}, "delayLevel is -3"),
        ("'x' body; 1.5 price", {"topic": "Mistakes"}, "column price: the sink gantrymq takes"),
        ("repeat('x', 5000000) body", {"topic": "Mistakes"}, "has 5000000 bytes, the longest allowed is 4194304"),
        ("cast(null as string) body", {"topic": "Mistakes"}, "row 0 of partition 0, counted from 0: body is null"),
        ("'x' body", {"topic": "Mistakes", "speed": "1"}, "has no option speed"),
    ],
)
def test_mistakes_are_told_in_our_words(session, broker, columns, options, words):
    broker.create_topic("Mistakes", 1)
    with pytest.raises(Exception, match=words):
        written(session.range(1).coalesce(1).selectExpr(columns.split("; ")), broker, **options)
    assert broker.pull("Mistakes") == []


def test_a_time_without_a_zone_is_of_the_session_s_time_zone(session, broker, tmp_path):
    broker.create_topic("Local", 1)
    columns = ("'x' as body", "timestamp_ntz'2026-01-02 00:00:00' as deliverTime")
    told = "TIMER_DELIVER_MS=1767283200000: delayed messages need a schedule plugin"  # 2026-01-01T16:00:00Z
    session.range(1).write.json(str(tmp_path / "in"))
    session.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    try:
        with pytest.raises(Exception, match=told):
            written(session.range(1).selectExpr(*columns), broker, topic="Local")
        rows = session.readStream.schema("id long").json(str(tmp_path / "in")).selectExpr(*columns)
        options = {"namesrv": broker.namesrv, "topic": "Local", "checkpointLocation": str(tmp_path / "checkpoint")}
        query = rows.writeStream.format("gantrymq").options(**options).trigger(availableNow=True).start()
        with pytest.raises(Exception, match=told):
            query.awaitTermination(120)
    finally:
        session.conf.unset("spark.sql.session.timeZone")


def test_topics_are_not_overwritten(session, broker):
    frame = session.range(1).selectExpr("'x' body")
    with pytest.raises(Exception, match="cannot be overwritten; write with mode"):
        frame.write.format("gantrymq").options(namesrv=broker.namesrv, topic="T").mode("overwrite").save()


ROWS, ROUNDS = 1500, 3


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.long)])
def test_a_query_killed_inside_a_micro_batch_sends_each_row_once_after_the_check(session, broker, tmp_path, kills):
    """The same rows have the same ids in each attempt, and different rows have different ones."""
    topic = f"Killed{kills}"
    broker.create_topic(topic, 4)
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    for number in range(ROUNDS):
        rows = range(number * ROWS, (number + 1) * ROWS)
        session.createDataFrame([(each,) for each in rows], "n int").coalesce(1).write.mode("append").json(str(source))
    words = [sys.executable, str(QUERY), broker.namesrv, topic, str(source), str(checkpoint)]

    def stored():
        return sum(broker.call(broker.store.bounds, Queue(topic, queue)).max_offset for queue in range(4))

    for number in range(kills):
        before = stored()
        process = subprocess.Popen(words, start_new_session=True)
        wanted = before + 200 * (number % 5 + 1)
        wait_until(lambda p=process, w=wanted: p.poll() is not None or stored() >= w, "stored rows", 600.0)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert subprocess.run(words, check=False).returncode == 0
    messages = broker.pull(topic)
    seen = SeenIds(10 * ROWS)
    kept = [json.loads(m.body)["n"] for m in messages if seen.first(m.properties)]
    assert sorted(kept) == list(range(ROUNDS * ROWS))
    assert len(messages) > len(kept)  # the kills fell into micro-batches
    by_id: dict = {}
    for message in messages:
        by_id.setdefault(message.properties[SINK_ID], set()).add(message.body)
    assert Counter(map(len, by_id.values())) == {1: ROUNDS * ROWS}

    frame = once(read(session, broker, topic))
    assert frame.count() == ROUNDS * ROWS
    stream = session.readStream.format("gantrymq").options(
        namesrv=broker.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4000"
    )
    query = (
        once(stream.load(), "1 hour")
        .select(sql.col("body").cast("string"))
        .writeStream.format("memory")
        .queryName(f"killed_once_{kills}")
        .option("checkpointLocation", str(tmp_path / "other"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert (
        session.table(f"killed_once_{kills}").distinct().count()
        == session.table(f"killed_once_{kills}").count()
        == ROUNDS * ROWS
    )
