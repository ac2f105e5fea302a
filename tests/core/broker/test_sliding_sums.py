"""Sums over the last minute, hour and day."""

from __future__ import annotations

import pytest

from gantrymq.broker.counting.sliding_sums import BYTES, DAY, HOUR, MINUTE, NOTHING, SlidingSums, WindowSum


def seconds(tally, until, *, every=1, add=None, start=0):
    for second in range(start, until + 1, every):
        tally.tick(float(second))
        if add is not None:
            add(second)


def test_only_whole_parts_count():
    tally = SlidingSums()
    tally.tick(0.0)
    tally.add("k", 5, 100)
    assert tally.over("k", MINUTE) == NOTHING
    tally.tick(9.0)
    assert tally.over("k", MINUTE) == NOTHING
    tally.tick(10.0)
    assert tally.over("k", MINUTE) == WindowSum(5, 0.5, 5.0)
    assert tally.over("k", MINUTE, BYTES) == WindowSum(100, 10.0, 100.0)
    assert tally.over("k", HOUR) == NOTHING


def test_what_is_older_than_the_window_is_gone():
    tally = SlidingSums()
    tally.tick(0.0)
    tally.add("k", 5, 100)
    seconds(tally, 60)
    assert tally.over("k", MINUTE).sum == 5
    seconds(tally, 70, start=61)
    assert tally.over("k", MINUTE) == NOTHING._replace(tps=0.0)
    assert tally.knows("k")


def test_a_rate_is_over_the_time_since_a_key_was_first_seen():
    tally = SlidingSums()
    seconds(tally, 40)
    tally.add("late", 20, 20)
    seconds(tally, 50, start=41)
    assert tally.over("late", MINUTE) == WindowSum(20, 2.0, 20.0)


def test_hours_and_days_follow_from_minutes():
    tally = SlidingSums()
    tally.tick(0.0)
    for ten_seconds in range(1, 2 * 360 + 1):
        tally.add("k", 1, 10)
        tally.tick(ten_seconds * 10.0)
    assert tally.over("k", MINUTE) == WindowSum(6, pytest.approx(0.1), 1.0)
    assert tally.over("k", HOUR) == WindowSum(360, pytest.approx(0.1), 1.0)
    assert tally.over("k", DAY) == WindowSum(720, pytest.approx(0.1), 1.0)


def test_a_forgotten_key_is_unknown():
    tally = SlidingSums()
    tally.add("a", 1, 1)
    tally.add("b", 1, 1)
    tally.tick(0.0)
    tally.tick(10.0)
    tally.add("c", 1, 1)
    assert tally.known() == ["a", "b", "c"]
    tally.forget("a")
    tally.forget("c")
    assert tally.known() == ["b"]
    assert not tally.knows("a")
    assert tally.over("a", MINUTE) == NOTHING


def test_a_forgotten_topic_takes_the_keys_of_its_groups_along():
    tally = SlidingSums()
    for key in ("T@A", "T@B", "TT@A"):
        tally.add(key, 1, 1)
    tally.tick(0.0)
    tally.tick(10.0)
    tally.add("T@C", 1, 1)
    tally.forget("T")
    assert tally.known() == ["TT@A"]
    tally.add("T@A", 2, 2)
    assert tally.total("T@A") == (2, 2)


def test_a_forgotten_group_takes_its_keys_along_and_nothing_is_kept_in_any_part():
    tally = SlidingSums()
    for number in range(3):
        for key in ("T@A", "T@B", "U@A", "A"):
            tally.add(key, 1, 1)
        tally.tick(10.0 * number)
    tally.forget_group("A")
    assert tally.known() == ["T@B", "A"]
    tally.forget("T")
    tally.forget("A")
    kept = [sums for window in tally._windows for _, sums in window.parts]
    assert not any(kept)
    assert not tally._keys_of
