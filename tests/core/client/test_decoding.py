import copy
import gc
import pickle
import struct
import sys
import zlib

import attrs
import pytest

from gantrymq.client.calls import decoding
from gantrymq.client.calls.decoding import decode_messages, parse_tags
from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.formats.record import body_crc, iter_records

READERS = tuple(
    dict.fromkeys((decoding._plain_messages, decoding.plain_messages))
)  # only one if no functions are compiled


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    monkeypatch.setattr(decoding, "plain_messages", request.param)


@pytest.fixture
def lazy(record, reader):
    """Creates the same message repeatedly."""

    def made():
        body = record(topic="T", body=b"body", properties=b"TAGS\x01A\x02a\x01b\x02", queue_offset=5, born_timestamp=9)
        (message,) = decode_messages(body + record(), "broker-a", {"A"})
        return message

    return made


def whole(message):
    return attrs.asdict(message)


def test_recorded_reply_is_read(golden):
    first, *rest = decode_messages(golden("pull found").payload, "broker-a")
    assert len(rest) == 2
    assert (first.topic, first.tags, first.keys) == ("GoldenOps", "t0", "key0")
    assert first.message_id == "7F0000012AB54E0E2F2A688EB5510000"
    assert first.offset_id == "7F000002000051AF0000000000000000"
    assert (first.queue_id, first.queue_offset, first.log_offset) == (0, 0, 0)
    assert first.store_host == "127.0.0.2:20911"
    assert first.born_host.startswith("127.0.0.1:")
    assert first.broker_name == "broker-a"
    assert first.body.decode().startswith("straße")


def test_fields_that_are_read_later_are_those_of_the_record(lazy):
    message = lazy()
    assert whole(message) == {
        "topic": "T",
        "body": b"body",
        "properties": {"TAGS": "A", "a": "b"},
        "flag": 0,
        "queue_id": 0,
        "queue_offset": 5,
        "log_offset": 0,
        "store_size": message.store_size,
        "sys_flag": 0,
        "born_timestamp": 9,
        "born_host": "127.0.0.1:0",
        "store_timestamp": 0,
        "store_host": "127.0.0.1:0",
        "reconsume_times": 0,
        "body_crc": body_crc(b"body"),
        "prepared_offset": 0,
        "offset_id": "7F000001000000000000000000000000",
        "broker_name": "broker-a",
        "body_problem": "",
    }


@pytest.mark.parametrize(
    "same",
    [
        copy.copy,
        copy.deepcopy,
        attrs.evolve,
        lambda message: pickle.loads(pickle.dumps(message)),
        lambda message: ReceivedMessage(**whole(message)),
        lambda message: eval(repr(message), {"ReceivedMessage": ReceivedMessage}),
    ],
)
def test_a_message_of_which_little_is_read_is_equal_to_its_copies(lazy, same):
    message = lazy()
    other = same(message)
    assert (other, whole(other), repr(other)) == (lazy(), whole(message), repr(message))
    assert other != attrs.evolve(message, born_timestamp=10)


def test_a_field_can_be_set_before_it_is_read(lazy):
    message = lazy()
    message.properties = {"TAGS": "B"}
    message.flag = 7
    assert (message.tags, message.flag) == ("B", 7)
    message.properties["x"] = "y"
    assert message.properties == {"TAGS": "B", "x": "y"}


def test_what_a_message_does_not_have_it_does_not_read(lazy):
    for message in (lazy(), ReceivedMessage(**whole(lazy()))):
        with pytest.raises(AttributeError, match="no attribute 'born'"):
            message.born  # noqa: B018
        assert not hasattr(message, "__dict__")


def test_a_message_keeps_no_pull_in_memory(record, reader):
    body = b"".join(record(body=bytes(1000), properties=b"a\x01b\x02", queue_offset=n) for n in range(50))
    (kept,) = (m for m in decode_messages(body, "b") if m.queue_offset == 25)
    assert sum(len(each) for each in gc.get_referents(kept) if isinstance(each, bytes)) < 1200
    assert not any(isinstance(each, memoryview) for each in gc.get_referents(kept))


def test_compressed_bodies_are_inflated_and_the_bit_is_gone(golden):
    messages = list(decode_messages(golden("pull found compressed").payload, "broker-a"))
    assert {message.sys_flag for message in messages} == {0, 0x300}
    longest = max(messages, key=lambda message: len(message.body))
    assert longest.sys_flag == 0x300
    assert len(longest.body) > 4096 > longest.store_size


def test_inner_batches_are_taken_apart(golden):
    payload = golden("pull inner batch").payload
    messages = list(decode_messages(payload, "broker-a"))
    batches = list(iter_records(payload))
    assert [message.queue_offset for message in messages] == [*range(batches[0].queue_offset, 34)]
    assert len(messages) > len(batches)
    assert len({message.message_id for message in messages}) == len(messages)
    assert [m.queue_offset for m in decode_messages(payload, "b", first_offset=31)] == [31, 32, 33]
    some = next(message.tags for message in messages if message.tags)
    of_tag = list(decode_messages(payload, "b", {some}))
    assert [m.queue_offset for m in of_tag] == [m.queue_offset for m in messages if m.tags == some]


@pytest.mark.parametrize(("body", "flags"), [(b"no batch", 0xC0), (b"no stream", 0xC1)])
def test_an_inner_batch_that_cannot_be_taken_apart_is_given_as_it_is_stored(record, body, flags):
    spoilt, behind = decode_messages(record(body=body, sys_flag=flags) + record(queue_offset=3), "b")
    assert (spoilt.body, behind.body_problem, behind.queue_offset) == (body, "", 3)
    assert spoilt.body_problem


