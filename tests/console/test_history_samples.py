"""Samples of a real broker in the history: what each kind has, and what is a gap."""

from __future__ import annotations

from types import SimpleNamespace

import attrs
import pytest
from manual_clock import ManualClock

from gantrymq.client import Client, GroupConfig, Message
from gantrymq.client.admin import Counter, CounterWindow, OffsetTarget, RequestNotServed
from gantrymq.errors import CallTimeout
from gantrymq_admin.asking import Asking
from gantrymq_console.data import table
from gantrymq_console.history import sampling
from gantrymq_console.history.keeping import History, HistoryOptions
from gantrymq_console.history.periods import FINE
from gantrymq_console.history.reading import KINDS, Window


@pytest.fixture
def kept(visitor, tmp_path):
    """A history in a file that takes samples only when the test says so, of a topic and a group with one message."""
    visitor.running.create_topic("Orders", 4)
    history = History(visitor.cluster, HistoryOptions(), tmp_path)

    async def fill():
        async with Client(visitor.running.namesrv, world=visitor.cluster.world) as client:
            await client.producer("p").send(Message("Orders", b"1"))
        await visitor.cluster.admin.create_group_in(GroupConfig("billing"))
        await visitor.cluster.admin.reset_offsets("billing", "Orders", OffsetTarget.earliest())
        visitor.cluster.forget()
        await history._open()

    visitor.running.run(fill())
    yield history
    visitor.running.run(history.close())


async def take(history, number):
    """Take a sample for slot *number* after the present one."""
    sample = await history._sampler.take()
    at_ms = sample.at_ms // FINE.step_ms * FINE.step_ms + number * FINE.step_ms
    sample = attrs.evolve(sample, at_ms=at_ms)
    history._recent.add(sample.at_ms, sample.columns)
    history._recent.note(await history._events.found(sample))
    return at_ms


def test_a_sample_has_all_kinds(visitor, kept):
    async def run():
        at_ms = [await take(kept, number) for number in range(3)]
        window = Window(at_ms[0], at_ms[-1] + FINE.step_ms, FINE.step_ms)
        subjects = {"cluster": "", "broker": "broker-a", "topic": "Orders", "group": "billing"}
        return {kind: await kept.curves(kind, name, window) for kind, name in subjects.items()}

    found = visitor.running.run(run())
    for kind, data in found.items():
        assert tuple(each.word for each in data.curves) == KINDS[kind]
        assert len(data.times) == 3 and data.rate_s in (10, 60)
    group = {each.word: each.values for each in found["group"].curves}
    assert group["lag"] == (1, 1, 1) and group["late_s"][0] >= 0 and group["dead_letters"] == (0, 0, 0)
    assert all(value is not None for each in found["topic"].curves for value in each.values)
    broker = {each.word: each.values for each in found["broker"].curves}
    assert broker["in"][0] is not None and broker["oldest_s"][0] is not None
    assert broker["replica_lag"] == (None, None, None), "there is no slave"


def test_a_broker_that_does_not_answer_is_a_gap(visitor, kept, monkeypatch):
    async def late(*_args, **_options):
        raise CallTimeout("late")

    async def run():
        first = await take(kept, 0)
        visitor.cluster.forget()
        with monkeypatch.context() as patched:
            patched.setattr(table, "summary_column", late)
            patched.setattr(visitor.cluster, "_shared", {})
            await take(kept, 1)
        visitor.cluster.forget()
        await take(kept, 2)
        window = Window(first, first + 3 * FINE.step_ms, FINE.step_ms)
        return await kept.curves("topic", "Orders", window), await kept.curves("group", "billing", window)

    topic, group = visitor.running.run(run())
    assert [each is None for each in topic.curves[0].values] == [False, True, False]
    assert [each is None for each in group.curves[0].values] == [False, True, False]


def test_what_was_sampled_is_there_after_a_restart(visitor, kept, tmp_path):
    async def run():
        first = await take(kept, 0)
        await take(kept, 1)
        await kept.close()
        again = History(visitor.cluster, HistoryOptions(), tmp_path)
        await again._open()
        window = Window(first, first + 3 * FINE.step_ms, FINE.step_ms)
        await take(again, 2)
        found = await again.curves("group", "billing", window)
        await again.close()
        return found

    found = visitor.running.run(run())
    assert found.curves[0].values == (1, 1, 1) and kept.problem == ""


