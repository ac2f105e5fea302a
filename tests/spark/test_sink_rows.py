"""Rows as messages, their ids, and the order in which they are sent."""

import asyncio
from datetime import UTC, datetime
from itertools import islice

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.model.queue import MessageQueue
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.sink.options import SinkOptions, read_sink_options
from gantrymq_spark.sink.rows import check_columns, rows_of
from gantrymq_spark.sink.sending import queue_of_lane, send_rows
from gantrymq_spark.sink.sink_ids import SINK_ID, SeenIds, row_ids

NOW_MS = 1_795_000_000_000
OPTIONS = SinkOptions("127.0.0.1:9876")


def made(rows, options=OPTIONS):
    return list(rows_of(pa.RecordBatch.from_pylist(rows), options, row_ids("q.7", 3), NOW_MS))


def message(row, options=OPTIONS):
    return made([{"topic": "T", "body": b"b", **row}], options)[0].message


def test_a_row_is_a_message():
    found = message({"body": "\u00e9", "tags": "t", "keys": ["a", "b"], "flag": 3})
    assert (found.body, found.tags, found.keys, found.flag) == ("\u00e9".encode(), "t", ("a", "b"), 3)
    assert found.properties == {SINK_ID: "q.7.3.0"}
    assert message({"keys": "a b", "tags": None}).keys == "a b"
    assert message({}, SinkOptions("n", topic="Other")).topic == "Other"


def test_what_a_message_of_the_source_brings_along_is_left_out():
    properties = pa.array(
        [[("KEYS", "k1 k2"), ("TAGS", "t"), ("WAIT", "false"), ("UNIQ_KEY", "U"), ("mine", "1"), ("__CRC32#", "x")]],
        pa.map_(pa.string(), pa.string()),
    )
    batch = pa.RecordBatch.from_arrays([pa.array(["T"]), pa.array([b"b"]), properties], ["topic", "body", "properties"])
    (row,) = rows_of(batch, SinkOptions("n", sink_ids=False), row_ids("q", 0), NOW_MS)
    assert (row.message.keys, row.message.tags, row.message.properties) == ("k1 k2", "t", {"mine": "1"})
    assert row.message.all_properties()["WAIT"] == "true"


@pytest.mark.parametrize(
    ("row", "properties"),
    [
        ({"delayLevel": 3}, {"DELAY": "3"}),
        ({"delayLevel": 0}, {}),
        ({"delayMs": 1500}, {"TIMER_DELIVER_MS": str(NOW_MS + 1500)}),
        ({"deliverTimestamp": 5}, {"TIMER_DELIVER_MS": "5"}),
        ({"deliverTimestamp": datetime(2026, 11, 24, tzinfo=UTC)}, {"TIMER_DELIVER_MS": "1795478400000"}),
        ({"shardingKey": "k"}, {"__SHARDINGKEY": "k"}),
    ],
)
def test_delays_and_sharding_keys_are_properties(row, properties):
    assert message(row, SinkOptions("n", sink_ids=False)).properties == properties


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"topic": None}, "row q.7.3.1: its topic is null"),
        ({"body": None}, "row q.7.3.1: its body is null"),
        ({"delayLevel": 1, "delayMs": 5}, "row q.7.3.1 has delayLevel and delayMs"),
        ({"delayMs": -1}, "row q.7.3.1: delayMs is -1"),
    ],
)
def test_a_row_that_is_no_message_is_named(row, words):
    with pytest.raises(MessageIllegal, match=words):
        made(
            [
                {"topic": "T", "body": b"b", **dict.fromkeys(row)} | {"topic": "T", "body": b"b"},
                {"topic": "T", "body": b"b", **row},
            ]
        )


def test_ids_of_a_column():
    options = SinkOptions("n", id_column="order")
    assert message({"order": 17}, options).properties == {SINK_ID: "17"}
    with pytest.raises(MessageIllegal, match="column order is null"):
        made([{"topic": "T", "body": b"b", "order": 1}, {"topic": "T", "body": b"b", "order": None}], options)


SOUND = {"topic": "string", "body": "binary"}


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"body": "binary"}, OPTIONS, "needs a topic: a column topic, or the option"),
        ({"topic": "string"}, OPTIONS, "needs a column body"),
        ({**SOUND, "key": "string"}, OPTIONS, "has no column 'key'; there are topic, body, keys"),
        ({**SOUND, "tags": "int"}, OPTIONS, "column tags of the sink gantrymq is int, it can be string"),
        ({**SOUND, "deliverTimestamp": "date"}, OPTIONS, "it can be timestamp or bigint"),
        (SOUND, SinkOptions("n", id_column="id"), "option idColumn: there is no column 'id'"),
    ],
)
def test_columns_that_cannot_be(columns, options, words):
    with pytest.raises(ConfigError, match=words):
        check_columns(columns, options)


