"""Batches of records that clients and brokers can create, compared with the record-by-record reader."""

import sys
import zlib
from datetime import UTC, datetime

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import FormatError, InvalidParameter
from gantrymq.formats.record import encode_record, iter_records
from gantrymq.model import properties as property_text
from gantrymq.model.hosts import host_text, pack_host
from gantrymq.model.ids import offset_id
from gantrymq.model.sys_flag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD
from gantrymq_spark.batches import NO_LOG, record_batch
from gantrymq_spark.columns import COLUMNS, schema, selected, spark_schema
from gantrymq_spark.live.range_reader import record_positions

V4, V6 = pack_host("10.1.2.3", 4444), pack_host("2001:db8::7", 65535)


def record(body=b"body", properties=b"", topic="Orders", **fields):
    return encode_record(topic=topic, queue_id=1, body=body, properties=properties, **fields)


def rows(*records, **options):
    data = b"".join(records)
    batch = record_batch(data, record_positions(data), NO_LOG, None, **options)
    batch.validate(full=True)
    return batch.to_pylist()


def told(view):
    """A row as the record-by-record reader tells it; the body as it is stored."""
    found = view.properties
    return {
        "topic": view.topic,
        "queueId": view.queue_id,
        "queueOffset": view.queue_offset,
        "commitLogOffset": view.log_offset,
        "storeSize": view.total_size,
        "flag": view.flag,
        "sysFlag": view.sys_flag,
        "body": bytes(view.body),
        "bodyCRC": view.body_crc,
        "properties": found,
        "keys": found.get("KEYS"),
        "tags": found.get("TAGS"),
        "uniqueKey": found.get("UNIQ_KEY"),
        "msgId": offset_id(bytes(view.store_host), view.log_offset),
        "bornHost": host_text(view.born_host),
        "storeHost": host_text(view.store_host),
        "reconsumeTimes": view.reconsume_times,
        "preparedTransactionOffset": view.prepared_offset,
    }


HOSTS = st.sampled_from([V4, V6, pack_host("0.0.0.0", 0)])
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
WORDS = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a", "b", "ä", "\U0001f600", "", "\x01", "\0", "ccc"])
SEPARATORS = st.sampled_from(["\x01", "\x02"])
TEXTS = st.lists(st.one_of(WORDS, SEPARATORS), max_size=12).map(lambda words: "".join(words).encode())
ODD_TEXTS = st.one_of(TEXTS, st.binary(max_size=12), st.just("a\x01\ud800\x02".encode("utf-8", "surrogatepass")))


@given(
    st.lists(
        st.builds(
            record,
            body=st.binary(max_size=40),
            properties=ODD_TEXTS,
            topic=st.sampled_from(["Orders", "Ü", "T" * 127, "T" * 128, "T" * 200]),
            queue_offset=INT64,
            log_offset=INT64,
            flag=INT32,
            born_host=HOSTS,
            store_host=HOSTS,
            reconsume_times=INT32,
            prepared_offset=INT64,
        ),
        max_size=8,
    )
)
def test_rows_are_what_the_reader_of_one_record_tells(records):
    found = rows(*records, stored_bodies=True)
    views = list(iter_records(b"".join(records)))
    assert len(found) == len(views)
    for row, view in zip(found, views, strict=True):
        row["properties"] = dict(row["properties"])
        assert {name: row[name] for name in told(view)} == told(view)
        assert sorted(row["properties"]) == sorted(view.properties)


@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_properties_follow_the_rules_of_java(texts):
    for row, text in zip(rows(*(record(properties=text) for text in texts)), texts, strict=True):
        assert len(row["properties"]) == len(dict(row["properties"]))
        assert dict(row["properties"]) == property_text.decode(text)


def test_equal_names_among_many_different_ones():
    text = b"".join(b"name%d\x01%d\x02" % (number % 50, number) for number in range(70))
    (row,) = rows(record(properties=text))
    assert dict(row["properties"]) == property_text.decode(text)


def test_bodies_are_decompressed_and_the_flag_says_so():
    body = b"0123456789" * 100
    kinds = {
        COMPRESSED: zlib.compress(body),
        COMPRESSED | COMPRESSION_ZLIB: zlib.compress(body),
        COMPRESSED | COMPRESSION_LZ4: lz4.frame.compress(body),
        COMPRESSED | COMPRESSION_ZSTD: zstandard.compress(body),
        0: body,
    }
    found = rows(*(record(packed, sys_flag=flag) for flag, packed in kinds.items()))
    assert [row["body"] for row in found] == [body] * 5
    assert [row["sysFlag"] for row in found] == [flag & ~COMPRESSED for flag in kinds]
    stored = rows(*(record(packed, sys_flag=flag) for flag, packed in kinds.items()), stored_bodies=True)
    assert [(row["body"], row["sysFlag"]) for row in stored] == [(packed, flag) for flag, packed in kinds.items()]


