import pytest
from memory_log import START_MS, MemoryLog

from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import encode_record
from gantrymq.formats.tags_code import tags_code
from gantrymq_store_files.plain_entries import plain_entries
from gantrymq_store_files.record_crc import crc_tail

NONE = 1 << 40


def record(**fields):
    made = {"topic": "TopicTest", "queue_id": 3, "body": b"hello", "properties": b"TAGS\x01TagA\x02", **fields}
    return encode_record(**{"log_offset": 5000, "queue_offset": 7, "store_timestamp": START_MS, **made})


def read(data, *, position=0, log_offset=5000, end=NONE, most=100, check_crc=True):
    return plain_entries(data, position, log_offset, end, most, check_crc, {})


def test_an_entry_says_what_the_record_says():
    raw = record(sys_flag=8, prepared_offset=99)
    found = read(b"before" + raw + b"behind", position=6)
    assert found == [DispatchEntry("TopicTest", 3, 7, 5000, len(raw), 2598919, START_MS, 8, 99, b"TAGS\x01TagA\x02")]
    assert type(found[0]) is DispatchEntry


def test_records_back_to_back_share_their_topics():
    log = MemoryLog(1 << 20)
    for n in range(50):
        log.add(topic=f"Topic{n % 3}")
    data = log.read(0, log.end)
    topics = {}
    found = plain_entries(data, 0, 0, NONE, 100, True, topics)
    assert [(each.log_offset, each.size) for each in found] == log.records
    assert {id(each.topic) for each in found} == {id(topic) for topic in topics.values()}
    assert topics == {b"Topic%d" % n: f"Topic{n}" for n in range(3)}


def test_bounds():
    log = MemoryLog(1 << 20)
    for _ in range(20):
        log.add()
    data = log.read(0, log.used)
    third = log.records[3][0]
    assert len(read(data, log_offset=0, most=4)) == 4
    assert read(data, log_offset=0, most=0) == []
    assert len(read(data, log_offset=0, end=third)) == 3
    assert len(read(data, log_offset=0, end=third + 1)) == 4
    assert len(read(data[:-1], log_offset=0)) == 19
    assert read(data, position=len(data), log_offset=log.used) == []
    assert read(b"") == []


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "t" * 200},
        {"topic": "тема"},
        {"topic": "SCHEDULE_TOPIC_XXXX"},
        {"topic": ""},
        {"topic": "a\0b"},
        {"born_host": bytes(20)},
        {"store_host": bytes(20)},
        {"log_offset": 4999},
        {"properties": "a\x01é\x02".encode()},
        {"properties": b"a\x01\0\x02"},
        {"properties": b"TAGS\x01A\x02TAGS\x01\x02"},
        {"properties": b"a\x01b\x02" + crc_tail(b"x")},
    ],
)
def test_what_is_not_plain_ends_the_stretch(fields):
    first = record(log_offset=4000)
    odd = record(**{"log_offset": 4000 + len(first), **fields})
    assert len(read(first + odd, log_offset=4000)) == 1


@pytest.mark.parametrize("at", [0, 3, 4, 8, 30, 84, 90, 93])
def test_damage_ends_the_stretch(at):
    raw = bytearray(record())
    raw[at] ^= 0x40
    assert read(bytes(raw)) == []
    assert len(read(bytes(raw), check_crc=False)) == (at in (8, 90))


@pytest.mark.parametrize(
    ("properties", "tag"),
    [
        (b"", None),
        (b"TAGS\x01A", "A"),
        (b"KEYS\x01k\x02TAGS\x01a b\x02", "a b"),
        (b"TAGS\x01A\x02TAGS\x01B\x02K\x01v\x02", "B"),
        (b"MYTAGS\x01A\x02TAGSX\x01B\x02", None),
        (b"TAGS\x01A\x01B\x02", "A\x01B"),
        (b"\x02TAGS\x01C\x02\x02", "C"),
        (b"TAGS", None),
        (b"TAGS\x01" + b"long" * 99, "long" * 99),
    ],
)
def test_codes_of_tags(properties, tag):
    assert read(record(properties=properties))[0].tags_code == tags_code(tag)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 79, 80, 127, 128, 1000, 20_001])
def test_bodies_of_any_size_are_checked(size):
    raw = bytearray(record(body=(bytes(range(256)) * 80)[:size]))
    assert len(read(bytes(raw))) == 1
    for at in {0, size // 2, size - 1} if size else ():
        raw[88 + at] ^= 1
        assert read(bytes(raw)) == []
        raw[88 + at] ^= 1
