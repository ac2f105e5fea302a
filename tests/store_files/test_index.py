import pytest

from gantrymq_store_files.index import (
    ENTRY,
    HEADER_BYTES,
    IndexEntry,
    IndexHeader,
    IndexLayout,
    entry_seconds,
    index_file_name,
    is_index_file_name,
    overlaps,
    read_header,
    walk,
    write_header,
)

SMALL = IndexLayout(slots=2, entries=4)
# Three keys of two messages, the second 2500 ms after the first: a full file of two slots and four entries.
FILE = bytes.fromhex(
    "0000018bcfe5687b 0000018bcfe5723f 0000000000000000 0000000000000092 00000002 00000004"
    "00000002 00000003"
    "0000000000000000000000000000000000000000"
    "05097c3a 0000000000000000 00000000 00000000"
    "0029e2c8 0000000000000000 00000000 00000001"
    "0029e2c9 0000000000000092 00000002 00000000".replace(" ", "")
)


def entry_of(number):
    return IndexEntry._make(ENTRY.unpack_from(FILE, SMALL.entry_at(number)))


def test_a_file_of_the_default_size_is_as_long_as_java_makes_it():
    assert IndexLayout().file_bytes == 420_000_040


def test_a_file_is_read_as_it_is_drawn():
    assert len(FILE) == SMALL.file_bytes
    header = read_header(FILE)
    assert header == IndexHeader(1700000000123, 1700000002623, 0, 146, 2, 4)
    assert write_header(header) == FILE[:HEADER_BYTES]
    assert entry_of(3) == IndexEntry(2745033, 146, 2, 0)


def test_a_count_of_nothing_means_an_empty_file():
    assert read_header(bytes(HEADER_BYTES)).index_count == 1


def test_the_header_of_the_next_file_starts_where_this_one_ends():
    assert read_header(FILE).following() == IndexHeader(1700000002623, 1700000002623, 146, 146, 0, 1)


@pytest.mark.parametrize(
    ("stored", "begin", "seconds"),
    [(5000, 0, 0), (5000, 5000, 0), (5999, 5000, 0), (7000, 5000, 2), (4000, 5000, 0), (2**50, 1, 2**31 - 1)],
)
def test_seconds_count_from_the_begin_time(stored, begin, seconds):
    assert entry_seconds(stored, begin) == seconds


@pytest.mark.parametrize(
    ("window", "found"),
    [((10, 19), False), ((10, 20), True), ((25, 26), True), ((30, 40), True), ((31, 40), False), ((0, 100), True)],
)
def test_a_file_is_searched_when_its_times_meet_the_window(window, found):
    assert overlaps(IndexHeader(20, 30), *window) is found


def test_a_chain_is_walked_from_its_newest_entry():
    header = read_header(FILE)
    always = (0, 2**62)
    assert list(walk(header, 2, entry_of, 0x0029E2C8, always)) == [0]
    assert list(walk(header, 2, entry_of, 0x05097C3A, always)) == [0]
    assert list(walk(header, 2, entry_of, 0x0029E2C9, always)) == []
    assert list(walk(header, 3, entry_of, 0x0029E2C9, (1700000002123, 1700000002123))) == [146]
    assert list(walk(header, 3, entry_of, 0x0029E2C9, (1700000002124, 1800000000000))) == []


def test_a_walk_stops_at_entries_older_than_the_window():
    seen = []

    def entry(number):
        seen.append(number)
        return IndexEntry(7, number, number * 10, number - 1)

    header = IndexHeader(begin_timestamp=1000, end_timestamp=51_000, index_count=6)
    assert list(walk(header, 5, entry, 7, (31_000, 41_000))) == [4, 3]
    assert seen == [5, 4, 3, 2]


@pytest.mark.parametrize("previous", [3, 4, 99, -1])
def test_a_chain_that_does_not_go_down_ends(previous):
    header = IndexHeader(begin_timestamp=1, end_timestamp=1, index_count=5)
    assert list(walk(header, 3, lambda number: IndexEntry(7, number, 0, previous), 7, (0, 100))) == [3]
    assert list(walk(header, 5, lambda number: IndexEntry(7, number, 0, previous), 7, (0, 100))) == []


def test_a_name_is_the_local_time():
    assert index_file_name(1700000000123, 0) == "20231114221320123"
    assert index_file_name(1700000000123, 3 * 3_600_000) == "20231115011320123"
    assert is_index_file_name("20231114221320123")
    assert not is_index_file_name("20231114221320123.tmp")
    assert not is_index_file_name("2023111422132012x")
