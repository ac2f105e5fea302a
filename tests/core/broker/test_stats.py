"""Counters and rates."""

from __future__ import annotations

import pytest

from gantrymq.broker.stats import Meter, Stats
from gantrymq.interfaces import DispatchEntry


def entry(topic="T", size=100):
    return DispatchEntry(topic, 0, 0, 0, size, 0, 0, 0, 0, b"")


def test_a_rate_is_over_its_window_or_the_time_since_the_start():
    meter = Meter()
    for second in range(61):
        meter.sample(float(second))
        meter.total += 5 if second < 50 else 0
    assert meter.rate(10) == 0
    assert meter.rate(60) == pytest.approx(250 / 60)
    assert meter.rate(600) == pytest.approx(250 / 60)
    assert meter.rates() == "0.0 4.166667 4.166667"


def test_a_meter_without_samples_has_no_rate():
    meter = Meter()
    meter.total = 9
    assert meter.rates() == "0.0 0.0 0.0"
    meter.sample(1.0)
    assert meter.rate(10) == 0


def test_messages_are_counted_by_topic_and_bytes():
    stats = Stats()
    stats.sample(0.0)
    stats.published([entry("A", 10), entry("A", 20), entry("B", 30)])
    stats.sample(30.0)
    assert (stats.put.total, stats.put_bytes) == (3, 60)
    assert stats.topic_put_tps("A") == pytest.approx(2 / 30)
    assert stats.topic_put_tps("Unknown") == 0
    stats.forget("A")
    assert stats.topic_put_tps("B") == pytest.approx(1 / 30)


def test_pulls_are_counted_by_what_they_found():
    stats = Stats()
    stats.pulled(3)
    stats.pulled(0)
    assert (stats.got.total, stats.found.total, stats.missed.total) == (3, 1, 1)
