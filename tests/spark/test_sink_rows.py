"""Conversion of rows to messages, and options and columns of the sink, without Spark."""

import datetime

import pyarrow as pa
import pytest

from gantrymq.client.message import Message
from gantrymq.client.sending import validation
from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq.model.queue import MessageQueue
from gantrymq_spark.sink.dedup import SeenIds
from gantrymq_spark.sink.options import RESERVED, SINK_ID, check_columns, read_options
from gantrymq_spark.sink.rows import Outbound, RowConverter, Source
from gantrymq_spark.sink.sending import choose_queue, requests

MAP = pa.map_(pa.string(), pa.string())


def options_of(streaming=False, **given):
    return read_options({"namesrv": "n:1", **given}, streaming=streaming, environ={})


def sent(columns, types=None, **given):
    given.setdefault("topic", "T")
    arrays = {name: pa.array(values, (types or {}).get(name)) for name, values in columns.items()}
    batch = pa.RecordBatch.from_pydict(arrays)
    options = options_of(**given)
    check_columns(batch.schema, options)
    return list(RowConverter(options, "partition 2", "q/7/2").messages(batch))


def test_a_row_is_a_message():
    found = sent(
        {
            "topic": ["A", None],
            "body": ["ü", "x"],
            "keys": [["k1", None, "k2"], None],
            "tags": ["t", None],
            "flag": [5, None],
            "properties": [[("a", "1"), ("n", None), ("UNIQ_KEY", "old"), ("WAIT", "false")], None],
        },
        {"properties": MAP},
    )
    first, second = (each.message for each in found)
    ids = [{SINK_ID: f"q/7/2/{number}"} for number in range(2)]
    assert first == Message("A", "ü".encode(), "t", "k1 k2", 5, {"a": "1", **ids[0]})
    assert second == Message("T", b"x", properties=ids[1])
    assert not any(each.order or each.alone for each in found)


def test_what_was_read_is_sent_on_without_what_belongs_to_the_broker():
    properties = [(name, "1") for name in sorted(RESERVED - {"KEYS", "TAGS", "__SHARDINGKEY"})]
    properties += [("KEYS", "k"), ("TAGS", "t"), ("__SHARDINGKEY", "s"), ("own", "o")]
    found = sent(
        {"body": [b"x"], "properties": [properties], "queueOffset": [5], "storeHost": ["h"]}, {"properties": MAP}
    )
    message = found[0].message
    assert (message.keys, message.tags, found[0].order) == ("k", "t", "s")
    assert message.properties == {"own": "o", "__SHARDINGKEY": "s", SINK_ID: "q/7/2/0"}
    assert message.all_properties()["WAIT"] == "true"


def test_ids_of_ones_own_and_none():
    assert [each.message.properties for each in sent({"body": ["x"], "n": [17]}, idColumn="n")] == [{SINK_ID: "17"}]
    assert sent({"body": ["x"]}, sinkIds="false")[0].message.properties == {}


