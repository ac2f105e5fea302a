"""Whole records at the start of a piece of a log: what is taken, what waits for more, what is wrong."""

import pytest

from gantrymq.formats.record import encode_record, read_record
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.model.sys_flag import BORN_HOST_V6
from gantrymq_store_files.blank import encode_blank
from gantrymq_store_files.log_entries import entry_of
from gantrymq_store_files.raw_records import mismatch, read_raw_records

LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
START = 4096


def record(log_offset, body=b"body", **more):
    return encode_record(topic="T", queue_id=1, body=body, properties=b"TAGS\x01A\x02", log_offset=log_offset, **more)


def read(data, file_end: int | None = 8192, *, check_crc=True):
    return read_raw_records(bytes(data), START, file_end, delay_levels_ms=LEVELS, check_crc=check_crc)


def records():
    """Two plain records around one that is read on its own path."""
    data = record(START)
    data += record(START + len(data), sys_flag=BORN_HOST_V6, born_host=bytes(20))
    return data + record(START + len(data), b"last")


def test_whole_records_are_taken_and_the_start_of_one_waits():
    data = records()
    found = read(data)
    assert (found.size, found.blank, found.problem) == (len(data), 0, "")
    views = [read_record(data[entry.log_offset - START :][: entry.size]) for entry in found.entries]
    assert found.entries == [entry_of(view, LEVELS) for view in views]
    sizes = {read(data[:length]).size for length in range(len(data) + 1)}
    assert sizes == {0, *(entry.log_offset + entry.size - START for entry in found.entries)}
    assert {read(data[:length]).problem for length in range(len(data) + 1)} == {""}


@pytest.mark.parametrize("place", [0, 4, 8, 28, 40, 84, 90, 92])
def test_a_changed_byte_is_a_problem_and_what_is_before_it_is_taken(place):
    data = records()
    last = read(data).entries[-1].log_offset - START
    changed = bytearray(data + bytes(100))
    changed[last + place] ^= 0x40
    if place == 40:  # the born time: no check covers it
        assert read(changed[: len(data)]).problem == ""
        return
    found = read(changed)
    assert (found.size, bool(found.problem)) == (last, True)


def test_bodies_are_checked_if_wanted():
    data = record(START).replace(b"body", b"BODY")
    assert "CRC" in read(data).problem
    assert read(data, check_crc=False).problem == ""


def test_a_blank_ends_the_file_and_has_to_be_complete():
    data = record(START)
    left = 8192 - START - len(data)
    blank = encode_blank(left).ljust(left, b"\0")
    found = read(data + blank + b"next file")
    assert (found.size, found.blank, found.problem) == (len(data), left, "")
    assert read(data + blank[:-1])[1:] == (len(data), 0, "")
    assert read(data + blank, None).blank == left
    for file_end, size in ((8200, left), (8192, left - 1), (8192, 7)):
        wrong = read(data + encode_blank(size).ljust(left, b"\0"), file_end)
        assert (wrong.size, "a blank of" in wrong.problem) == (len(data), True)


def test_a_record_has_to_leave_room_for_a_blank():
    data = record(START)
    end = START + len(data)
    assert read(data, end + 8).problem == ""
    for file_end in (end + 7, end, end - 10):
        assert "where the log file has" in read(data, file_end).problem


def test_zeros_and_other_bytes_are_no_record():
    assert read(bytes(8)).problem == "zeros where a record belongs"
    assert read(b"\0\0\0\x60other bytes").problem
    assert read(b"").problem == ""


def test_an_error_names_the_offset_and_what_to_do():
    text = str(mismatch(77, "zeros"))
    assert "log offset 77" in text
    assert "mappedFileSizeCommitLog" in text
