"""The three forms of a registration body, whole and broken."""

from __future__ import annotations

import json
import struct
import zlib

import pytest

from gantrymq.errors import RequestError
from gantrymq.model.data_version import DataVersion
from gantrymq.model.topic import TopicConfig
from gantrymq_nameserver.registration_body import MAX_ENTRIES, MAX_INFLATED_BYTES, read_registration_body

VERSION = {"counter": 3, "stateVersion": 2, "timestamp": 7}
MAPPING = b'{"bname":"a","currIdMap":{0:0,1:1},"epoch":9,"scope":"__global__","topic":"S","totalQueues":2}'
PLAIN = (
    b'{"filterServerList":["f:1"],"topicConfigSerializeWrapper":{"dataVersion":'
    + json.dumps(VERSION).encode()
    + b',"topicConfigTable":{"T":{"attributes":{"k":"v"},"order":true,"perm":4,"readQueueNums":8,'
    b'"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":1,"writeQueueNums":2},"U":{}},'
    b'"topicQueueMappingInfoMap":{"S":' + MAPPING + b"}}}"
)


def block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def compressed(*topics: bytes, mappings: tuple[bytes, ...] | None = (MAPPING,)) -> bytes:
    parts = [block(json.dumps(VERSION).encode()), number(len(topics)), *map(block, topics), block(b'["f:1"]')]
    if mappings is not None:
        parts += [number(len(mappings)), *map(block, mappings)]
    return zlib.compress(b"".join(parts), 9)


def read(body: bytes, *, crc32: int = 0, is_compressed: bool = False, version: int = 479):
    return read_registration_body(body, crc32=crc32, compressed=is_compressed, version=version)


def test_the_plain_form():
    body = read(PLAIN)
    assert body.version == DataVersion(3, 2, 7)
    assert body.topics == {
        "T": TopicConfig("T", 8, 2, 4, sys_flag=1, order=True, attributes={"k": "v"}),
        "U": TopicConfig("U"),
    }
    assert body.filter_servers == ["f:1"]
    assert body.mappings["S"]["currIdMap"] == {0: 0, 1: 1}


def test_a_mapping_s_quoted_ids_are_integers():
    assert read(PLAIN.replace(b"{0:0,1:1}", b'{"0":0,"1":1}')) == read(PLAIN)


def test_the_old_form_says_nothing_of_filter_servers():
    wrapper = b'{"dataVersion":{"counter":3,"timestamp":7},"topicConfigTable":{"T":{"topicName":"T"}}}'
    body = read(wrapper, version=36)
    assert (body.version, set(body.topics), body.filter_servers) == (DataVersion(3, 0, 7), {"T"}, None)
    assert read(PLAIN, version=37).filter_servers == ["f:1"]


@pytest.mark.parametrize(("version", "servers"), [(479, []), (36, None)])
def test_no_body_is_data_version_zero(version, servers):
    body = read(b"", version=version)
    assert (body.topics, body.version, body.filter_servers) == ({}, DataVersion(0, 0, 0), servers)


def test_the_compressed_form():
    body = read(compressed(b'T 8 2 4 SINGLE_TAG {"k":"v"}', b"U 1 1 6 MULTI_TAG"), is_compressed=True)
    assert body.version == DataVersion(3, 2, 7)
    assert body.topics == {
        "T": TopicConfig("T", 8, 2, 4, attributes={"k": "v"}),
        "U": TopicConfig("U", 1, 1, 6, "MULTI_TAG"),
    }
    assert (body.filter_servers, body.mappings["S"]["currIdMap"]) == (["f:1"], {0: 0, 1: 1})


def test_mappings_are_compressed_from_5_0_0_on():
    without = compressed(b"T 8 2 4 SINGLE_TAG {}", mappings=None)
    assert read(without, is_compressed=True, version=412).mappings == {}
    with pytest.raises(RequestError, match="decode"):
        read(without, is_compressed=True, version=413)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'T 8 2 4 SINGLE_TAG {"k": "v"}', {"T": TopicConfig("T", 8, 2, 4)}),  # a blank cuts the attributes
        (b'T 8 2 4 SINGLE_TAG {"k":"v}', {"T": TopicConfig("T", 8, 2, 4)}),
        (b"T 8 2 4 SINGLE_TAG " + b"[" * 200_000, {"T": TopicConfig("T", 8, 2, 4)}),  # no RecursionError
        (b"T 8 2 4", {}),
    ],
)
def test_odd_topic_lines_are_read_as_java_does(line, expected):
    assert read(compressed(line), is_compressed=True).topics == expected


