"""The walk itself; tests/store_tools/test_walking.py tests damaged files."""

from memory_log import START_MS, MemoryLog

from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq_store_files.log_walk import LogDamage, LogWalk


def filled(records=100):
    log = MemoryLog()
    for _ in range(records):
        log.add()
    return log


def walked(walk):
    found = list(walk)
    return (
        [each.log_offset for each in found if not isinstance(each, LogDamage)],
        [each for each in found if isinstance(each, LogDamage)],
    )


def test_the_end_is_behind_the_last_record():
    log = filled()
    walk = LogWalk(log, 0)
    assert walked(walk) == ([place for place, _ in log.records], [])
    assert (walk.sound_end, walk.zeros_from, walk.position) == (log.used, log.used, log.end)


def test_behind_a_blank_the_end_is_the_next_file():
    log = filled(1)
    while log.used < log.file_bytes:
        log.add()
    second = log.file_bytes
    log.put(second, bytes(log.file_bytes))
    walk = LogWalk(log, 0)
    walked(walk)
    assert (walk.sound_end, walk.zeros_from) == (second, second)


def test_damage_at_or_behind_the_end_is_the_tail_and_before_it_a_hole():
    log = filled()
    log.put(log.records[50][0] + 90, b"?")
    log.put(log.records[-1][0] + 90, b"?")
    walk = LogWalk(log, 0)
    _, (hole, tail) = walked(walk)
    assert hole[:3] == ("damaged", *log.records[50])
    assert tail[:3] == ("damaged", *log.records[-1])
    assert hole.log_offset < walk.sound_end == tail.log_offset
    assert walk.zeros_from == log.used


def test_zeros_over_several_files_are_a_hole_in_each_when_the_log_goes_on_behind_them():
    log = filled()
    ends = [log.file_bytes, 2 * log.file_bytes]
    place = max(at for at, _ in log.records if at < ends[0])
    log.put(place, bytes(ends[1] - place))
    walk = LogWalk(log, 0)
    sound, holes = walked(walk)
    assert [each[:3] for each in holes] == [("zeros", place, ends[0] - place), ("zeros", ends[0], log.file_bytes)]
    assert sound == [at for at, _ in log.records if at < place or at >= ends[1]]
    log.put(place, b"?" * 20)  # the same after damage
    _, holes = walked(LogWalk(log, 0))
    assert [each[:2] for each in holes] == [("damaged", place), ("zeros", place + 20), ("zeros", ends[0])]


def test_a_blank_behind_damage_is_no_end():
    log = filled(1)
    while log.used < log.file_bytes:
        log.add()
    log.put(log.file_bytes, bytes(log.file_bytes))
    place, size = log.records[-2]
    log.put(place + 90, b"?")
    walk = LogWalk(log, 0)
    _, (tail,) = walked(walk)
    assert tail[:3] == ("damaged", place, size)
    assert walk.sound_end == place


def test_trusted_zeros_end_the_walk_unread():
    log = filled()
    log.put(log.used + 500, b"something")
    log.put(log.end, bytes(4 * log.file_bytes))
    walk = LogWalk(log, log.records[-3][0], trust_zeros=True, chunk_bytes=1)
    assert walked(walk) == ([place for place, _ in log.records[-3:]], [])
    assert (walk.sound_end, walk.zeros_from) == (log.used, log.used)
    assert max(place + length for place, length in log.reads) == log.used + 8


def test_nothing_behind_a_sharp_end_is_looked_at():
    log = filled()
    end = log.records[60][0]
    log.put(end, b"half written")
    assert len(walked(LogWalk(log, 0, end))[1]) == 1
    log.reads.clear()
    walk = LogWalk(log, 0, end, check_beyond_end=False)
    assert walked(walk) == ([place for place, _ in log.records[:60]], [])
    assert (walk.position, walk.sound_end) == (end, end)
    assert max(place + length for place, length in log.reads) == end


def test_a_missing_file_behind_a_sharp_end_is_not_told():
    log = filled(200)
    log.missing = {log.file_bytes, 2 * log.file_bytes}
    last = max(place for place, _ in log.records if place < log.file_bytes)
    assert walked(LogWalk(log, last, log.file_bytes, check_beyond_end=False)) == ([last], [])
    assert walked(LogWalk(log, last, log.file_bytes + 1, check_beyond_end=False)) == ([last], [])
    _, (gap,) = walked(LogWalk(log, last, check_beyond_end=False))
    assert gap[:3] == ("missing", log.file_bytes, 2 * log.file_bytes)


def test_delayed_messages_after_damage_are_no_remains_although_the_clock_was_set_back():
    log = MemoryLog()
    fields = [{"store_timestamp": START_MS + 3_600_000}] * 3 + [{"topic": SCHEDULE_TOPIC}] * 3
    for each in (*fields, fields[0], *fields[3:]):
        log.add(**each)
    log.put(log.records[2][0] + 90, b"?")
    log.put(log.records[6][0] + 90, b"?")
    walk = LogWalk(log, 0)
    sound, holes = walked(walk)
    assert sound == [place for number, (place, _) in enumerate(log.records) if number not in (2, 6)]
    assert [(hole.kind, hole.timestamp) for hole in holes] == [("damaged", START_MS + 3_600_000)] * 2
    assert walk.last_timestamp == START_MS + 3_600_000


def test_remains_are_found_after_delayed_messages_too():
    log = MemoryLog()
    for n in range(10):
        log.add(store_timestamp=START_MS + 1000 + n)
    cut = log.used
    for topic in (SCHEDULE_TOPIC, "TopicTest", SCHEDULE_TOPIC):
        log.add(topic=topic, store_timestamp=START_MS)
    log.put(log.records[9][0] + 90, b"?")
    walk = LogWalk(log, 0)
    sound, (remains,) = walked(walk)
    assert sound == [place for place, _ in log.records[:9]]
    assert (remains.kind, remains.log_offset, remains.end) == ("remains", log.records[9][0], log.used)
    assert cut < log.used == walk.zeros_from
