"""Walking the log over damage."""

import pytest
from small_store import LOG_FILE_BYTES

from gantrymq.formats.record import encode_record
from gantrymq_store_files.log_walk import LogDamage, align, scan
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader


def walked(small, start=None, end=None):
    """Places of records, and damages, of a walk."""
    layout = find_layout(small.files, small.root)
    found = list(scan(LogReader(small.files, layout.log), start, end))
    damages = [each for each in found if isinstance(each, LogDamage)]
    return [each.log_offset for each in found if not isinstance(each, LogDamage)], damages


def test_every_record_is_found_and_nothing_else(small):
    records, damages = walked(small)
    assert records == [place for place, _ in small.records]
    assert damages == []


@pytest.mark.parametrize(
    ("at", "data"), [(0, b"\x7f"), (4, b"\0"), (8, b"\x55"), (30, b"\1"), (84, b"\2"), (100, b"?")]
)
def test_damage_costs_one_record(small, at, data):
    place, size = small.records[7]
    small.spoil_log(place + at, data)
    records, damages = walked(small)
    assert records == [each for each, _ in small.records if each != place]
    assert [(damage.log_offset, damage.size) for damage in damages] == [(place, size)]


def test_a_size_that_leads_to_another_record_does_not_hide_the_one_between(small):
    (place, size), (_, next_size) = small.records[4:6]
    small.spoil_log(place, (size + next_size).to_bytes(4, "big"))
    records, damages = walked(small)
    assert small.records[5][0] in records
    assert [(damage.log_offset, damage.size) for damage in damages] == [(place, size)]


def test_a_record_in_the_body_of_another_is_not_taken_for_one(small, tmp_path):
    from small_store import SmallStore

    path, position = small.log_file(small.records[3][0])
    inner = path.read_bytes()[position : position + small.records[3][1]]
    other = SmallStore(tmp_path / "other")
    for _ in range(3):
        other.add("T", 0, inner)
    other.write()
    other.spoil_log(other.records[0][0] + 8, b"\x7f")  # its CRC
    records, damages = walked(other)
    assert records == [place for place, _ in other.records[1:]]
    assert len(damages) == 1


def test_zeros_with_something_behind_them_are_damage(small):
    place, size = small.records[5]
    small.spoil_log(place, bytes(size))
    records, damages = walked(small)
    assert len(records) == len(small.records) - 1
    assert [damage[:3] for damage in damages] == [("zeros", place, size)]


def test_zeros_up_to_the_end_of_a_file_that_others_follow_are_damage(small):
    last_of_first = max(place for place, _ in small.records if place < LOG_FILE_BYTES)
    small.spoil_log(last_of_first, bytes(LOG_FILE_BYTES - last_of_first))
    records, damages = walked(small)
    assert last_of_first not in records
    assert [damage[:3] for damage in damages] == [("zeros", last_of_first, LOG_FILE_BYTES - last_of_first)]


def test_a_torn_last_record_is_told_as_such(small):
    place, size = small.records[-1]
    small.spoil_log(place + size // 2, bytes(size - size // 2))
    records, damages = walked(small)
    assert place not in records
    assert [damage[:3] for damage in damages] == [("torn", place, size)]


def test_a_missing_file_is_damage_of_its_length(small):
    small.log_file(LOG_FILE_BYTES)[0].unlink()
    records, damages = walked(small)
    assert [damage[:3] for damage in damages] == [("missing", LOG_FILE_BYTES, LOG_FILE_BYTES)]
    assert records == [place for place, _ in small.records if place // LOG_FILE_BYTES != 1]


def test_a_check_sum_of_the_record_s_own_is_looked_at(tmp_path):
    from small_store import SmallStore

    from gantrymq_store_files.record_crc import crc_tail

    store = SmallStore(tmp_path / "store")
    store.add("T", 0, b"x", properties=b"a\x01b\x02" + crc_tail(b"something else"))
    store.add("T", 0, b"x")
    store.write()
    records, damages = walked(store)
    assert records == [store.records[1][0]]
    assert "__CRC32#" in damages[0].problem


def test_a_range_has_the_records_that_start_in_it(small):
    layout = find_layout(small.files, small.root)
    reader = LogReader(small.files, layout.log)
    middle = small.records[20][0] + 1
    start = align(reader, middle)
    assert start == small.records[21][0]
    assert walked(small, 0, middle)[0] == [place for place, _ in small.records[:21]]
    assert walked(small, start)[0] == [place for place, _ in small.records[21:]]
    assert align(reader, small.records[-1][0] + 1) == layout.log.end


def test_pages_that_cannot_be_read_cost_their_records_only(small, monkeypatch):
    from gantrymq.world.real.file import RealFile

    path, _ = small.log_file(LOG_FILE_BYTES)
    read = RealFile.pread

    def fail(self, length, position):
        if self.path == path and position < 8192 and position + length > 4096:
            raise OSError(5, "Input/output error")
        return read(self, length, position)

    monkeypatch.setattr(RealFile, "pread", fail)
    layout = find_layout(small.files, small.root)
    reader = LogReader(small.files, layout.log)
    found = list(scan(reader))
    lost = {
        place for place, size in small.records if place < 2 * LOG_FILE_BYTES and place + size > LOG_FILE_BYTES + 4096
    }
    places = {each.log_offset for each in found if not isinstance(each, LogDamage)}
    assert places == {place for place, _ in small.records} - lost
    assert lost
    assert [each[:2] for each in reader.unreadable] == [(LOG_FILE_BYTES + 4096, 4096)]


def test_remains_of_an_older_log_are_told_and_not_walked(small):
    at = small.records[-4][0]
    path, position = small.log_file(at)
    content = path.read_bytes()
    older = small.records[-2][0]
    new = encode_record(
        topic="New",
        queue_id=0,
        body=b"x" * 60,
        properties=b"",
        log_offset=at,
        store_timestamp=small.last_ms + 10_000,
    )
    small.spoil(path, position, new)  # a broker cut the log here and went on; two records would be enough to go by
    second = encode_record(
        topic="New",
        queue_id=0,
        body=b"",
        properties=b"",
        queue_offset=1,
        log_offset=at + len(new),
        store_timestamp=small.last_ms + 10_001,
    )
    small.spoil(path, position + len(new), second)
    assert older > at + len(new) + len(second)
    records, damages = walked(small)
    end = at + len(new) + len(second)
    assert records == [*(place for place, _ in small.records[:-4]), at, at + len(new)]
    assert [damage[:3] for damage in damages] == [("remains", end, sum(small.records[-1]) - end)]
    assert content != path.read_bytes()


def test_one_record_with_a_store_time_of_the_future_does_not_hide_those_behind(small):
    (before, _), (place, size) = small.records[6:8]
    small.spoil_log(before + 56, (1 << 60).to_bytes(8, "big"))
    small.spoil_log(place + 100, b"?")
    records, damages = walked(small)
    assert records == [each for each, _ in small.records if each != place]
    assert [damage[:3] for damage in damages] == [("damaged", place, size)]