@pytest.mark.parametrize("body", [PLAIN, compressed(b"T 1 1 6 SINGLE_TAG")])
def test_the_checksum_covers_the_bytes_as_sent(body):
    crc = zlib.crc32(body) & 0x7FFFFFFF
    is_compressed = body is not PLAIN
    assert read(body, crc32=crc, is_compressed=is_compressed) == read(body, is_compressed=is_compressed)
    with pytest.raises(RequestError, match="crc32 not match") as caught:
        read(body, crc32=crc ^ 1, is_compressed=is_compressed)
    assert caught.value.response_code == 1


@pytest.mark.parametrize(
    ("body", "is_compressed"),
    [
        (b"{", False),
        (b"[]", False),
        (b'{"topicConfigSerializeWrapper":[]}', False),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":1}}}', False),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}', False),
        (b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":[]}}}', False),
        (b'{"filterServerList":1}', False),
        (b"no zlib", True),
        (compressed()[:-5], True),
        (zlib.compress(number(99) + b"short"), True),
        (zlib.compress(number(-1)), True),
        (zlib.compress(block(b"{}") + number(0x7FFFFFFF)), True),
        (compressed(b"T eight 2 4 SINGLE_TAG {}"), True),
        (compressed(b"\xff 1 1 6 SINGLE_TAG {}"), True),
        (zlib.compress(bytes(MAX_INFLATED_BYTES + 1)), True),
        (compressed(mappings=(b"['loose']",)), True),
    ],
)
def test_what_cannot_be_read_is_refused(body, is_compressed):
    with pytest.raises(RequestError, match="decode of a registration body"):
        read(body, is_compressed=is_compressed)


def test_as_many_topics_as_a_broker_may_have_are_read():
    lines = [b"Topic_with_a_long_name_%08d 8 8 6 SINGLE_TAG {}" % each for each in range(MAX_ENTRIES)]
    assert len(read(compressed(*lines), is_compressed=True).topics) == MAX_ENTRIES


@pytest.mark.parametrize(
    ("body", "is_compressed", "why"),
    [
        (compressed(b""), True, "a topic line is empty"),
        (
            zlib.compress(block(b"{}") + number(3_000_000) + bytes(12_000_000)),
            True,
            "it holds 3000000 topics, .* 100000",
        ),
        (zlib.compress(block(b"{}") + number(-1)), True, "it holds -1 topics"),
        (zlib.compress(block(b"{}") + number(0) + block(b"[]") + number(100_001)), True, "it holds 100001 mappings"),
        (
            b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%s}}}'
            % b",".join(b'"%d":{}' % n for n in range(100_001)),
            False,
            "it holds 100001 topics",
        ),
        (zlib.compress(bytes(60_000_000)), True, "more than 16777216 bytes"),
    ],
)
def test_what_would_take_seconds_to_read_is_refused(body, is_compressed, why):
    with pytest.raises(RequestError, match=why):
        read(body, is_compressed=is_compressed)


@pytest.mark.parametrize(("at", "what"), [(1, "readQueueNums"), (2, "writeQueueNums"), (3, "perm")])
@pytest.mark.parametrize("value", ["-1", "2147483648", str(10**30)])
def test_numbers_that_no_client_could_read_are_refused(at, what, value):
    words = ["T", "1", "1", "6", "SINGLE_TAG", "{}"]
    words[at] = value
    wrapper = {"topicConfigTable": {"T": {what: int(value)}}}
    for body in (compressed(" ".join(words).encode()), json.dumps({"topicConfigSerializeWrapper": wrapper}).encode()):
        with pytest.raises(RequestError, match=f"{what} -?\\d+ is not between 0 and 2147483647"):
            read(body, is_compressed=body[:1] != b"{")
