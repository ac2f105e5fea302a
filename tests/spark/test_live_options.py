"""Options of the source ``gantrymq``: their values, and one sentence for each mistake."""

import pytest

from gantrymq.client import Credentials
from gantrymq.errors import ConfigError
from gantrymq.model.queue import MessageQueue
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.live.options import DEFAULT_GROUP, read_options
from gantrymq_spark.live.starting_offsets import EARLIEST, LATEST, OffsetKind, StartingOffset

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
LEAST = {"namesrv": "n:1", "subscribe": "T"}


def read(streaming=False, environ=None, **given):
    return read_options({**LEAST, **given}, streaming=streaming, environ=environ or {})


def test_defaults_are_those_of_spark_s_kafka_source():
    batch, stream = read(), read(streaming=True)
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)
    assert stream.starting.everywhere == LATEST
    assert (stream.max_delay_ms, stream.fail_on_data_loss) == (900_000, True)
    assert (stream.max_offsets, stream.min_offsets, stream.min_partitions) == (None, None, None)
    assert (batch.columns, batch.group, batch.commits) == (tuple(COLUMNS), DEFAULT_GROUP, False)
    assert (batch.expression, batch.expression_type) == ("*", "TAG")


def test_names_of_options_are_the_same_in_any_case():
    assert read(failondataloss="FALSE").fail_on_data_loss is False
    assert read(MINPARTITIONS="3").min_partitions == 3


def test_queues_are_named_in_three_ways():
    assert read(subscribe=" T , U,T").wanted.topics == ("T", "U")
    pattern = {"namesrv": "n:1", "subscribePattern": "Or.*"}
    assert read_options(pattern, streaming=False, environ={}).wanted.pattern == "Or.*"
    assigned = {"namesrv": "n:1", "assign": '{"T":{"a":[1,0]}}'}
    assert read_options(assigned, streaming=False, environ={}).wanted.queues == {Q0, Q1}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", EARLIEST),
        ("Latest", LATEST),
        ("-2", EARLIEST),
        ("-1", LATEST),
        ("-10 minutes", StartingOffset(OffsetKind.AGO, 600_000)),
        ("-1h", StartingOffset(OffsetKind.AGO, 3_600_000)),
    ],
)
def test_a_start_for_all_queues(text, place):
    assert read(startingOffsets=text).starting.of(Q1) == place


def test_starts_queue_by_queue():
    starting = read(startingOffsets='{"T":{"a":{"0":23,"1":-1}}}').starting
    assert (starting.of(Q0), starting.of(Q1)) == (StartingOffset(OffsetKind.OFFSET, 23), LATEST)
    with pytest.raises(ConfigError, match="startingOffsets names no offset for T, b, queue 0"):
        starting.of(MessageQueue("T", "b", 0))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1700000000000", StartingOffset(OffsetKind.TIME, 1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", StartingOffset(OffsetKind.TIME, 1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", StartingOffset(OffsetKind.TIME, 1_700_000_000_000)),
        ("-2 days", StartingOffset(OffsetKind.AGO, 172_800_000)),
    ],
)
def test_a_start_by_time(text, place):
    assert read(startingTimestamp=text).starting.everywhere == place
    assert read(endingTimestamp=text).ending.everywhere == place


def test_starts_by_time_queue_by_queue():
    found = read(startingOffsetsByTimestamp='{"T":{"a":{"0":5}}}', endingOffsetsByTimestamp='{"T":{"a":{"0":9}}}')
    assert (found.starting.of(Q0), found.ending.of(Q0)) == (
        StartingOffset(OffsetKind.TIME, 5),
        StartingOffset(OffsetKind.TIME, 9),
    )


def test_name_servers_may_come_from_the_environment():
    found = read_options({"subscribe": "T"}, streaming=False, environ={"NAMESRV_ADDR": "x:2"})
    assert found.namesrv == "x:2"


def test_limits_of_a_stream():
    found = read(True, maxOffsetsPerTrigger="100", minOffsetsPerTrigger="7", maxTriggerDelay="90s", groupId="G")
    assert (found.max_offsets, found.min_offsets, found.max_delay_ms) == (100, 7, 90_000)
    assert (found.group, found.commits) == ("G", True)


def test_filters():
    assert read(tags="A || B").expression == "A || B"
    assert read(sql92="OTHER:: what it likes").expression == "OTHER:: what it likes"
    found = read(sql92="a > 5")
    assert (found.expression, found.expression_type) == ("a > 5", "SQL92")


def test_an_account_of_the_options_goes_before_that_of_the_driver():
    environ = {"GANTRYMQ_ACCESS_KEY": "ops", "GANTRYMQ_SECRET_KEY": "ops-secret"}
    given = {"namesrv": "n:1", "subscribe": "T"}

    def account(**more):
        return read_options({**given, **more}, streaming=False, environ=environ).credentials

    assert account() == Credentials("ops", "ops-secret")
    assert account(accessKey="shop", secretKey="s3cret-1") == Credentials("shop", "s3cret-1")
    with_token = account(accessKey="shop", secretKey="s3cret-1", securityToken="t")
    assert with_token == Credentials("shop", "s3cret-1", "t")
    hidden = read_options({**given, "accessKey": "a", "secretKey": "s3cret-1"}, streaming=True, environ={})
    assert "s3cret-1" not in repr(hidden)
    with pytest.raises(ConfigError, match="GANTRYMQ_SECRET_KEY is not"):
        read_options(given, streaming=False, environ={"GANTRYMQ_ACCESS_KEY": "ops"})