def test_columns_of_the_source_are_passed_over():
    check_columns(
        SOUND | dict.fromkeys(COLUMNS.keys() - {"properties", "keys", "tags", "topic", "body", "flag"}, "any"), OPTIONS
    )
    check_columns({"body": "string"}, SinkOptions("n", topic="T"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "option namesrv is missing"),
        ({"namesrv": "n", "topics": "a"}, "the sink gantrymq has no option topics; did you mean topic?"),
        ({"namesrv": "n", "topic": "a b"}, "option topic: "),
        ({"namesrv": "n", "sinkIds": "maybe"}, "neither true nor false"),
        ({"namesrv": "n", "batchSize": "0"}, "option batchSize: '0'"),
        ({"namesrv": "n", "sendTimeout": "soon"}, "is no duration"),
        ({"namesrv": "n", "producerGroup": "DEFAULT_PRODUCER"}, "option producerGroup: "),
    ],
)
def test_options_that_cannot_be(given, words):
    with pytest.raises(ConfigError, match=words):
        read_sink_options(given, {})


def test_options_in_any_case_and_from_the_environment():
    assert read_sink_options({"NAMESRV": "n", "batchsize": "64", "checkpointLocation": "/c"}, {}) == SinkOptions(
        "n", batch_size=64
    )
    assert read_sink_options({}, {"NAMESRV_ADDR": "m"}) == SinkOptions("m")


def test_an_id_is_first_once():
    seen = SeenIds(capacity=2)
    ids = list(islice(row_ids("q.1", 0), 3))
    assert len(set(ids)) == 3
    had = [seen.first({SINK_ID: each}) for each in (ids[0], ids[0], ids[1], ids[0], ids[2], ids[0], ids[1])]
    assert had == [True, False, True, False, True, False, True]  # ids[1] was forgotten for ids[2]
    assert seen.first({}) and seen.first({})


class Recording:
    """A producer that answers late and in another order."""

    def __init__(self):
        self.sent, self.busy = [], set()

    async def queues(self, topic):
        return [MessageQueue(topic, "broker-a", number) for number in range(4)]

    async def send(self, message, queue=None, timeout_s=3.0):
        await self.send_batch([message], queue, timeout_s)

    async def send_batch(self, messages, queue=None, timeout_s=3.0):
        if queue is not None:
            assert queue not in self.busy
            self.busy.add(queue)
        for _ in range(len(messages[0].body) % 3):
            await asyncio.sleep(0)
        self.busy.discard(queue)
        self.sent.append((queue, [each.body for each in messages]))


@pytest.mark.parametrize("batch_size", [1, 7])
def test_rows_of_one_key_keep_their_order(batch_size):
    rows = made(
        [
            {
                "topic": "T",
                "body": b"%d" % n * (n % 5 + 1),
                "shardingKey": f"k{n % 6}",
                "delayLevel": 1 if n % 11 == 0 else None,
            }
            for n in range(200)
        ]
    )
    producer = Recording()
    assert asyncio.run(send_rows(producer, rows, batch_size=batch_size, timeout_s=1)) == 200
    for number in range(6):
        key = f"k{number}"
        queue = queue_of_lane(key, asyncio.run(producer.queues("T")))
        wanted = [row.message.body for row in rows if row.lane == key]
        got = [body for at, bodies in producer.sent if at == queue for body in bodies if body in wanted]
        assert got == wanted
    assert (max(len(bodies) for _, bodies in producer.sent) > 1) is (batch_size > 1)


@pytest.mark.parametrize("batch_size", [1, 5])
def test_free_rows_are_sent_once_and_delayed_ones_alone(batch_size):
    rows = made([{"topic": f"T{n % 2}", "body": b"%d" % n, "delayMs": 5 if n % 7 == 0 else None} for n in range(60)])
    producer = Recording()
    asyncio.run(send_rows(producer, rows, batch_size=batch_size, timeout_s=1))
    assert sorted(int(body) for _, bodies in producer.sent for body in bodies) == list(range(60))
    assert all(len(bodies) == 1 for _, bodies in producer.sent if int(bodies[0]) % 7 == 0)


def test_java_s_choice_of_a_queue():
    queues = [MessageQueue("T", "broker-a", number) for number in range(7)]
    assert queue_of_lane("polygenelubricants", queues).queue_id == 2147483648 % 7  # its hash is Integer.MIN_VALUE
    assert queue_of_lane("Aa", queues) == queue_of_lane("BB", queues)
