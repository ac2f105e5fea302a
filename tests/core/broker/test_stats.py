"""Counters and rates."""

from __future__ import annotations

import pytest

from gantrymq.broker.counting.sliding_sums import SlidingSums
from gantrymq.broker.counting.stats import DAY_MS, Meter, Stats, local_day
from gantrymq.interfaces import DispatchEntry


def entry(topic="T", size=100):
    return DispatchEntry(topic, 0, 0, 0, size, 0, 0, 0, 0, b"")


def test_a_rate_is_over_its_window_or_the_time_since_the_start():
    tally = SlidingSums()
    meter = Meter(tally, "put")
    for second in range(61):
        meter.sample(float(second))
        tally.add("put", 5 if second < 50 else 0, 0)
    assert meter.rate(10) == 0
    assert meter.rate(60) == pytest.approx(250 / 60)
    assert meter.rate(600) == pytest.approx(250 / 60)
    assert meter.rates() == "0.0 4.166667 4.166667"


def test_a_meter_without_samples_has_no_rate():
    tally = SlidingSums()
    meter = Meter(tally, "put")
    tally.add("put", 9, 0)
    assert meter.rates() == "0.0 0.0 0.0"
    meter.sample(1.0)
    assert meter.rate(10) == 0


def test_messages_are_counted_by_topic_and_bytes():
    stats = Stats()
    stats.sample(0.0)
    stats.published([entry("A", 10), entry("A", 20), entry("B", 30)])
    stats.sample(30.0)
    assert (stats.put.total, stats.put.bytes) == (3, 60)
    assert stats.topic_put_tps("A") == pytest.approx(2 / 30)
    assert stats.topic_put_tps("Unknown") == 0
    stats.forget("A")
    assert stats.topic_put_tps("B") == pytest.approx(1 / 30)


def test_a_slave_counts_copied_messages_in_its_total_only():
    stats = Stats()
    stats.counts_topics = lambda: False
    stats.published([entry("A", 10), entry("B", 20)])
    assert (stats.put.total, stats.put.bytes, stats.put.of_users, [*stats.puts.known()]) == (2, 30, 0, [])
    stats.counts_topics = lambda: True  # it took over
    stats.published([entry("A", 10), entry("SCHEDULE_TOPIC_XXXX", 10)])
    assert (stats.put.total, stats.put.of_users, stats.puts.total("A")[0]) == (4, 1, 1)


def test_deliveries_have_rates_by_group_and_for_all():
    stats = Stats()
    stats.sample(0.0)
    for group, count in (("one", 30), ("other", 60)):
        stats.pulled(count, "A", group, 100)
    stats.pulled(5, "B", "one", 100)
    stats.sample(30.0)
    assert stats.group_get_tps("A", "one") == pytest.approx(1)
    assert stats.topic_get_tps("A") == pytest.approx(3)
    assert stats.topic_get_tps("Unknown") == 0
    stats.forget("A")
    assert stats.topic_get_tps("A") == 0


def test_pulls_are_counted_by_what_they_found():
    stats = Stats()
    stats.pulled(3)
    stats.pulled(0)
    assert (stats.got.total, stats.found.total, stats.missed.total) == (3, 1, 1)


def test_messages_of_system_topics_are_not_the_users():
    """As in a Java broker: a delayed message counts when it is delivered."""
    stats = Stats()
    stats.published([entry("A"), entry("SCHEDULE_TOPIC_XXXX"), entry("rmq_sys_wheel_timer"), entry("A")])
    stats.pulled(3, "SCHEDULE_TOPIC_XXXX", "G")
    stats.pulled(2, "A", "G")
    assert (stats.put.total, stats.put.of_users) == (4, 2)
    assert (stats.got.total, stats.got.of_users) == (5, 2)
    for day in (100, 101):
        stats.today(day)
    assert (stats.put.today_morning, stats.got.today_morning) == (2, 2)


class Zone:
    """A clock of a host that is *ahead_h* hours ahead of UTC."""

    def __init__(self, ahead_h):
        self.ms, self.ahead_ms = 0, ahead_h * 3600 * 1000

    def now_ms(self):
        return self.ms

    def utc_offset_ms(self, at_ms):
        return self.ahead_ms


def marks(meter):
    return meter.yesterday_morning, meter.today_morning, meter.total


def test_the_marks_move_at_each_midnight():
    stats = Stats()
    stats.today(100)
    stats.published([entry()] * 3)
    stats.pulled(2)
    stats.today(100)
    assert (marks(stats.put), marks(stats.got)) == ((0, 0, 3), (0, 0, 2))
    stats.today(101)
    stats.published([entry()] * 4)
    stats.today(101)
    assert (marks(stats.put), marks(stats.got)) == ((0, 3, 7), (0, 2, 2))
    stats.today(102)
    stats.published([entry()])
    assert (marks(stats.put), marks(stats.got)) == ((3, 7, 8), (2, 2, 2))


def test_a_clock_that_is_set_back_begins_no_day_again():
    stats = Stats()
    stats.today(100)
    stats.published([entry()])
    for day in (101, 100, 101):
        stats.today(day)
        stats.published([entry()])
    assert marks(stats.put) == (0, 1, 4)


def test_nothing_was_counted_on_days_that_were_jumped_over():
    stats = Stats()
    stats.today(100)
    stats.published([entry()] * 5)
    stats.today(103)
    assert marks(stats.put) == (5, 5, 5)


@pytest.mark.parametrize("ahead_h", [0, 2, -5])
def test_a_day_begins_at_local_midnight(ahead_h):
    clock = Zone(ahead_h)
    clock.ms = 20_000 * DAY_MS - clock.ahead_ms - 1
    assert local_day(clock) == 19_999
    clock.ms += 1
    assert local_day(clock) == 20_000