def test_a_broker_without_summaries_is_asked_for_what_was_looked_at(visitor, kept, monkeypatch):
    """Such as RocketMQ's: its rates and disk are known always, of topics and groups those with open charts."""
    visitor.running.create_topic("Unseen", 1)

    async def not_served(_admin, address, *_, **__):
        raise RequestNotServed(3, "65025", address)

    async def counter(_address, _name, _key):
        window = CounterWindow(60.0, 4.0, 1.0)
        return Counter(window, window, window)

    async def run():
        monkeypatch.setattr(table, "summary_page", not_served)
        monkeypatch.setattr(table, "summary_column", not_served)
        monkeypatch.setattr(visitor.cluster.admin, "counter", counter)
        visitor.cluster.kept.clear()
        await take(kept, 0)
        for kind, name in (("topic", "Orders"), ("group", "billing")):
            await kept.curves(kind, name, Window(0, FINE.step_ms, FINE.step_ms))
        at_ms = await take(kept, 1)
        window = Window(at_ms - FINE.step_ms, at_ms + FINE.step_ms, FINE.step_ms)
        subjects = (("topic", "Orders"), ("group", "billing"), ("topic", "Unseen"), ("broker", "broker-a"))
        return [
            {each.word: each.values for each in (await kept.curves(kind, name, window)).curves}
            for kind, name in subjects
        ]

    topic, group, unseen, broker = visitor.running.run(run())
    assert topic == {"in": (None, 4.0), "out": (None, None)}, "no such broker tells the rate out"
    assert group["lag"] == (None, 1) and group["dead_letters"] == (None, None)
    assert unseen == {"in": (None, None), "out": (None, None)}
    assert None not in broker["in"]


def test_a_group_that_is_looked_at_is_not_new_and_a_name_without_a_group_has_no_values(visitor, kept, monkeypatch):
    """At brokers without summaries: anybody may open the page of a history with any name."""

    async def not_served(_admin, address, *_, **__):
        raise RequestNotServed(3, "65025", address)

    async def run():
        monkeypatch.setattr(table, "summary_page", not_served)
        monkeypatch.setattr(table, "summary_column", not_served)
        visitor.cluster.kept.clear()
        await take(kept, 0)
        for name in ("billing", "nobody"):
            await kept.curves("group", name, Window(0, FINE.step_ms, FINE.step_ms))
        at_ms = [await take(kept, number) for number in (1, 2, 3)]
        window = Window(at_ms[0], at_ms[-1] + FINE.step_ms, FINE.step_ms)
        lags = [(await kept.curves("group", name, window)).curves[0].values for name in ("billing", "nobody")]
        return lags, [each.word for each in await kept.marks(window)]

    (billing, nobody), marks = visitor.running.run(run())
    assert set(billing) == {1} and set(nobody) == {None}
    assert marks == []


def fake_table(column=None, rows=None, old=()):
    async def columns(_column):
        return SimpleNamespace(value=column)

    async def refresh_each(_names):
        return None

    rows = {
        name: SimpleNamespace(value=None if row is None else SimpleNamespace(**row))
        for name, row in (rows or {}).items()
    }
    return SimpleNamespace(
        may_serve=column is not None,
        walks=column is None,
        column=columns,
        refresh_each=refresh_each,
        rows=rows,
        is_old=lambda name: name in old,
    )


@pytest.mark.parametrize(
    ("brokers", "sums"),
    [
        ([fake_table({"A": 1, "B": 2})], {"A": 1, "B": 2}),
        ([fake_table({"A": 1, "B": 2}), fake_table({"A": 10, "C": 5})], {"A": 11, "B": 2, "C": 5}),
        ([fake_table({"A": 1}), fake_table({"A": None})], {"A": None}),
        ([fake_table(rows={"A": {"lag": 3}, "B": None})], {"A": 3}),
        ([fake_table({"A": 1, "B": 2, "C": 3}), fake_table(rows={"A": {"lag": 3}, "B": None})], {"A": 4, "B": 2}),
        ([fake_table({"A": 1}), fake_table(rows={"A": {"lag": 3}}, old=["A"])], {}),
        ([fake_table(rows={"A": {"lag": 3}, "B": {"lag": 1}}), fake_table(rows={"A": {"lag": 4}})], {"A": 7}),
    ],
)
def test_sums_of_two_kinds_of_brokers_lack_no_part(visitor, brokers, sums):
    tables = SimpleNamespace(brokers={f"b{number}": each for number, each in enumerate(brokers)})

    async def run():
        asking = Asking(visitor.cluster.world.clock)
        return await sampling._sums(tables, asking, [sampling.GROUP_COLUMNS["lag"]], [])

    (found,) = visitor.running.run(run())
    assert found == sums


def test_subjects_are_watched_for_an_hour_and_at_most_twenty():
    clock = ManualClock()
    sampler = sampling.Sampler(SimpleNamespace(world=SimpleNamespace(clock=clock)))
    sampler.watch("cluster", "")
    for number in range(25):
        sampler.watch("topic", f"T{number}")
        clock.advance(60)
    sampler.watch("group", "billing")
    assert sampler._names("topic") == [f"T{number}" for number in range(6, 25)] and sampler._names("group") == [
        "billing"
    ]
    clock.advance(3599)
    assert sampler._names("topic") == [] and sampler._names("group") == ["billing"]
    clock.advance(1)
    assert sampler._names("group") == []
