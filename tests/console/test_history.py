"""The history: rings, samples, pages."""

from __future__ import annotations

import tracemalloc

import pytest

from gantrymq.client import Client, GroupConfig, Message
from gantrymq.client.admin import Counter, CounterWindow, OffsetTarget, RequestNotServed
from gantrymq.errors import CallTimeout
from gantrymq_admin.asking import Asking
from gantrymq_console.data import table
from gantrymq_console.data.history import EVERY_S, KEPT, SERIES_BYTES, Series


def test_values_are_kept_for_an_hour_in_order():
    series = Series()
    for number in range(KEPT + 5):
        series.begin(number * EVERY_S * 1000)
        if number % 2:
            series.put("topic", "T", "in", number)
    times, values = series.times(), series.values("topic", "T", "in")
    assert len(times) == len(values) == KEPT
    assert times[0] == 5 * EVERY_S * 1000 and times == sorted(times)
    assert values[:3] == [5, None, 7] and values[-1] is None
    assert series.values("topic", "other", "in") is None


def test_a_pause_is_a_gap_of_its_length():
    series = Series()
    for at_s in (0, 10, 20, 1100, 1110):  # nobody looked for 18 minutes
        series.begin(at_s * 1000)
        series.put("topic", "T", "in", 1.0)
    assert series.times() == [0, 10_000, 20_000, 30_000, 1_100_000, 1_110_000]
    values = series.values("topic", "T", "in")
    assert values == [1.0, 1.0, 1.0, None, 1.0, 1.0]


def test_samples_before_the_last_hour_are_not_shown():
    series = Series()
    for at_s in (0, 10, 7200, 7210):
        series.begin(at_s * 1000)
        series.put("topic", "T", "in", at_s)
    assert series.times() == [7_200_000, 7_210_000]
    assert series.values("topic", "T", "in") == [7200, 7210]


def test_a_series_that_does_not_move_gets_no_ring():
    series = Series()
    series.begin(1)
    series.put("topic", "T", "in", 0.0, create=False)
    series.put("topic", "U", "in", None)
    assert len(series) == 0
    series.put("topic", "T", "in", 2.5)
    series.begin(2)
    series.put("topic", "T", "in", 0.0, create=False)
    assert series.values("topic", "T", "in") == [2.5, 0.0]


def test_memory_is_bounded_and_the_one_that_moved_longest_ago_goes():
    series = Series(10 * SERIES_BYTES)
    series.begin(1)
    for number in range(20):
        series.put("topic", f"T{number}", "in", 1.0)
        series.put("topic", "T0", "in", 1.0)
    assert len(series) == 10 and series.size_bytes <= 10 * SERIES_BYTES
    assert "T0" in series.names("topic", "in") and "T1" not in series.names("topic", "in")


def test_the_memory_of_a_series_is_not_more_than_is_counted():
    series = Series()
    series.begin(1)
    tracemalloc.start()
    try:
        for number in range(1000):
            series.put("topic", f"T{number}", "in", 1.0)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / 1000 <= SERIES_BYTES


@pytest.fixture
def sampled(visitor):
    """A cluster with a topic and a group that moved, of which three samples were taken."""
    visitor.running.create_topic("Orders", 4)

    async def fill():
        history, admin = visitor.console.history, visitor.cluster.admin
        async with Client(visitor.running.namesrv, world=visitor.running.cluster.world) as client:
            await client.producer("p").send(Message("Orders", b"1"))
        await admin.create_group_in(GroupConfig("billing"))
        await admin.reset_offsets("billing", "Orders", OffsetTarget.earliest())
        history._watched["topic", "Orders"] = history._watched["group", "billing"] = None
        for _ in range(3):
            visitor.cluster.forget()
            history._as_of.clear()
            await history.sample()
        history.sample = nothing  # pages start to sample in the background

    visitor.running.run(fill())
    return visitor


async def nothing():
    """Replacement of taking a sample."""


def test_samples_of_brokers_and_groups(sampled):
    series = sampled.console.history.series
    assert series.taken == 3 and series.values("broker", "broker-a", "in")[-1] >= 0
    assert [each for each in series.values("group", "billing", "behind") if each is not None][-1] == 1


def topic_samples(visitor, monkeypatch, *answers):
    """Return the series "in" and "out" of topic T after samples for which brokers report *answers*."""
    history = visitor.console.history

    async def run():
        await visitor.cluster.brokers()
        for answer in answers:

            async def rates(_table, answer=answer):
                if isinstance(answer, Exception):
                    raise answer
                return answer

            monkeypatch.setattr(history, "_rates", rates)
            history.series.begin(1)
            await history._sample_topics(Asking(visitor.cluster.world.clock))
        return [history.series.values("topic", "T", word) for word in ("in", "out")]

    return visitor.running.run(run())


def test_a_topic_that_rests_has_zero_and_one_that_is_not_known_has_a_gap(visitor, monkeypatch):
    samples = topic_samples(visitor, monkeypatch, {}, {"T": (2.0, 1.0)}, {}, CallTimeout("late"), {"T": (0.0, 3.0)})
    assert samples == [[None, 2.0, 0.0, None, 0.0], [None, 1.0, 0.0, None, 3.0]]


def test_a_broker_without_summaries_is_asked_for_watched_topics_only(visitor, monkeypatch):
    visitor.running.create_topic("T", 1)
    history, asked = visitor.console.history, []

    async def counter(_address, name, key):
        asked.append(key)
        window = CounterWindow(60.0, 4.0, 1.0)
        return Counter(window, window, window)

    async def not_served(_admin, address, *_, **__):
        raise RequestNotServed(3, "65025", address)

    visitor.get("/")
    monkeypatch.setattr(visitor.cluster.admin, "counter", counter)
    monkeypatch.setattr(table, "summary_page", not_served)
    monkeypatch.setattr(table, "summary_column", not_served)
    history._watched["topic", "T"] = None
    found_in, found_out = topic_samples(visitor, monkeypatch, None)
    assert found_in[-1] == 4.0 and set(asked) == {"T"}
    assert found_out is None, "no such broker tells the rate out"


def test_sampling_pauses_when_nobody_looks(visitor):
    history, clock = visitor.console.history, visitor.cluster.world.clock

    async def run():
        taken = []

        async def sample():
            taken.append(clock.monotonic())

        history.sample = sample
        history._looked_ms = int(clock.monotonic() * 1000) - 61_000
        await history._run()
        return taken

    assert visitor.running.run(run()) == []
