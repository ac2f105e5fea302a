"""Metrics of the broker for plugins."""

import asyncio
from types import SimpleNamespace

import pytest
from fake_store import put

from gantrymq.broker.counting.sliding_sums import SlidingSums
from gantrymq.broker.counting.stats import Stats
from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.metrics import MetricsReader, collect_metrics, pair
from gantrymq.broker.sending.pipeline import Pipeline
from gantrymq.broker.settings import SCHEMA
from gantrymq.broker.tables.groups import GroupTable
from gantrymq.broker.tables.offsets import ConsumerOffsets
from gantrymq.config import Settings
from gantrymq.interfaces import (
    DispatchEntry,
    MetricFamily,
    MidnightCounts,
    OnlineGroup,
    PutResult,
    PutStatus,
    Throughput,
)
from gantrymq.model.queue import Queue


def entry(topic, size=100):
    return DispatchEntry(topic, 0, 0, 0, size, 0, 0, 0, 0, b"")


def parts():
    stats = Stats()
    stats.sample(0.0)
    stats.published([entry("Orders"), entry("Orders", 50), entry("Bills")])
    stats.pulled(2, "Orders", "readers", 150)
    stats.pulled(0)
    stats.today(1)
    stats.today(2)
    stats.plugin_failed("gate", "replicas")
    offsets = ConsumerOffsets(500, lambda: 0, lambda: 0.0)
    offsets.commit("readers", Queue("Orders", 1), 7)
    online = SimpleNamespace(name="readers", members={1: None, 2: None}, message_model="CLUSTERING")
    clients = SimpleNamespace(consumer_groups=lambda: [online], producer_groups=lambda: {"senders": [None]})
    groups = GroupTable(Settings(SCHEMA), lambda: 0)
    return SimpleNamespace(
        stats=stats,
        clients=clients,
        groups=groups,
        offsets=offsets,
        identity=BrokerIdentity("C", "broker-a", 0, "127.0.0.1", 10911),
        held_pulls=SimpleNamespace(count=3),
        dispatchers=SimpleNamespace(parked={"index": "OSError: no"}),
        state=SimpleNamespace(failing={"topics.json": "it cannot be written"}),
        registration=SimpleNamespace(broker_id=0, states=lambda: {"127.0.0.1:9876": None}),
        plugin_metrics=[],
    )


def test_figures_are_what_the_tables_hold():
    taken = collect_metrics(parts(), 4)
    assert (taken.cluster, taken.broker, taken.address) == ("C", "broker-a", "127.0.0.1:10911")
    assert (taken.put, taken.got) == (Throughput(3, 250), Throughput(2, 150))
    assert (taken.pulls_found, taken.pulls_missed, taken.pulls_held, taken.connections) == (1, 1, 3, 4)
    assert taken.producers == {"senders": 1}
    assert taken.consumers == {"readers": OnlineGroup(2, "CLUSTERING")}
    assert taken.unwritten == {"topics.json": "it cannot be written"}
    assert taken.parked == {"index": "OSError: no"}
    assert taken.plugin_errors == {("gate", "replicas"): 1, ("dispatcher", "index"): 1}
    assert (taken.put_at_midnight, taken.got_at_midnight) == (MidnightCounts(3, 0), MidnightCounts(2, 0))
    assert taken.name_servers == {"127.0.0.1:9876": None}


def reader(of):
    return MetricsReader(of, lambda: 4)


def test_counts_by_topic_are_read_one_by_one():
    read = reader(parts())
    assert dict(read.puts()) == {"Orders": Throughput(2, 150), "Bills": Throughput(1, 100)}
    assert dict(read.gets()) == {("Orders", "readers"): Throughput(2, 150)}
    assert dict(read.committed()) == {("Orders", "readers"): {1: 7}}


