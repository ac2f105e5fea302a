"""The classes that Spark calls, called as its runners do: offsets as JSON, tasks by pickle."""

import asyncio
import json
import pickle

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

from pyspark.sql.datasource import EqualTo
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from gantrymq.client import Client
from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq_spark.columns import schema, spark_schema
from gantrymq_spark.live.source import LiveSource

pytestmark = pytest.mark.spark

SETTINGS = {"plugins": "storage_mmap,filter_tag", "store": "mmap"}
COLUMNS = StructType([StructField("body", BinaryType()), StructField("queueOffset", LongType())])


def fill(broker, topic, begin, end, queues=4):
    if begin == 0:
        broker.create_topic(topic, queues)
    for number in range(begin, end):
        broker.put(topic, b"%d" % number, queue_id=number % queues, tags=f"t{number % 3}")


def source(broker, topic, **options):
    return LiveSource({"namesrv": broker.namesrv, "subscribe": topic, **options})


def read_all(reader, partitions):
    """As tasks do: in another process, one after the other."""
    found = []
    for partition in pickle.loads(pickle.dumps(partitions)):
        for batch in pickle.loads(pickle.dumps(reader)).read(partition):
            found += pa.Table.from_batches([batch]).to_pylist()
    return found


def numbers(rows):
    return sorted(int(row["body"]) for row in rows)


def test_the_schema_is_that_of_the_columns(broker):
    assert source(broker, "T").schema() == spark_schema()
    assert source(broker, "T", Columns="body, topic").schema().names == ["body", "topic"]


def test_a_batch(broker):
    fill(broker, "Batch", 0, 40)
    reader = source(broker, "Batch").reader(COLUMNS)
    rows = read_all(reader, reader.partitions())
    assert [*rows[0]] == ["body", "queueOffset"]
    assert numbers(rows) == list(range(40))


def test_all_columns_have_the_types_of_the_schema(broker):
    fill(broker, "Types", 0, 3)
    reader = source(broker, "Types").reader(spark_schema())
    for partition in reader.partitions():
        for batch in reader.read(partition):
            assert batch.schema == schema()


def test_filters_are_pushed_and_handed_back(broker):
    fill(broker, "PushedFilters", 0, 40)
    reader = source(broker, "PushedFilters", filterPushdown="true").reader(COLUMNS)
    filters = [EqualTo(("queueId",), 1), EqualTo(("tags",), "t0")]
    assert list(reader.pushFilters(filters)) == filters
    (partition,) = reader.partitions()
    assert numbers(read_all(reader, [partition])) == [number for number in range(1, 40, 4) if number % 3 == 0]


def test_tags_of_the_options_are_not_replaced_by_a_filter(broker):
    fill(broker, "Both", 0, 12)
    reader = source(broker, "Both", tags="t1", filterPushdown="true").reader(COLUMNS)
    reader.pushFilters([EqualTo(("tags",), "t0")])
    assert numbers(read_all(reader, reader.partitions())) == [1, 4, 7, 10]


def follow(reader, start, limit):
    """Micro-batches until nothing is new: rows of each, and the offsets at the end."""
    found = []
    while True:
        end = json.loads(json.dumps(reader.latestOffset(start, limit)))
        if end == start:
            return found, end
        found.append(read_all(reader, reader.partitions(start, end)))
        reader.commit(end)
        start = end


def test_a_stream_that_is_stopped_goes_on_from_its_checkpoint(broker):
    fill(broker, "Stream", 0, 30)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "12", "groupId": "READERS"}
    reader = source(broker, "Stream", **options).streamReader(COLUMNS)
    assert reader.getDefaultReadLimit() == ReadMaxRows(12)
    start = json.loads(json.dumps(reader.initialOffset()))
    first, reached = follow(reader, start, reader.getDefaultReadLimit())
    reader.stop()
    assert [len(rows) for rows in first] == [12, 12, 6]

    fill(broker, "Stream", 30, 50)
    reader = source(broker, "Stream", **options).streamReader(COLUMNS)
    second, _ = follow(reader, reached, ReadAllAvailable())
    reader.stop()
    assert [len(rows) for rows in second] == [20]
    assert numbers(row for rows in first + second for row in rows) == list(range(50))

    async def committed():
        async with Client(broker.namesrv) as client, client.reader(group="READERS") as consumer:
            return [await consumer.committed(queue) for queue in await consumer.queues("Stream")]

    assert sum(asyncio.run(committed())) == 50


def test_what_is_available_now_ends(broker):
    fill(broker, "Now", 0, 10)
    reader = source(broker, "Now", startingOffsets="earliest", minOffsetsPerTrigger="50").streamReader(COLUMNS)
    assert reader.getDefaultReadLimit() == ReadMinRows(50)
    reader.prepareForTriggerAvailableNow()
    fill(broker, "Now", 10, 20)
    found, _ = follow(reader, reader.initialOffset(), reader.getDefaultReadLimit())
    reader.stop()
    assert [numbers(rows) for rows in found] == [list(range(10))]


def test_a_stopped_reader_may_be_stopped_again(broker):
    reader = source(broker, "T").streamReader(COLUMNS)
    assert reader.getDefaultReadLimit() == ReadAllAvailable()
    reader.stop()
    reader.stop()


def test_a_schema_that_is_not_a_message_s(broker):
    with pytest.raises(InvalidParameter, match="'bdy' is not a column of a message"):
        source(broker, "T").reader(StructType([StructField("bdy", BinaryType())]))
    with pytest.raises(ConfigError, match="column body has type string, but in messages it is binary"):
        source(broker, "T").reader(StructType([StructField("body", StringType())]))
    with pytest.raises(ConfigError, match="column queueOffset has type int, but in messages it is bigint"):
        source(broker, "T").streamReader(StructType([StructField("queueOffset", IntegerType())]))