MISTAKES = {
    "no option startingOffset; did you mean startingOffsets?": {"startingOffset": "latest"},
    "has no option zzz; the options are namesrv, tls": {"zzz": "1"},
    "option namesrv is missing": {"namesrv": " "},
    "set one of the options subscribe, subscribePattern and assign; subscribe and assign are set": {
        "assign": '{"T":{"a":[0]}}'
    },
    "option subscribe names no topic": {"subscribe": " , "},
    "option subscribe: ": {"subscribe": "a b"},
    "'sometime' is not an offset; write earliest, latest": {"startingOffsets": "sometime"},
    "'-3' is not an offset": {"startingOffsets": "-3"},
    "-3 is not an offset of T, a, queue 0": {"startingOffsets": '{"T":{"a":{"0":-3}}}'},
    "true is not an offset of T, a, queue 0": {"startingOffsets": '{"T":{"a":{"0":true}}}'},
    "option startingOffsets is not JSON": {"startingOffsets": '{"T":'},
    "has 5 instead of an object": {"startingOffsets": '{"T":5}'},
    "'x' of T, a is not a queue id": {"startingOffsets": '{"T":{"a":{"x":5}}}'},
    "option startingOffsets names no queue": {"startingOffsets": "{}"},
    "'10 parsecs' is not a duration": {"startingOffsets": "-10 parsecs"},
    "endingOffsets cannot be earliest": {"endingOffsets": "earliest"},
    "cannot be earliest [(]-2[)]": {"endingOffsets": '{"T":{"a":{"0":-2}}}'},
    "options startingOffsets and startingTimestamp set the same thing": {
        "startingOffsets": "latest",
        "startingTimestamp": "5",
    },
    "'noon' is not a time": {"startingTimestamp": "noon"},
    "has no time zone; write 2023-11-14T22:13:20Z": {"startingTimestamp": "2023-11-14T22:13:20"},
    "outside the years 1970 to 9999": {"startingTimestamp": "1969-01-01T00:00:00Z"},
    "-5 is not a time of T, a, queue 0": {"startingOffsetsByTimestamp": '{"T":{"a":{"0":-5}}}'},
    "'perhaps' is neither true nor false": {"failOnDataLoss": "perhaps"},
    "option minPartitions: '0' is not a count": {"minPartitions": "0"},
    "option maxBytesPerPartition: '1MB' is not a count": {"maxBytesPerPartition": "1MB"},
    "option maxRecordsPerPartition: '-1' is not a count": {"maxRecordsPerPartition": "-1"},
    "option columns: 'bdy' is not a column": {"columns": "body,bdy"},
    "option groupId: ": {"groupId": "a b"},
    "tags and sql92 cannot be set together": {"tags": "A", "sql92": "a > 5"},
    "option sql92 is empty": {"sql92": " "},
    "option sql92: ": {"sql92": "a >"},
    "option tags: the tag expression": {"tags": "||"},
    "maxOffsetsPerTrigger is for streaming queries; remove it, this query is a batch": {"maxOffsetsPerTrigger": "5"},
    "option brokerWait: 'long' is not a duration": {"brokerWait": "long"},
    "option tls: 'yes' is neither true nor false": {"tls": "yes"},
    "option secretKey is missing; an account has accessKey and secretKey": {"accessKey": "shop"},
    "option accessKey is missing": {"securityToken": "t"},
    "option secretKey is empty": {"accessKey": "shop", "secretKey": " "},
}
STREAM_MISTAKES = {
    "endingOffsets is for batch queries; remove it, this query is a stream": {"endingOffsets": "latest"},
    "endingTimestamp is for batch queries": {"endingTimestamp": "5"},
    "maxTriggerDelay has no effect without minOffsetsPerTrigger": {"maxTriggerDelay": "5m"},
    "option maxTriggerDelay: '5' is not a duration": {"maxTriggerDelay": "5", "minOffsetsPerTrigger": "1"},
    "minOffsetsPerTrigger is 9, more than maxOffsetsPerTrigger, which is 5": {
        "minOffsetsPerTrigger": "9",
        "maxOffsetsPerTrigger": "5",
    },
}


@pytest.mark.parametrize(
    ("streaming", "given", "words"),
    [
        *((False, given, words) for words, given in MISTAKES.items()),
        *((True, given, words) for words, given in STREAM_MISTAKES.items()),
    ],
    ids=[*MISTAKES, *STREAM_MISTAKES],
)
def test_each_mistake_has_its_sentence(streaming, given, words):
    with pytest.raises(ConfigError, match=words) as raised:
        read(streaming, **given)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "words"), [("(", "is not a regular expression"), ("", "subscribePattern is empty")]
)
def test_a_pattern_that_cannot_be_used(pattern, words):
    with pytest.raises(ConfigError, match=words):
        read_options({"namesrv": "n:1", "subscribePattern": pattern}, streaming=False, environ={})


def test_neither_topics_nor_queues():
    with pytest.raises(ConfigError, match="none of them is set"):
        read_options({"namesrv": "n:1"}, streaming=False, environ={})
