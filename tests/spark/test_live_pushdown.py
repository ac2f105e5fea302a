"""Filters of a query as narrower scans: never a row too few."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from gantrymq.model.queue import MessageQueue
from gantrymq_spark.live.pushdown import PushedFilters, push_filters

pytestmark = pytest.mark.spark

OPERATORS = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_queues_that_can_have_rows():
    pushed = push_filters([EqualTo(("topic",), "T"), In(("queueId",), (1, 2)), EqualTo(("queueId",), 2)])
    assert pushed == PushedFilters(topics=frozenset("T"), queue_ids=frozenset([2]))
    assert pushed.wants(MessageQueue("T", "a", 2))
    assert not pushed.wants(MessageQueue("T", "a", 1))
    assert not pushed.wants(MessageQueue("U", "a", 2))
    assert not push_filters([In(("brokerName",), ("b",))]).wants(MessageQueue("T", "a", 2))


@pytest.mark.parametrize(
    "each",
    [
        IsNotNull(("topic",)),
        Not(EqualTo(("topic",), "T")),
        EqualNullSafe(("topic",), None),
        In(("topic",), ("T", None)),
        EqualTo(("properties", "topic"), "T"),
        EqualTo(("body",), b"x"),
        EqualTo(("queueOffset",), 1.5),
        In(("queueOffset",), (1, 2)),
        EqualTo(("tags",), "*"),
        EqualTo(("tags",), "A || B"),
        EqualTo(("tags",), " A"),
        EqualTo(("tags",), ""),
        In(("tags",), ()),
        In(("tags",), ("A", None)),
    ],
)
def test_what_narrows_nothing(each):
    assert push_filters([each]) == PushedFilters()


def test_tags_become_an_expression():
    assert push_filters([In(("tags",), ("B", "A"))]).expression == "A || B"
    assert push_filters([EqualTo(("tags",), "A")]).expression == "A"


@given(st.lists(st.tuples(st.sampled_from([*OPERATORS]), st.integers(-3, 12)), max_size=4))
def test_offsets_that_are_left_are_those_that_hold(filters):
    pushed = push_filters([kind(("queueOffset",), value) for kind, value in filters])
    end = 12 if pushed.end_offset is None else pushed.end_offset
    left = set(range(pushed.first_offset, min(end, 12)))
    assert left == {n for n in range(12) if all(OPERATORS[kind](n, value) for kind, value in filters)}


@given(
    st.lists(st.tuples(st.sampled_from([*OPERATORS]), st.integers(-3_000, 12_000)), max_size=3),
    st.sampled_from([UTC, timezone(timedelta(hours=5))]),
)
def test_no_time_that_holds_is_left_out(filters, zone):
    """Values are microseconds, store times whole milliseconds."""
    moments = [(kind, (EPOCH + timedelta(microseconds=value)).astimezone(zone)) for kind, value in filters]
    pushed = push_filters([kind(("storeTimestamp",), moment) for kind, moment in moments])
    for ms in range(12):
        if all(OPERATORS[kind](ms * 1000, value) for kind, value in filters):
            assert pushed.first_ms is None or pushed.first_ms <= ms
            assert pushed.end_ms is None or ms < pushed.end_ms