def test_delays():
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    found = sent(
        {
            "body": ["x"] * 4,
            "delayLevel": [3, 0, None, None],
            "delayMs": [None, 1500, 0, None],
            "deliverTime": pa.array([None, None, moment, None], pa.timestamp("us", "UTC")),
        }
    )
    names = ("DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
    assert [[each.message.all_properties().get(name) for name in names] for each in found] == [
        ["3", None, None],
        [None, "1500", None],
        [None, None, "1767225600000"],
        [None, None, None],
    ]
    assert [each.alone for each in found] == [True, True, True, False]


def delivered(zone, local, unit="us"):
    batch = pa.record_batch({"body": ["x"], "deliverTime": pa.array([local], pa.timestamp(unit))})
    (found,) = RowConverter(options_of(topic="T"), "partition 2", "p", zone).messages(batch)
    moment = datetime.datetime.fromtimestamp(
        int(found.message.all_properties()["TIMER_DELIVER_MS"]) / 1000, datetime.UTC
    )
    return moment.strftime("%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("zone", "local", "utc"),
    [
        ("Asia/Shanghai", "2026-01-02 00:00:00", "01-01 16:00:00"),
        ("America/New_York", "2026-07-01 00:00:00", "07-01 04:00:00"),
        ("UTC", "2026-01-02 00:00:00", "01-02 00:00:00"),
        ("Z", "2026-01-02 00:00:00", "01-02 00:00:00"),
        ("+08:00", "2026-01-02 00:00:00", "01-01 16:00:00"),
        ("-03:30", "2026-01-02 00:00:00", "01-02 03:30:00"),
        ("GMT+8", "2026-01-02 00:00:00", "01-01 16:00:00"),
        ("Europe/Berlin", "2026-03-29 02:30:00", "03-29 01:30:00"),  # skipped: 03:30 summer time
        ("Europe/Berlin", "2026-10-25 02:30:00", "10-25 00:30:00"),  # comes twice: the first
    ],
)
def test_a_time_without_a_zone_is_of_the_session_s(zone, local, utc):
    moment = datetime.datetime.fromisoformat(local)
    assert {delivered(zone, moment, unit) for unit in ("s", "ms", "us", "ns")} == {utc}


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        (None, "has no time zone, and spark.sql.session.timeZone is not set; set it, or cast the column to timestamp"),
        ("Mars/Base", "timeZone is 'Mars/Base', which this machine does not know; cast the column to timestamp"),
        ("+99:00", "timeZone is '.99:00', which this machine does not know"),
        ("../etc/passwd", "which this machine does not know"),
    ],
)
def test_a_time_without_a_zone_in_a_session_whose_zone_nobody_knows(zone, words):
    with pytest.raises(ConfigError, match=words):
        delivered(zone, datetime.datetime(2026, 1, 1))


def test_a_time_with_a_zone_asks_for_no_other():
    moment = pa.array([datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)], pa.timestamp("us", "Asia/Shanghai"))
    (found,) = sent({"body": ["x"], "deliverTime": moment, "storeTimestamp": pa.array([0], pa.timestamp("us"))})
    assert found.message.all_properties()["TIMER_DELIVER_MS"] == "1767225600000"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": ["x", None]}, "row 1 of partition 2, counted from 0: body is null"),
        ({"body": ["x"], "delayLevel": [-1]}, "delayLevel is -1, it must be a level from 1, 0 or null for none"),
        ({"body": ["x"], "delayMs": [-5]}, "delayMs is -5, it must be a number of ms from 1"),
        ({"body": ["x"], "delayMs": [5], "delayLevel": [1]}, "delayLevel and delayMs are both set"),
        ({"body": ["x" * 101]}, "row 0 of .*: the body for T has 101 bytes, the longest allowed is 100"),
        (
            {"body": ["x", None], "bodyProblem": [None, "no zlib"]},
            "row 1 of .*: the body could not be read: no zlib; drop rows",
        ),
        ({"body": ["x"], "bodyProblem": ["no zlib"]}, "the body could not be read: no zlib"),
        ({"body": [""]}, "the body for T is empty"),
        ({"body": ["x"], "topic": ["a b"]}, "row 0 of .* 'a b' has a character"),
        ({"body": ["x"], "topic": ["SCHEDULE_TOPIC_XXXX"]}, "belongs to the broker itself"),
    ],
)
def test_rows_that_cannot_be_sent(columns, words):
    with pytest.raises(ConfigError, match=words):
        sent(columns, maxMessageBytes="100")


def test_a_null_topic_and_a_null_id():
    with pytest.raises(ConfigError, match="row 0 of partition 2, counted from 0: topic is null"):
        list(RowConverter(options_of(), "partition 2", "p").messages(pa.record_batch({"topic": [None], "body": ["x"]})))
    with pytest.raises(ConfigError, match="row 1 of .*: id is null or empty; the option idColumn needs an id"):
        sent({"body": ["x", "y"], "id": ["1", None]}, idColumn="id")


