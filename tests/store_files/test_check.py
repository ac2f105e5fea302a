import pytest

from gantrymq.formats.record import encode_record
from gantrymq_store_files.blank import encode_blank, fits
from gantrymq_store_files.check import (
    HEAD_BYTES,
    LogContent,
    check_bytes,
    head_is_sound,
    properties_problem,
    sound_records,
    verified_queue_offset,
)
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_store_files.record_crc import crc_tail, record_crc_matches

PROPERTIES = b"TAGS\x01TagA\x02"


def record(**fields):
    return encode_record(
        **{
            "topic": "TopicTest",
            "queue_id": 1,
            "body": b"hello",
            "properties": PROPERTIES,
            "log_offset": 5000,
            **fields,
        }
    )


def look(raw, log_offset=5000, **more):
    return check_bytes(memoryview(raw), 0, log_offset, **more)


def changed(raw, position, data):
    raw = bytearray(raw)
    raw[position : position + len(data)] = data
    return raw


def test_a_sound_record_is_found():
    result = look(record() + b"rest")
    assert (result.found, result.size, result.problem) == (LogContent.RECORD, len(record()), "")
    assert result.record.topic == "TopicTest"


def test_a_blank_fills_the_rest_of_its_file():
    assert encode_blank(200).hex() == "000000c8cbd43194"
    assert look(encode_blank(200).ljust(200, b"?"))[:2] == (LogContent.BLANK, 200)
    assert look(encode_blank(200).ljust(300, b"?")).found is LogContent.DAMAGED


def test_a_record_fits_when_a_blank_still_does():
    assert fits(192, 200)
    assert not fits(193, 200)


@pytest.mark.parametrize("raw", [bytes(100), bytes(8), b"", b"1234567"])
def test_zeros_and_no_room_are_the_end(raw):
    assert look(raw).found is LogContent.END


@pytest.mark.parametrize("cut_at", range(6, len(record())))
def test_a_record_whose_end_was_not_written_is_torn(cut_at):
    raw = record()
    result = look(raw[:cut_at].ljust(len(raw), b"\0"))
    assert result.found is LogContent.TORN
    assert "5000" in result.problem


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (record(log_offset=4999), "its log offset field is 4999"),
        (changed(record(), 90, b"L"), "the body's CRC is"),
        (changed(record(), 95, b"\0"), "the topic is 'T"),
        (record(topic=""), "the topic is ''"),
        (record(properties=b"KEYS\x01\xff\xfe\x02"), "byte 5 of the properties is not UTF-8"),
        (record(properties=b"KEYS\x01" + bytes(512) + b"\x02"), "zero bytes where text belongs"),
        (changed(record(), 3, b"\xff"), "total size"),
    ],
)
def test_what_no_write_leaves_is_damage(raw, says):
    result = look(raw)
    assert (result.found, result.size, result.record) == (LogContent.DAMAGED, 0, None)
    assert says in result.problem


def test_the_crc_can_be_left_out():
    assert look(changed(record(), 90, b"L"), check_crc=False).found is LogContent.RECORD


@pytest.mark.parametrize(
    "text", [b"", b"a\x01b", b"a\x01\0b\x02", "k\x01ü\x02".encode(), "k\x01\ud800\x02".encode("utf-8", "surrogatepass")]
)
def test_odd_but_legal_property_text(text):
    assert properties_problem(text) is None


def test_the_check_sum_property_has_the_documented_digits():
    raw = encode_record(
        topic="TopicTest",
        queue_id=1,
        body=b"hello",
        properties=b"TAGS\x01TagA\x02" + bytes(20),
        born_timestamp=1700000000000,
        born_host=bytes.fromhex("c0a8010a0000c350"),
        store_timestamp=1700000000123,
        store_host=bytes.fromhex("7f00000100002a9f"),
    )
    assert len(raw) == 135
    assert crc_tail(raw[:-20]) == b"__CRC32#\x014922240251\x02"
    whole = raw[:-20] + crc_tail(raw[:-20])
    assert record_crc_matches(whole) is True
    assert record_crc_matches(changed(whole, 90, b"L")) is False
    assert record_crc_matches(raw) is None


def test_the_head_of_a_log_file_is_a_record_of_its_place_or_a_blank():
    head = encode_record(topic="T", queue_id=0, body=b"", properties=b"", log_offset=8192)[:HEAD_BYTES]
    assert head_is_sound(head, 8192, 8192)
    assert not head_is_sound(head, 4096, 8192)
    assert not head_is_sound(head[:-1], 8192, 8192)
    assert not head_is_sound(bytes(HEAD_BYTES), 8192, 8192)
    assert not head_is_sound(head, 8192, 50)
    assert head_is_sound(encode_blank(8192).ljust(HEAD_BYTES, b"\0"), 0, 8192)
    assert not head_is_sound(encode_blank(8192).ljust(HEAD_BYTES, b"\0"), 0, 4096)


def certain(raw, *, size=None, topic=b"TopicTest", log_offset=5000):
    return verified_queue_offset(bytes(raw), 0, log_offset, len(raw) if size is None else size, topic)


def test_a_plain_record_is_sound_beyond_doubt():
    assert certain(record(queue_offset=7)) == 7
    assert certain(record(queue_offset=7) + b"rest", size=len(record())) == 7
    assert verified_queue_offset(b"before" + record(queue_offset=7), 6, 5000, len(record()), b"TopicTest") == 7


@pytest.mark.parametrize(
    "raw",
    [
        record(topic="Other"),
        record(topic="T" * 200),
        record(log_offset=5001),
        record(born_host=bytes(20)),
        record(properties="ä".encode()),
        record(properties=b"a\0b"),
        record()[:-1],
        b"",
        bytes(300),
    ],
    ids=["topic", "version 2", "place", "IPv6", "not ASCII", "zero", "cut", "nothing", "zeros"],
)
def test_anything_else_calls_for_the_whole_check(raw):
    assert certain(raw) == -1


def test_no_flipped_bit_passes_that_the_whole_check_refuses():
    raw = record(queue_offset=7)
    for bit in range(8 * len(raw)):
        flipped = changed(raw, bit // 8, bytes([raw[bit // 8] ^ 1 << bit % 8]))
        found = certain(flipped)
        if found != -1:
            result = look(flipped)
            assert (result.found, result.size, result.record.queue_offset) == (LogContent.RECORD, len(raw), found)


def test_the_records_of_entries_are_returned_up_to_the_first_doubtful_one():
    first = record(queue_offset=7)
    other = record(topic="Other", log_offset=5000 + len(first))
    second = record(queue_offset=8, log_offset=5000 + len(first + other))
    third = record(queue_offset=10, log_offset=5000 + len(first + other + second))
    data = first + other + second + third
    entries = b"".join(ENTRY.pack(5000 + data.index(each), len(each), 0) for each in (first, second, third))
    assert sound_records(data, 5000, entries, 0, 7, b"TopicTest") == (2, first + second)
    assert sound_records(data, 5000, entries, 1, 8, b"TopicTest") == (1, second)
    assert sound_records(data, 5000, entries, 2, 9, b"TopicTest") == (0, b"")  # another queue offset
    assert sound_records(data[:-1], 5000, entries, 2, 10, b"TopicTest") == (0, b"")
    assert sound_records(data, 5000, entries, 3, 10, b"TopicTest") == (0, b"")
    assert sound_records(data, 5001, entries, 0, 7, b"TopicTest") == (0, b"")
