"""Sums over the last minute, hour and day."""

from __future__ import annotations

import pytest

from gantrymq.broker.counting.tally import BYTES, DAY, HOUR, MINUTE, NOTHING, Sum, Tally


def seconds(tally, until, *, every=1, add=None, start=0):
    for second in range(start, until + 1, every):
        tally.tick(float(second))
        if add is not None:
            add(second)


def test_only_whole_parts_count():
    tally = Tally()
    tally.tick(0.0)
    tally.add("k", 5, 100)
    assert tally.over("k", MINUTE) == NOTHING
    tally.tick(9.0)
    assert tally.over("k", MINUTE) == NOTHING
    tally.tick(10.0)
    assert tally.over("k", MINUTE) == Sum(5, 0.5, 5.0)
    assert tally.over("k", MINUTE, BYTES) == Sum(100, 10.0, 100.0)
    assert tally.over("k", HOUR) == NOTHING


def test_what_is_older_than_the_window_is_gone():
    tally = Tally()
    tally.tick(0.0)
    tally.add("k", 5, 100)
    seconds(tally, 60)
    assert tally.over("k", MINUTE).sum == 5
    seconds(tally, 70, start=61)
    assert tally.over("k", MINUTE) == NOTHING._replace(tps=0.0)
    assert tally.knows("k")


def test_a_rate_is_over_the_time_since_a_key_was_first_seen():
    tally = Tally()
    seconds(tally, 40)
    tally.add("late", 20, 20)
    seconds(tally, 50, start=41)
    assert tally.over("late", MINUTE) == Sum(20, 2.0, 20.0)


def test_hours_and_days_follow_from_minutes():
    tally = Tally()
    tally.tick(0.0)
    for ten_seconds in range(1, 2 * 360 + 1):
        tally.add("k", 1, 10)
        tally.tick(ten_seconds * 10.0)
    assert tally.over("k", MINUTE) == Sum(6, pytest.approx(0.1), 1.0)
    assert tally.over("k", HOUR) == Sum(360, pytest.approx(0.1), 1.0)
    assert tally.over("k", DAY) == Sum(720, pytest.approx(0.1), 1.0)


def test_a_forgotten_key_is_unknown():
    tally = Tally()
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
    tally = Tally()
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
    tally = Tally()
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