@pytest.mark.parametrize(
    ("flag", "packed", "words"),
    [
        (COMPRESSED, b"plain", "compressed body of 5 bytes is not a zlib stream"),
        (COMPRESSED, zlib.compress(b"0123456789" * 100)[:-5], "is cut short"),
        (COMPRESSED | COMPRESSION_LZ4, b"no frame of LZ4", "is not an LZ4 frame"),
        (COMPRESSED | COMPRESSION_ZSTD, zstandard.compress(b"0123456789" * 100)[:-3], "Zstandard"),
        (COMPRESSED | COMPRESSION_LZ4, "no lz4.frame", "needs a package: pip install lz4"),
        (COMPRESSED | COMPRESSION_ZSTD, "no zstandard", "needs a package: pip install zstandard"),
        (COMPRESSED | 0x700, b"plain", "names compression 0x700"),
    ],
)
def test_a_body_that_cannot_be_decompressed_is_null_and_says_why(monkeypatch, flag, packed, words):
    if isinstance(packed, str):
        monkeypatch.setitem(sys.modules, packed.removeprefix("no "), None)
        packed = b"packed"
    records = record(b"first"), record(packed, sys_flag=flag), record(zlib.compress(b"next"), sys_flag=COMPRESSED)
    found = rows(*records)
    assert [(row["body"], row["sysFlag"]) for row in found] == [(b"first", 0), (None, flag), (b"next", 0)]
    assert [row["bodyProblem"] is None for row in found] == [True, False, True]
    assert words in found[1]["bodyProblem"]
    kept = rows(*records, body_problems="keep")
    assert [row["body"] for row in kept] == [b"first", packed, b"next"]
    assert [row["bodyProblem"] for row in kept] == [row["bodyProblem"] for row in found]
    with pytest.raises(FormatError, match=f"topic .*, queue .*, offset .*: .*{words}"):
        rows(*records, body_problems="fail")
    stored = rows(*records, stored_bodies=True, body_problems="fail")
    assert [(row["body"], row["bodyProblem"]) for row in stored[:2]] == [(b"first", None), (packed, None)]


def test_bodies_that_nobody_asks_for_are_no_problem():
    found = rows(record(b"plain", sys_flag=COMPRESSED), columns=("topic",), body_problems="fail")
    assert [*found[0]] == ["topic"]


def test_times_that_no_calendar_has_are_null():
    limits = [
        -62_135_596_800_001,
        -62_135_596_800_000,
        0,
        253_402_300_799_999,
        253_402_300_800_000,
        2**63 - 1,
        -(2**63),
    ]
    found = rows(*(record(born_timestamp=time, store_timestamp=1) for time in limits))
    assert [row["bornTimestamp"] for row in found] == [
        None,
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
        None,
        None,
        None,
    ]


def test_names_of_topics_brokers_and_offsets_of_static_topics():
    data = record(topic="ns%Orders", queue_offset=5) + record(topic="Bills", queue_offset=6)
    batch = record_batch(
        data,
        record_positions(data),
        NO_LOG,
        "broker-a",
        {"ns%Orders": "Orders"},
        ["topic", "brokerName", "queueOffset"],
        queue_offset_delta=100,
    )
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        ("Orders", "broker-a", 105),
        ("Bills", "broker-a", 106),
    ]


def test_a_record_that_says_another_place_in_the_log_is_refused():
    data = record(log_offset=700) + record(log_offset=9)
    with pytest.raises(FormatError, match="record at log offset 801: it states log offset 9"):
        record_batch(data, record_positions(data), 700, None)


def test_no_records_are_an_empty_batch():
    batch = record_batch(b"", record_positions(b""), NO_LOG, None, columns=["tags"])
    assert (batch.num_rows, batch.schema) == (0, schema(["tags"]))


@pytest.mark.parametrize("cut", [1, 50, 90])
def test_a_reply_that_is_cut_short_is_refused(cut):
    data = record() * 3
    with pytest.raises(FormatError):
        record_positions(data[:-cut])


def test_positions_of_long_and_short_records():
    records = [record(), record(b"x" * 5000, topic="T" * 200), record(b"", born_host=V6), record()] * 20
    starts = np.cumsum([0, *map(len, records)])[:-1]
    assert record_positions(b"".join(records)).tolist() == starts.tolist()


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["nope"], "'nope' is not a column"),
        ([], "no column is named"),
        ("tags, ,keys", "'' is not a column"),
        ("keys,keys", "2 times"),
    ],
)
def test_columns_that_cannot_be(names, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        selected(names)


@pytest.mark.spark
def test_the_schema_of_spark_is_the_one_of_arrow():
    from pyspark.sql.pandas.types import to_arrow_schema

    assert spark_schema().fieldNames() == list(COLUMNS) == schema().names
    assert to_arrow_schema(spark_schema(), timezone="UTC").equals(schema())
    assert isinstance(schema(), pa.Schema)
