import pytest

from gantrymq.errors import FormatError
from gantrymq.formats.record import (
    MAGIC_V1,
    MAGIC_V2,
    body_crc,
    encode_record,
    host_bits,
    iter_records,
    read_record,
    topic_part,
)

PROPERTIES = bytes.fromhex(
    "544147530154616741024b455953014b3102434c55535445520144656661756c74436c757374657202"
)  # TAGS=TagA, KEYS=K1, CLUSTER=DefaultCluster, every pair closed
FOUR, STORE = bytes.fromhex("c0a8010a0000c350"), bytes.fromhex("7f00000100002a9f")
SIX = bytes(15) + b"\1" + bytes.fromhex("00002a9f")
FIELDS = {
    "topic": "TopicTest",
    "queue_id": 1,
    "body": b"hello",
    "properties": PROPERTIES,
    "born_timestamp": 1700000000000,
    "born_host": FOUR,
    "store_timestamp": 1700000000123,
    "store_host": STORE,
}
V1 = (
    "00000092" "daa320a7" "3610a686" "00000001" "00000000" "0000000000000000" "0000000000000000" "00000000"
    "0000018bcfe56800" "c0a8010a0000c350" "0000018bcfe5687b" "7f00000100002a9f" "00000000" "0000000000000000"
    "00000005" "68656c6c6f" "09" "546f70696354657374" "0029"
)  # fmt: skip


def test_a_version_1_record_has_the_documented_bytes():
    assert encode_record(**FIELDS) == bytes.fromhex(V1) + PROPERTIES


def test_a_version_2_record_has_a_wider_topic_length():
    topic = "%RETRY%" + "g" * 121
    raw = encode_record(**{**FIELDS, "topic": topic})
    assert raw[4:8] == MAGIC_V2.to_bytes(4, "big")
    assert raw[93:95] == (128).to_bytes(2, "big")
    record = read_record(raw)
    assert (record.version, record.topic) == (2, topic)
    assert encode_record(**{**FIELDS, "topic": topic[:-1]})[4:8] == MAGIC_V1.to_bytes(4, "big")


def test_every_field_is_read_back():
    raw = encode_record(
        **FIELDS, queue_offset=7, log_offset=1 << 40, flag=-3, sys_flag=0x301, reconsume_times=2, prepared_offset=99
    )
    record = read_record(b"..." + raw + b"...", 3)
    assert (record.total_size, record.magic, record.version) == (146, MAGIC_V1, 1)
    assert (record.queue_id, record.flag, record.queue_offset, record.log_offset) == (1, -3, 7, 1 << 40)
    assert (record.sys_flag, record.reconsume_times, record.prepared_offset) == (0x301, 2, 99)
    assert (record.born_timestamp, record.store_timestamp) == (1700000000000, 1700000000123)
    assert (record.born_host, record.store_host) == (FOUR, STORE)
    assert (record.topic, bytes(record.body), record.body_crc) == ("TopicTest", b"hello", body_crc(b"hello"))
    assert bytes(record.properties_bytes) == PROPERTIES
    assert record.properties == {"TAGS": "TagA", "KEYS": "K1", "CLUSTER": "DefaultCluster"}
    assert record.properties is record.properties
    assert bytes(record.raw) == raw
    assert "TopicTest" in repr(record)


@pytest.mark.parametrize(
    ("born", "store", "bits"), [(FOUR, STORE, 0), (SIX, STORE, 0x10), (FOUR, SIX, 0x20), (SIX, SIX, 0x30)]
)
def test_hosts_of_both_families(born, store, bits):
    raw = encode_record(**{**FIELDS, "born_host": born, "store_host": store, "sys_flag": 0x30})
    record = read_record(raw)
    assert (record.sys_flag, host_bits(born, store)) == (bits, bits)
    assert (record.born_host, record.store_host, bytes(record.body)) == (born, store, b"hello")
    assert len(raw) == 146 + 12 * bits.bit_count()


def test_nothing_is_copied():
    memory = bytearray(encode_record(**FIELDS))
    record = read_record(memory)
    memory[88:93] = b"HELLO"
    assert bytes(record.body) == b"HELLO"


def test_an_empty_record_has_91_bytes_and_crc_0():
    raw = encode_record(topic="", queue_id=0, body=b"", properties=b"")
    assert len(raw) == 91
    assert read_record(raw).body_crc == body_crc(b"") == 0


def test_records_back_to_back_are_iterated_and_a_cut_one_is_named():
    raw = encode_record(**FIELDS)
    assert [record.total_size for record in iter_records(raw * 3)] == [146, 146, 146]
    assert list(iter_records(b"")) == []
    found = iter_records(memoryview(raw * 2)[:-1])
    next(found)
    with pytest.raises(FormatError, match="record at 146: total size 146 where 91 to 145"):
        next(found)


def changed(position, data):
    raw = bytearray(encode_record(**FIELDS))
    raw[position : position + len(data)] = data
    return raw


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (bytes(90), "90 bytes are left"),
        (changed(4, b"\0"), "magic 0x00a320a7 where 0xdaa320a7"),
        (changed(0, b"\xff"), "total size -"),
        (changed(3, b"\x91"), "properties length 41 where 40"),
        (changed(84, b"\xff"), "body length -"),
        (changed(84, b"\0\0\0\x39"), "body length 57 does not fit|topic length|properties length"),
        (changed(86, b"\xff"), "body length 65285 does not fit"),
        (changed(93, b"\xff"), "topic length 255 does not fit"),
        (changed(103, b"\xff\xff"), "properties length -1 where 41"),
        (changed(94, b"\xff"), "byte 0 of the topic is not UTF-8"),
        (changed(39, b"\x30"), "body length|topic length|properties length"),
    ],
)
def test_what_is_no_record_is_refused_with_the_place(raw, says):
    with pytest.raises(FormatError, match=f"record at 0: .*({says})"):
        read_record(raw)


def test_a_record_too_short_for_its_ipv6_hosts_is_refused():
    raw = bytearray(encode_record(topic="T", queue_id=0, body=b"", properties=b""))
    raw[39] = 0x30
    with pytest.raises(FormatError, match="too short for its IPv6 hosts"):
        read_record(raw)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"properties": b"x" * 32768}, "properties of 32768 bytes"),
        ({"topic": "t" * 32768}, "topic of 32768 bytes"),
        ({"topic": "\ud800"}, "cannot be written as UTF-8"),
        ({"flag": 1 << 31}, "TopicTest"),
    ],
)
def test_what_does_not_fit_a_record_is_refused(fields, says):
    with pytest.raises(FormatError, match=says):
        encode_record(**{**FIELDS, **fields})


def test_the_topic_part_counts_bytes_not_characters():
    assert topic_part("Tö") == (MAGIC_V1, b"\x03T\xc3\xb6")
