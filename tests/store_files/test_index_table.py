import pytest

from gantrymq_store_files.index import IndexHeader, IndexLayout, write_header
from gantrymq_store_files.index_hash import index_hashes
from gantrymq_store_files.index_table import PAGE_SLOTS, IndexTable

SMALL = IndexLayout(slots=2, entries=4)


def image(table, puts):
    """Return the content of the file after everything is written."""
    layout = table.layout
    data = bytearray(layout.file_bytes)
    data[: len(write_header(table.header))] = write_header(table.header)
    slots = table.slot_bytes(0, layout.slots)
    data[layout.slot_at(0) : layout.slot_at(0) + len(slots)] = slots
    for put in puts:
        at = layout.entry_at(put.first)
        data[at : at + len(put.entries)] = put.entries
    return bytes(data)


def test_a_file_is_made_as_java_makes_it():
    table = IndexTable(SMALL, IndexHeader())
    keys = [b"7F000001000018B4AAC2000000000000", b"K1", b"K2"]
    hashes = index_hashes(["TopicTest"] * 3, keys)
    put = table.put(hashes, [0, 0, 146], [1700000000123, 1700000000123, 1700000002623])
    assert put.taken == 3
    assert table.full
    assert image(table, [put]).hex() == (
        "0000018bcfe5687b0000018bcfe5723f000000000000000000000000000000920000000200000004"
        "0000000200000003"
        "0000000000000000000000000000000000000000"
        "05097c3a00000000000000000000000000000000"
        "0029e2c800000000000000000000000000000001"
        "0029e2c900000000000000920000000200000000"
    )


def test_the_end_time_of_a_file_stays_when_a_delayed_message_is_older():
    table = IndexTable(SMALL, IndexHeader())
    for time_ms, end_ms in ((5000, 5000), (3000, 5000), (7000, 7000)):
        table.put([1], [10], [time_ms])
        assert (table.header.begin_timestamp, table.header.end_timestamp) == (5000, end_ms)


def test_what_does_not_fit_is_left_for_the_next_file():
    table = IndexTable(SMALL, IndexHeader())
    assert table.put([1, 2, 3, 4, 5], [10, 20, 30, 40, 50], [1000] * 5).taken == 3
    assert table.put([4], [40], [1000]).taken == 0
    after = IndexTable(SMALL, table.header.following())
    assert after.header == IndexHeader(1000, 1000, 30, 30)
    put = after.put([1, 2, 3, 4, 5], [10, 20, 30, 40, 50], [3000] * 5, start=3)
    assert put.taken == 2
    assert after.header == IndexHeader(3000, 3000, 40, 50, 2, 3)
    assert put.entries[12:16] == b"\0\0\0\x02"  # counted from the end of the file before
    assert put.entries[32:36] == b"\0\0\0\x00"


@pytest.mark.parametrize("split", range(1, 30))
def test_batches_of_any_size_give_the_same_file(split):
    layout = IndexLayout(slots=7, entries=31)
    hashes = [number * 7919 % 1000 for number in range(30)]
    offsets = [number // 2 * 100 for number in range(30)]
    times = [1000 + number // 2 * 700 for number in range(30)]
    whole = IndexTable(layout, IndexHeader())
    expected = image(whole, [whole.put(hashes, offsets, times)])
    parts = IndexTable(layout, IndexHeader())
    puts = [parts.put(hashes[:split], offsets[:split], times[:split]), parts.put(hashes, offsets, times, start=split)]
    assert image(parts, puts) == expected


def test_a_table_goes_on_from_what_a_file_holds():
    layout = IndexLayout(slots=7, entries=31)
    first = IndexTable(layout, IndexHeader())
    puts = [first.put([5, 12, 6], [0, 0, 100], [1000, 1000, 9000])]
    second = IndexTable(layout, first.header)
    second.load(0, first.slot_bytes(0, 3))
    second.load(3, first.slot_bytes(3, 4))
    puts.append(second.put([19], [200], [10_000]))
    straight = IndexTable(layout, IndexHeader())
    assert image(second, puts) == image(
        straight, [straight.put([5, 12, 6, 19], [0, 0, 100, 200], [1000, 1000, 9000, 10_000])]
    )


def test_what_could_not_be_written_is_taken_back():
    table = IndexTable(SMALL, IndexHeader())
    table.put([1], [0], [1000])
    before = image(table, [])
    put = table.put([1, 3], [100, 200], [2000, 3000])
    table.undo(put)
    assert image(table, []) == before
    assert table.put([1, 3], [100, 200], [2000, 3000]).entries == put.entries


@pytest.mark.parametrize("held", [-1, -(2**31), 2, 3, 2**31 - 1])
def test_a_slot_that_names_no_entry_counts_as_empty(held):
    table = IndexTable(IndexLayout(slots=1, entries=4), IndexHeader())
    table.load(0, held.to_bytes(4, "big", signed=True))
    put = table.put([9], [0], [1000])
    assert put.entries[16:] == bytes(4)
    assert table.header.used_slots == 1


def test_slots_that_changed_are_known_by_page():
    table = IndexTable(IndexLayout(slots=3 * PAGE_SLOTS, entries=10), IndexHeader())
    table.put([5, 2 * PAGE_SLOTS], [0, 0], [1, 1])
    assert table.dirty_pages == {0, 2}
    assert table.newest(5) == 1
    assert table.newest(6) == 0


def test_pages_that_changed_are_taken_once_side_by_side(dirty_table):
    table = dirty_table
    first, second = table.take_dirty()
    assert (first.first, first.length) == (0, 2 * PAGE_SLOTS)
    assert (second.first, second.length) == (3 * PAGE_SLOTS, 5)  # the last page is shorter
    assert table.slot_bytes(PAGE_SLOTS - 1, 2) == bytes(7) + b"\x02"
    assert table.slot_bytes(3 * PAGE_SLOTS, 100) == b"\0\0\0\x03" + bytes(16)
    assert table.take_dirty() == []
    table.give_back([second])
    assert table.dirty_pages == {3}
    table.give_back([first])
    assert table.dirty_pages == {0, 1, 3}


@pytest.fixture
def dirty_table():
    table = IndexTable(IndexLayout(slots=3 * PAGE_SLOTS + 5, entries=10), IndexHeader())
    table.put([5, PAGE_SLOTS, 3 * PAGE_SLOTS], [0, 0, 0], [1, 1, 1])
    return table


@pytest.mark.parametrize("chunk", [1, 3, 10])
def test_slots_are_made_again_from_the_entries(dirty_table, chunk):
    right = dirty_table
    put = right.put([5, 3 * PAGE_SLOTS + 4], [0, 0], [1, 1])
    entries = IndexTable(right.layout, IndexHeader()).put([5, PAGE_SLOTS, 3 * PAGE_SLOTS], [0] * 3, [1] * 3).entries
    entries += put.entries
    torn = IndexTable(right.layout, right.header)
    assert torn.load(0, right.slot_bytes(0, PAGE_SLOTS)) == 4
    assert torn.load(PAGE_SLOTS, (9).to_bytes(4, "big")) == 9
    torn.load(3 * PAGE_SLOTS, right.slot_bytes(3 * PAGE_SLOTS, 5))
    torn.rebuild(entries[at : at + 20 * chunk] for at in range(0, len(entries), 20 * chunk))
    assert torn.slot_bytes(0, right.layout.slots) == right.slot_bytes(0, right.layout.slots)
    assert torn.dirty_pages == {1}
