import random

import pytest
from memory_log import START_MS, MemoryLog

from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq_store_files.log_entries import LogEntries, entry_of
from gantrymq_store_files.log_walk import LogDamage, LogWalk
from gantrymq_store_files.record_crc import crc_tail

LEVELS = (1000, 5000)


def filled(records=100, **sizes):
    log = MemoryLog(**sizes)
    for _ in range(records):
        log.add()
    return log


def walked(walk):
    """Places of entries, and damages."""
    places, damages = [], []
    for found in walk:
        if isinstance(found, LogDamage):
            damages.append(found)
        else:
            places += [(each.log_offset, each.size) for each in found]
    return places, damages


def odd_log(rng):
    """Records of all kinds, damaged here and there."""
    log = MemoryLog(rng.choice((2048, 8192)), start=rng.choice((0, 8192 * 7)))
    for _ in range(rng.randrange(1, 80)):
        odd = rng.choice(
            [
                *({},) * 6,
                {"topic": "SCHEDULE_TOPIC_XXXX", "properties": b"DELAY\x01%d\x02" % rng.randrange(4)},
                {"topic": rng.choice(("t" * 200, "тема", "Other"))},
                {"store_host": bytes(20)},
                {"sys_flag": 0x80, "properties": b"INNER_NUM\x013\x02"},
                {"properties": "TAGS\x01красный\x02".encode()},
                {"properties": b"TAGS\x01A\x02TAGS\x01\x02"},
                {"properties": b"a\x01b\x02" + crc_tail(b"x")},
                {"body": rng.randbytes(rng.randrange(900))},
                {"store_timestamp": START_MS + rng.randrange(-50, 50)},
            ]
        )
        log.add(**odd)
    for _ in range(rng.choice((0, 0, 1, 3, 8))):
        place, size = rng.choice(log.records)
        at, what = place + rng.choice((0, 4, 8, 30, 56, 84, rng.randrange(size))), rng.randrange(5)
        at = min(at, place + size - 1)
        left = log.file_bytes - (at - log.start) % log.file_bytes
        log.put(at, (rng.randbytes(1), rng.randbytes(min(50, left)), bytes(min(size, left)), b"", bytes(left))[what])
    if rng.random() < 0.3:
        log.put(log.end, bytes(log.file_bytes))
    if rng.random() < 0.1:
        log.missing.add(rng.randrange(log.start, log.end, log.file_bytes))
    return log


@pytest.mark.parametrize("seed", range(300))
def test_it_finds_what_the_walk_finds(seed):
    rng = random.Random(seed)
    chunk_bytes = rng.choice((300, 3000, 1 << 20))
    log = odd_log(rng)
    end = rng.choice((None, rng.choice(log.records)[0]))
    given = {"check_crc": rng.random() < 0.7, "trust_zeros": rng.random() < 0.3}
    walk = LogWalk(log, log.start, end, check_beyond_end=False, **given)
    entries = LogEntries(log, log.start, end, delay_levels_ms=LEVELS, chunk_bytes=chunk_bytes, **given)
    expected = [each if isinstance(each, LogDamage) else entry_of(each, LEVELS) for each in walk]
    found, latest_ms = [], 0
    for each in entries:
        if isinstance(each, LogDamage):
            found.append(each)
            assert entries.position == each.log_offset + each.size
        else:
            assert each
            found += each
            assert entries.position == sum(entries.last) == each[-1].log_offset + each[-1].size
            for entry in each:
                if entry.topic != SCHEDULE_TOPIC or entry.store_timestamp > latest_ms:
                    latest_ms = entry.store_timestamp
            assert entries.last_timestamp == latest_ms
    assert found == expected
    assert [type(each) for each in found] == [type(each) for each in expected]
    records = [each for each in expected if not isinstance(each, LogDamage)]
    assert entries.records == len(records)
    assert (entries.sound_end, entries.zeros_from) == (walk.sound_end, walk.zeros_from)
    if end is None or entries.position <= end:
        assert entries.position >= walk.position


def test_a_batch_has_a_bound():
    log = filled(3000, file_bytes=1 << 20)
    batches = list(LogEntries(log, 0, delay_levels_ms=LEVELS))
    assert [len(batch) for batch in batches] == [1024, 1024, 952]
    assert [(each.log_offset, each.size) for batch in batches for each in batch] == log.records


def test_large_records_make_small_batches():
    log = filled(50)
    batches = list(LogEntries(log, 0, delay_levels_ms=LEVELS, chunk_bytes=1000))
    assert max(sum(each.size for each in batch) for batch in batches) <= 2000


def test_delayed_messages_have_the_time_they_are_due():
    log = MemoryLog()
    log.add(topic="SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x012\x02TAGS\x01A\x02", store_timestamp=START_MS)
    (batch,) = LogEntries(log, 0, delay_levels_ms=LEVELS)
    assert batch[0].tags_code == START_MS + 5000


def test_nothing_behind_the_end_is_read():
    log = filled()
    end = log.records[60][0]
    log.put(end, b"half written")
    walk = LogEntries(log, log.records[40][0], end, delay_levels_ms=LEVELS)
    assert walked(walk) == (log.records[40:60], [])
    assert (walk.position, walk.sound_end, walk.zeros_from) == (end, end, -1)
    assert max(place + length for place, length in log.reads) == end


def test_trusted_zeros_end_the_walk():
    log = filled()
    log.put(log.end, bytes(log.file_bytes) + b"something")
    walk = LogEntries(log, 0, delay_levels_ms=LEVELS, trust_zeros=True)
    assert walked(walk) == (log.records, [])
    assert walk.position == walk.sound_end == walk.zeros_from == log.used


def test_a_hole_has_records_behind_it_and_the_tail_none():
    log = filled()
    place, size = log.records[-1]
    log.put(log.records[30][0] + 90, b"?")
    log.put(place + size // 2, bytes(size - size // 2))
    walk = LogEntries(log, 0, delay_levels_ms=LEVELS)
    places, (hole, tail) = walked(walk)
    assert places == [each for each in log.records[:-1] if each != log.records[30]]
    assert hole[:3] == ("damaged", *log.records[30])
    assert tail[:3] == ("torn", place, size)
    assert hole.log_offset < walk.sound_end == tail.log_offset
    assert walk.zeros_from == place + size


def test_a_read_that_fails_is_told_with_what_came_before():
    log = filled()
    log.failing = {log.file_bytes}
    walk = LogEntries(log, 0, delay_levels_ms=LEVELS, chunk_bytes=1000)
    seen = []
    with pytest.raises(OSError):
        for batch in walk:
            seen += batch
    assert walk.position == seen[-1].log_offset + seen[-1].size
    log.failing = set()
    again = LogEntries(log, walk.position, delay_levels_ms=LEVELS, chunk_bytes=1000)
    assert len(seen) + len(walked(again)[0]) == len(log.records)