@pytest.mark.parametrize(
    ("columns", "given", "words"),
    [
        ({"body": ["x"], "price": [1]}, {}, "column price: the sink gantrymq takes topic, body, keys"),
        ({"body": [1]}, {}, "column body has type int64, it must be binary or string; cast it"),
        ({"body": ["x"], "properties": ["a"]}, {}, "column properties has type string, it must be map of strings"),
        ({"topic": ["x"]}, {}, "there is no column body"),
        ({"body": ["x"]}, {}, "no topic is named; set option"),
        ({"body": ["x"]}, {"topic": "T", "idColumn": "id"}, "option idColumn: there is no column id"),
        ({"body": ["x"]}, {"topic": "T", "keepQueues": "true"}, "keepQueues needs the columns topic, brokerName"),
    ],
)
def test_frames_that_cannot_be_sent(columns, given, words):
    with pytest.raises(ConfigError, match=words):
        check_columns(pa.record_batch(columns).schema, options_of(**given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topics": "T"}, "no option topics; did you mean topic"),
        ({"topic": "a b"}, "option topic: .*a b"),
        ({"topic": " T "}, "option topic"),
        ({"group": ""}, "option group: "),
        ({"batchMessages": "0"}, "option batchMessages: '0' is not a count; write a number from 1 to 10000"),
        ({"brokerWait": "soon"}, "option brokerWait: 'soon' is not a duration"),
        ({"sinkIds": "no"}, "option sinkIds: 'no' is neither true nor false"),
        ({"sinkIds": "false", "idColumn": "a"}, "idColumn and sinkIds=false cannot be set together"),
        ({"namesrv": " "}, "option namesrv is missing"),
        ({"jobId": " "}, "option jobId is empty"),
    ],
)
def test_options_that_cannot_be(given, words):
    with pytest.raises(ConfigError, match=words):
        options_of(**given)


def test_options_of_streams():
    with pytest.raises(ConfigError, match="option jobId is for batch queries"):
        options_of(streaming=True, jobId="x")
    assert options_of(streaming=True, checkpointlocation="/x", queryname="q").namesrv == "n:1"
    assert read_options({}, streaming=True, environ={"NAMESRV_ADDR": "env:1"}).namesrv == "env:1"


def test_requests_are_cut_by_count_and_bytes_and_keep_the_order():
    def line(*sizes, alone=()):
        return [Outbound(Message("T", b"x" * size, keys=str(n)), None, n in alone) for n, size in enumerate(sizes)]

    def keys(found):
        return [[message.keys for message in request] for request in found]

    options = options_of(batchMessages="3", batchBytes="1000")
    assert keys(requests(line(1, 1, 1, 1), options)) == [["0", "1", "2"], ["3"]]
    assert keys(requests(line(600, 600, 5000, 1), options)) == [["0"], ["1"], ["2"], ["3"]]
    assert keys(requests(line(1, 1, 1, 1, alone={1}), options)) == [["0"], ["1"], ["2", "3"]]
    assert keys(requests([], options)) == []


def test_queues_of_keys_are_those_that_java_takes():
    queues = [MessageQueue("T", "b", n) for n in range(7)]
    assert choose_queue("TagA", queues).queue_id == 2598919 % 7
    assert choose_queue("polygenelubricants", queues).queue_id == 2  # its hash code is -2**31
    assert choose_queue(Source("S", "b", 5), queues).queue_id == 5
    assert choose_queue(Source("S", "c", 5), queues).queue_id == 5
    elsewhere = {choose_queue(Source("S", "c", n), queues) for n in range(7, 50)}
    assert len(elsewhere) > 4


def test_ids_are_remembered_up_to_a_limit():
    seen = SeenIds(2)
    assert [seen.first({SINK_ID: each}) for each in "abacac"] == [True, True, False, True, True, False]
    assert list(seen) == ["c", "a"]
    assert [seen.first({}), seen.first({})] == [True, True]
    assert not SeenIds(5, seen).first({SINK_ID: "a"})
    with pytest.raises(InvalidParameter, match="most is 0"):
        SeenIds(0)


def test_the_client_would_refuse_nothing_that_rows_let_through():
    for each in sent({"body": ["x"], "tags": ["t"], "properties": [[("a", "b")]]}, {"properties": MAP}):
        validation.check_message(each.message)
