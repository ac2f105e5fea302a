"""Extracting, dumping and counting."""

import pytest
from small_store import START_MS

from gantrymq.errors import InvalidParameter, QueryNotFound
from gantrymq.model.ids import offset_id
from gantrymq.model.queue import Queue
from gantrymq_store_tools import dump
from gantrymq_store_tools.extract import ExtractQuery, describe_record, extract, record_at
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.store_stat import stat_store


def numbers(small, **wanted):
    """Which of the store's records are extracted, and how many damages were told."""
    damages = []
    reader = LogReader(small.files, find_layout(small.files, small.root).log)
    found = [record.log_offset for record in extract(reader, ExtractQuery(**wanted), damages.append)]
    places = [place for place, _ in small.records]
    return [places.index(place) for place in found], len(damages)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"topic": "Bills"}, range(0, 60, 3)),
        ({"topic": "Bills", "queue_id": 1}, range(3, 60, 6)),
        ({"topic": "Bills", "queue_id": 0, "first_offset": 2, "last_offset": 3}, [12, 18]),
        ({"first_ms": START_MS + 2000, "last_ms": START_MS + 3000}, [4, 5, 6]),
        ({"key": "key-7"}, [7]),
        ({"key": "all", "topic": "Bills", "last_ms": START_MS + 1500}, [0, 3]),
        ({"key": f"{9:032d}"}, [9]),
        ({"key": "key"}, []),
        ({"tag": "red", "last_ms": START_MS}, [0]),
        ({"tag": "blue"}, []),
    ],
)
def test_messages_are_found_by_what_they_are(small, wanted, expected):
    assert numbers(small, **wanted) == (list(expected), 0)


def test_records_are_found_from_a_log_offset_on(small):
    start, _ = small.records[41]
    assert numbers(small, first_log_offset=start) == (list(range(41, 60)), 0)
    assert numbers(small, first_log_offset=start + 1) == (list(range(41, 60)), 0)  # as where two logs differ
    assert numbers(small, first_log_offset=small.records[42][0], topic="Bills") == (list(range(42, 60, 3)), 0)
    assert numbers(small, first_log_offset=1 << 40) == ([], 0)


def test_damage_is_told_and_passed_over(small):
    small.spoil_log(small.records[7][0] + 100, b"?")
    assert numbers(small) == ([number for number in range(60) if number != 7], 1)


def test_an_offset_id_names_one_record(small):
    place, _ = small.records[7]
    assert numbers(small, offset_id=offset_id(b"\x7f\0\0\1\0\0\x2a\x9f", place)) == ([7], 0)
    with pytest.raises(QueryNotFound, match="no record starts at log offset"):
        numbers(small, offset_id=offset_id(bytes(8), place + 1))
    with pytest.raises(QueryNotFound, match="outside"):
        numbers(small, offset_id=offset_id(bytes(8), 1 << 40))
    with pytest.raises(InvalidParameter, match="32"):
        numbers(small, offset_id="7F00")


def test_a_record_with_a_wrong_crc_can_still_be_looked_at(small):
    place, _ = small.records[7]
    small.spoil_log(place + 100, b"?")
    reader = LogReader(small.files, find_layout(small.files, small.root).log)
    document = describe_record(record_at(reader, place))
    assert (document["topic"], document["keys"], document["log_offset"]) == ("Orders", "key-7 all", place)


def test_queue_entries_are_shown_from_an_offset_on(small):
    layout, open_files = find_layout(small.files, small.root), OpenFiles(small.files)
    rows = list(dump.queue_rows(layout, open_files, Queue("Bills", 0), 3))
    assert [row["queue_offset"] for row in rows] == list(range(3, 10))
    assert rows[0]["log_offset"], rows[0]["size"] == small.records[18]
    with pytest.raises(QueryNotFound, match="it has 0, 1"):
        list(dump.queue_rows(layout, open_files, Queue("Bills", 9), None))
    with pytest.raises(QueryNotFound, match="no queue of that topic"):
        list(dump.queue_rows(layout, open_files, Queue("No", 0), None))


def test_index_entries_are_shown(small):
    layout, open_files = find_layout(small.files, small.root), OpenFiles(small.files)
    name = layout.index[1].path.name
    header = dump.index_header(layout, open_files, name)
    assert (header["slots"], header["room"], header["index_count"]) == (20, 49, 50)
    rows = list(dump.index_entries(layout, open_files, name, 48))
    assert [row["number"] for row in rows] == [48, 49]
    assert rows[-1]["log_offset"] == header["end_offset"]
    with pytest.raises(QueryNotFound, match=name):
        dump.index_header(layout, open_files, "x")


def test_the_checkpoint_and_the_files_are_shown(small):
    layout = find_layout(small.files, small.root)
    assert dump.checkpoint_fields(small.files, layout)["log_timestamp"] == small.last_ms
    assert {row["kind"] for row in dump.file_rows(layout)} == {"log", "queue", "index", "checkpoint", "config"}


def test_everything_is_counted(small):
    found = stat_store(small.files, find_layout(small.files, small.root))
    assert (found.records, found.record_bytes) == (60, sum(size for _, size in small.records))
    assert (found.first_ms, found.last_ms, found.index_keys) == (START_MS, small.last_ms, 180)
    bills = found.queues[Queue("Bills", 0)]
    assert (bills.records, bills.min_offset, bills.max_offset) == (10, 0, 9)
    assert found.log_end == sum(small.records[-1])
    small.spoil_log(small.records[7][0], b"\x7f")
    again = stat_store(small.files, find_layout(small.files, small.root))
    assert (again.records, again.damaged_places, again.damaged_bytes) == (59, 1, small.records[7][1])
