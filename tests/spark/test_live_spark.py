"""The source ``gantrymq`` in Spark, with a broker."""

import asyncio
import operator

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

from pyspark.sql import functions as sql

from gantrymq.client import Client

pytestmark = pytest.mark.spark
SETTINGS = {"plugins": "storage_mmap,filter_tag,filter_sql92,admin", "store": "mmap", "enablePropertyFilter": True}


def fill(broker, topic, begin, end, queues=4):
    if begin == 0:
        broker.create_topic(topic, queues)
    for number in range(begin, end):
        broker.put(
            topic, b"%d" % number, queue_id=number % queues, tags=f"t{number % 3}", properties={"a": str(number)}
        )


def reader(session, broker, topic, streaming=False, **options):
    begun = (session.readStream if streaming else session.read).format("gantrymq")
    return begun.options(**{"namesrv": broker.namesrv, "subscribe": topic, **options})


def numbers(frame):
    return sorted(int(row.body) for row in frame.collect())


def test_a_batch_is_what_consumers_get(session, broker):
    fill(broker, "Batch", 0, 100)
    rows = {(row.queueId, row.queueOffset): row for row in reader(session, broker, "Batch").load().collect()}
    received = broker.pull("Batch")
    assert len(rows) == len(received) == 100
    for message in received:
        row = rows[message.queue_id, message.queue_offset]
        assert (bytes(row.body), row.properties) == (message.body, dict(message.properties))
        assert (row.msgId, row.commitLogOffset) == (message.offset_id, message.log_offset)
        assert round(row.storeTimestamp.timestamp() * 1000) == message.store_timestamp


def test_filters_of_one_query_are_none_of_the_next(session, broker):
    fill(broker, "Next", 0, 20)
    frame = reader(session, broker, "Next").load()
    assert numbers(frame.where("queueId = 1")) == list(range(1, 20, 4))
    assert numbers(frame) == list(range(20))


def test_filters_that_are_pushed_down_read_less(session, broker):
    fill(broker, "PushedFilters", 0, 60)

    def parts(condition):
        frame = reader(session, broker, "PushedFilters", filterPushdown="true", maxRecordsPerPartition="5").load()
        return frame.where(condition).rdd.getNumPartitions(), numbers(frame.where(condition))

    assert parts("body is not null") == (12, list(range(60)))
    assert parts("queueId = 1") == (3, list(range(1, 60, 4)))
    assert parts("queueOffset < 5") == (4, list(range(20)))
    assert parts("queueId = 1 and queueOffset >= 10 and tags = 't0'") == (1, [45, 57])


@pytest.mark.parametrize("pushed", ["false", "true"])
def test_filters_and_columns_of_a_batch(session, broker, pushed):
    topic = f"Filters{pushed}"
    fill(broker, topic, 0, 60)
    given = {"columns": "body,queueId,queueOffset,tags,storeTimestamp", "filterPushdown": pushed}

    class Anew:
        """A frame of its own for each query."""

        def __getattr__(self, name):
            return getattr(reader(session, broker, topic, **given).load(), name)

    frame = Anew()
    assert frame.columns == ["body", "queueId", "queueOffset", "tags", "storeTimestamp"]
    assert numbers(frame.where("queueId = 1")) == list(range(1, 60, 4))
    assert numbers(frame.where("queueOffset >= 3 and queueOffset < 5")) == list(range(12, 20))
    assert numbers(frame.where("tags in ('t0', 't2')")) == [n for n in range(60) if n % 3 != 1]
    assert numbers(frame.where("tags is null")) == []
    times = sorted(row.storeTimestamp for row in frame.collect())
    moment = times[30]
    for holds in (operator.lt, operator.le, operator.eq, operator.ge, operator.gt):
        expected = sum(holds(time, moment) for time in times)
        assert frame.where(holds(sql.col("storeTimestamp"), moment)).count() == expected
    chosen = reader(session, broker, topic).schema("queueOffset BIGINT, body BINARY").load()
    assert chosen.columns == ["queueOffset", "body"]
    assert numbers(chosen) == list(range(60))
    assert numbers(reader(session, broker, topic, sql92="a > 7 AND a < 12").load()) == [8, 9, 10, 11]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "soon"}, "'soon' is not an offset"),
        ({"subscribe": "Nothing"}, "topic Nothing does not exist"),
        ({"columns": "bodies"}, "'bodies' is not a column of a message"),
        ({"maxOffsetsPerTrigger": "1"}, "is for streaming queries"),
    ],
)
def test_mistakes_are_told_by_spark_in_our_words(session, broker, options, words):
    fill(broker, "Mistakes", 0, 1)
    with pytest.raises(Exception, match=words):
        reader(session, broker, "Mistakes", **options).load().collect()


def run_available(frame, folder, checkpoint):
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return query


def test_a_stream_of_what_is_available_now_goes_on_where_it_ended(session, broker, tmp_path):
    fill(broker, "Stream", 0, 50)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "20", "groupId": "SPARK_G"}
    frame = reader(session, broker, "Stream", streaming=True, **options).load()
    first = run_available(frame, tmp_path / "out", tmp_path / "checkpoint")
    assert [progress.numInputRows for progress in first.recentProgress if progress.numInputRows] == [20, 20, 10]
    fill(broker, "Stream", 50, 65)
    run_available(frame, tmp_path / "out", tmp_path / "checkpoint")
    assert numbers(session.read.parquet(str(tmp_path / "out"))) == list(range(65))

    async def committed():
        async with Client(broker.namesrv) as client, client.reader(group="SPARK_G") as consumer:
            return [await consumer.committed(queue) for queue in await consumer.queues("Stream")]

    assert sum(asyncio.run(committed())) == 65


def test_a_stream_that_runs_takes_what_is_sent_meanwhile(session, broker, tmp_path):
    fill(broker, "Running", 0, 5)
    frame = reader(session, broker, "Running", streaming=True, startingOffsets="earliest").load()
    query = frame.writeStream.format("memory").queryName("running").trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        assert numbers(session.table("running")) == list(range(5))
        fill(broker, "Running", 5, 12)
        query.processAllAvailable()
        assert numbers(session.table("running")) == list(range(12))
    finally:
        query.stop()