def test_what_is_deleted_while_it_is_read_is_left_out():
    read_from = parts()
    read_from.offsets.commit("readers", Queue("Bills", 1), 7)
    read_from.stats.pulled(2, "Bills", "readers", 150)
    read = reader(read_from)
    for iterate, forget in (
        (read.puts(), lambda: read_from.stats.puts.forget("Bills")),
        (read.gets(), lambda: read_from.stats.gets.forget("Bills")),
        (read.committed(), lambda: read_from.offsets.forget_topic("Bills")),
    ):
        first = next(iterate)
        forget()
        assert "Orders" in first[0]
        assert list(iterate) == []


def test_what_plugins_show_is_read_each_time_and_one_that_raises_is_left_out():
    taken_from, numbers = parts(), iter((1.0, 2.0))
    taken_from.plugin_metrics += [
        lambda: MetricFamily("gantrymq_tides", "Tides.", ("moon",), {("full",): next(numbers)}),
        lambda: 1 / 0,
        lambda: MetricFamily("gantrymq_stars_total", "Stars.", (), {(): 5}, counter=True),
    ]
    for number in (1.0, 2.0):
        tides, stars = collect_metrics(taken_from, 4).plugin_metrics
        assert (tides.values, stars.values, stars.counter) == ({("full",): number}, {(): 5}, True)


def test_rates_are_those_of_the_last_minute():
    taken_from = parts()
    taken_from.stats.sample(10.0)
    assert dict(reader(taken_from).puts())["Orders"] == Throughput(2, 150, 0.2, 15.0)


def test_totals_grow_over_the_ends_of_parts_and_windows():
    tally = SlidingSums()
    for second in range(0, 8000, 10):
        tally.add("Orders", 1, 3)
        tally.tick(float(second))
    tally.add("Orders", 1, 3)
    assert tally.total("Orders") == (801, 2403)


def test_totals_of_what_was_forgotten_begin_again():
    tally = SlidingSums()
    tally.add("Orders", 5, 5)
    tally.tick(0.0)
    tally.tick(10.0)
    tally.forget("Orders")
    tally.add("Orders", 1, 1)
    assert tally.total("Orders") == (1, 1)
    assert tally.total("Unknown") == (0, 0)


def test_a_key_is_cut_at_its_first_at_sign():
    assert pair("Orders@readers") == ("Orders", "readers")


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now

    def call_later(self, delay_s, callback, *args):
        return SimpleNamespace(cancel=lambda: None)


class Store:
    """Every message is ten bytes long."""

    def __init__(self):
        self.end = 0

    def put(self, messages):
        results = []
        for _ in messages:
            results.append(PutResult(PutStatus.OK, 0, self.end, 10, 0))
            self.end += 10
        return results

    def publish(self, up_to):
        return ()


class SlowGate:
    name = "slow"

    def __init__(self, clock):
        self.clock = clock

    async def passed(self, log_offset):
        self.clock.now += 0.25


@pytest.mark.parametrize(("gated", "seconds"), [(False, 0.0), (True, 0.25)])
def test_each_acknowledged_batch_is_measured_once(gated, seconds):
    heard = []

    async def main():
        clock = Clock()
        pipeline = Pipeline(Store(), [SlowGate(clock)] if gated else [], clock, 5.0)
        pipeline.on_acknowledged(lambda messages, spent: heard.append((messages, spent)))
        message = SimpleNamespace(wait_stored=True)
        await asyncio.gather(put(pipeline, [message, message]), put(pipeline, [message]))
        await put(pipeline, [message])
        await pipeline.close()

    asyncio.run(main())
    assert heard == [(3, seconds), (1, seconds)]


def test_a_listener_that_fails_leaves_the_senders_alone(caplog):
    async def main():
        pipeline = Pipeline(Store(), [], Clock(), 5.0)
        pipeline.on_acknowledged(lambda messages, spent: 1 // 0)
        await put(pipeline, [SimpleNamespace(wait_stored=True)])
        await pipeline.close()

    asyncio.run(main())
    assert "a listener failed on the time of 1 messages" in caplog.text
