"""Rows of queue offsets, and records that break them."""

import pytest

from gantrymq.model.queue import Queue
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_store_tools.queue_order import QueueOrder, name_problem
from gantrymq_store_tools.record_entries import Run


def placed(*runs, lost_bytes=0):
    """Feed runs given as (start, end) of 100-byte records, *lost_bytes* apart; return start, end and stated offset."""
    order, found, place = QueueOrder(), [], 0
    for start, end in runs:
        entries = bytearray()
        for _ in range(start, end):
            entries += ENTRY.pack(place, 100, 0)
            place += 100
        found += order.feed(Run(start, entries, end))
        place += lost_bytes
    found += order.finish()
    return [(each.run.start, each.run.end, each.stated) for each in found]


@pytest.mark.parametrize(
    ("runs", "moved"),
    [
        ([(0, 3), (900, 901), (4, 7)], {900: 3}),  # too high
        ([(0, 9), (2, 3), (10, 12)], {2: 9}),  # too low
        ([(0, 9), (0, 1), (10, 12)], {0: 9}),
        ([(1 << 50, (1 << 50) + 1), (8, 12)], {1 << 50: 7}),  # the first
        ([(0, 9), (1 << 50, (1 << 50) + 1)], {1 << 50: 9}),  # the last
        ([(0, 9), (70, 71), (10, 11), (11, 15)], {70: 9}),
    ],
)
def test_one_record_that_breaks_the_row_is_put_where_there_is_room(runs, moved):
    found = placed(*runs)
    assert {stated: start for start, _, stated in found if start != stated} == moved
    if len(runs) > 2:
        assert [start for start, *_ in found] == sorted(start for start, *_ in found)


@pytest.mark.parametrize(
    "runs",
    [
        [(0, 5), (5, 9)],
        [(17, 20), (20, 21)],  # the log begins later than the queue
        [(0, 3), (900, 903)],  # the sequence continues there
        [(0, 3), (900, 901), (901, 903)],
        [(0, 3), (0, 4)],  # deleted and made again
        [(0, 3), (0, 1), (1, 2)],
        [(0, 1), (0, 1)],
        [(0, 1)],
        [(5, 6)],
    ],
)
def test_other_rows_stay_as_they_are(runs):
    assert placed(*runs) == [(start, end, start) for start, end in runs]


def test_a_gap_for_which_the_log_has_room_stays():
    assert placed((0, 3), (5, 6), lost_bytes=200) == [(0, 3, 0), (5, 6, 5)]
    assert placed((0, 3), (5, 6), lost_bytes=150) == [(0, 3, 0), (3, 4, 5)]
    assert placed((0, 1), (3, 4), (6, 7), lost_bytes=200) == [(0, 1, 0), (3, 4, 3), (6, 7, 6)]


@pytest.mark.parametrize(
    "runs", [[(-1, 0)], [(-1, 0), (0, 1)], [(-1, 1), (1, 5)], [(0, 3), (-1, 0), (4, 6)], [(1 << 60, (1 << 60) + 5)]]
)
def test_no_entry_gets_an_offset_that_no_file_can_have(runs):
    assert all(0 <= start < 1 << 48 for start, *_ in placed(*runs))


@pytest.mark.parametrize("topic", ["../x", "a/b", "a\\b", "..", ".", "x" * 256])
def test_a_topic_that_leads_elsewhere_names_no_folder(topic):
    assert name_problem(Queue(topic, 0)) is not None
    assert name_problem(Queue("%RETRY%group", -1)) is not None
    assert name_problem(Queue("%RETRY%group", 3)) is None