def test_tags_are_compared_as_text(record):
    body = b"".join(record(properties=f"TAGS\x01{tag}\x02".encode()) for tag in ("Aa", "BB")) + record()
    assert [m.tags for m in decode_messages(body, "b", {"Aa"})] == ["Aa"]  # Aa and BB have the same hash
    assert [m.tags for m in decode_messages(body, "b")] == ["Aa", "BB", None]


def test_offset_delta_is_added(record):
    (message,) = decode_messages(record(queue_offset=5), "b", offset_delta=100)
    assert message.queue_offset == 105


def test_message_without_unique_id_goes_by_its_offset_id(record):
    (message,) = decode_messages(record(log_offset=16, store_host=b"\x7f\0\0\1\0\0\x2a\x9f"), "b")
    assert message.message_id == message.offset_id == "7F00000100002A9F0000000000000010"


def test_ipv6_hosts_are_read(record):
    (message,) = decode_messages(record(store_host=bytes(15) + b"\1\0\0\x2a\x9f"), "b")
    assert message.store_host == "[::1]:10911"
    assert len(message.offset_id) == 56


def test_a_record_that_cannot_be_read_is_given_as_bytes_and_those_behind_it_too(record):
    spoilt = bytearray(record(queue_id=3, queue_offset=7, log_offset=700))
    spoilt[84:88] = b"\x7f\xff\xff\xff"  # body length
    first, second, third = decode_messages(record() + bytes(spoilt) + record(queue_offset=8), "b", offset_delta=10)
    assert (second.body, second.topic, second.queue_id) == (bytes(spoilt), "", 3)
    assert (second.queue_offset, second.log_offset, second.broker_name) == (17, 700, "b")
    assert "body length" in second.body_problem
    assert (first.body_problem, third.body_problem, third.queue_offset) == ("", "", 18)


@pytest.mark.parametrize("cut", [1, 60])
def test_what_is_left_of_a_cut_record_is_given_as_bytes(record, cut):
    whole, rest = decode_messages(record() + record()[:-cut], "b")
    assert (whole.body_problem, rest.body, rest.queue_offset) == ("", record()[:-cut], -1)
    assert "the record cannot be read" in rest.body_problem


@pytest.mark.parametrize(
    ("expression", "tags"),
    [("*", set()), ("", set()), (" * ", set()), ("A", {"A"}), (" A ||B|| ", {"A", "B"}), ("A B", {"A B"})],
)
def test_tag_expression_is_split(expression, tags):
    assert parse_tags(expression) == tags


def test_bars_without_a_tag_are_refused():
    with pytest.raises(ClientError, match="names no tag"):
        parse_tags("||")


@pytest.mark.parametrize(
    ("flags", "word"), [(0x301, "not a zlib stream"), (0x001, "not a zlib stream"), (0x401, "0x400")]
)
def test_a_body_that_cannot_be_decompressed_is_given_as_it_is_stored(record, flags, word):
    body = record(queue_offset=1) + record(queue_offset=2, body=b"damaged", sys_flag=flags) + record(queue_offset=3)
    before, spoilt, behind = decode_messages(body, "b")
    assert (before.body_problem, behind.body_problem) == ("", "")
    assert (spoilt.queue_offset, spoilt.body, spoilt.sys_flag) == (2, b"damaged", flags)
    assert word in spoilt.body_problem


def test_a_body_whose_package_is_missing_names_it(record, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (message,) = decode_messages(record(body=b"packed", sys_flag=0x201), "b")
    assert message.body == b"packed"
    assert "pip install zstandard" in message.body_problem


@pytest.mark.parametrize("flags", [0, 0x001, 0xC0], ids=["plain", "compressed", "inner batch"])
def test_a_stored_body_is_compared_with_its_check_sum_where_that_is_asked_for(record, reader, flags):
    batch = struct.pack(">iiiii4sh", 26, 0, 0, 0, 4, b"body", 0)
    stored = {0: b"body", 0x001: zlib.compress(b"body", 0), 0xC0: batch}[flags]
    spoilt = stored.replace(b"body", b"bent")
    whole = record(body=stored, sys_flag=flags)
    found = [
        next(decode_messages(bytes_, "b", check_crcs=check))
        for bytes_ in (whole, whole.replace(stored, spoilt))
        for check in (False, True)
    ]
    assert [message.body for message in found[:2]] == [b"body", b"body"]
    assert not found[0].body_problem and not found[1].body_problem
    assert "check sum" not in found[2].body_problem
    assert found[3].body == spoilt
    assert f"its record says {body_crc(stored):08x}" in found[3].body_problem


def test_of_a_compressed_body_only_the_beginning_is_decompressed(record, reader):
    plain, packed = record(body=b"x" * 5000), record(body=zlib.compress(b"x" * 5000), sys_flag=0x301)
    batch = record(body=zlib.compress(bytes(5000)), sys_flag=0x3C1, queue_offset=4)
    messages = list(decode_messages(plain + packed + batch, "b", max_body_bytes=100))
    assert [len(each.body) for each in messages] == [5000, 100, 100]
    assert [each.is_shortened for each in messages] == [False, True, True]
    with pytest.raises(ClientError, match="shortened"):
        Message.from_received(messages[1])
    whole = list(decode_messages(packed, "b", max_body_bytes=5000))
    assert [(len(each.body), each.is_shortened) for each in whole] == [(5000, False)]
