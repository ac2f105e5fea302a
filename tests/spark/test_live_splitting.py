"""Division of limits among queues and of ranges among tasks: no offset twice, none omitted."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import FormatError
from gantrymq.model.queue import MessageQueue
from gantrymq_spark.live.offsets import Offsets, QueuePosition, QueueRange, ranges_between
from gantrymq_spark.live.planner import divide_limit, split

A, B = MessageQueue("T", "a", 0), MessageQueue("T", "b", 1)
COUNTS = st.one_of(st.none(), st.integers(1, 300))


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=12), st.integers(1, 20_000), st.integers(0, 99))
def test_shares_are_the_limit_or_everything(backlogs, limit, turn):
    shares = divide_limit(backlogs, limit, turn)
    assert sum(shares) == min(limit, sum(backlogs))
    assert all(0 <= share <= backlog for share, backlog in zip(shares, backlogs, strict=True))
    if limit >= len(backlogs):
        assert all(share > 0 for share, backlog in zip(shares, backlogs, strict=True) if backlog)


def test_a_limit_below_the_number_of_queues_reaches_each_in_turn():
    assert [divide_limit([1000, 1, 5], 1, turn) for turn in range(4)] == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 500)), max_size=6), COUNTS, COUNTS, COUNTS)
def test_tasks_are_the_ranges_and_none_is_empty(spans, min_tasks, max_records, max_bytes):
    ranges = [QueueRange(MessageQueue("T", "a", n), first, first + count) for n, (first, count) in enumerate(spans)]
    sizes = {each.queue: 10.0 for each in ranges}
    parts = split(ranges, min_tasks=min_tasks, max_records=max_records, max_bytes=max_bytes, record_bytes=sizes)
    assert [(p.queue, n) for p in parts for n in range(p.first, p.end)] == [
        (each.queue, n) for each in ranges for n in range(each.first, each.end)
    ]
    assert all(part.count > 0 for part in parts)
    if max_records:
        assert all(part.count <= max_records for part in parts)
    if max_bytes:
        assert all(part.count <= max(1, max_bytes // 10) for part in parts)
    if min_tasks:
        assert len(parts) >= min(min_tasks, sum(each.count for each in ranges))
    for one, other in pairwise(parts):
        if one.queue == other.queue:
            assert abs(one.count - other.count) <= 1


def test_one_range_is_one_task_without_limits():
    assert split([QueueRange(A, 3, 9), QueueRange(B, 5, 5)]) == [QueueRange(A, 3, 9)]


def test_least_tasks_split_the_longest_ranges():
    parts = split([QueueRange(A, 0, 100), QueueRange(B, 0, 10)], min_tasks=4)
    assert [(p.queue, p.first, p.end) for p in parts] == [(A, 0, 33), (A, 33, 66), (A, 66, 100), (B, 0, 10)]


def test_offsets_are_what_the_checkpoint_page_shows():
    offsets = Offsets({B: QueuePosition(20, 1700, 0), A: QueuePosition(70, 1700)})
    assert offsets.to_json() == {
        "version": 1,
        "queues": {
            "T": {
                "a": {"0": {"next": 70, "storedMs": 1700}},
                "b": {"1": {"next": 20, "storedMs": 1700, "begin": 0}},
            }
        },
    }
    assert Offsets.from_json(offsets.to_json()) == offsets


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "holds no offsets of the source gantrymq"),
        ({"T": {"0": 3}}, "holds no offsets of the source gantrymq"),
        ({"version": 2, "queues": {}}, "have version 2, this gantrymq-spark reads 1"),
        ({"version": 1, "queues": {"T": {"a": {"0": 3}}}}, "members of the wrong kind"),
        ({"version": 1, "queues": {"T": {"a": {"x": {"next": 1, "storedMs": 1}}}}}, "members of the wrong kind"),
    ],
)
def test_other_checkpoints_are_refused(data, words):
    with pytest.raises(FormatError, match=words):
        Offsets.from_json(data)


@pytest.mark.parametrize(
    "end", [Offsets({B: QueuePosition(5)}), Offsets({A: QueuePosition(2)}), Offsets({A: QueuePosition(5, 0, 6)})]
)
def test_offsets_that_do_not_belong_together_are_refused(end):
    with pytest.raises(FormatError, match="do not say where a micro-batch begins"):
        ranges_between(Offsets({A: QueuePosition(3)}), end)
