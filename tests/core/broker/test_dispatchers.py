"""Dispatchers: brought up to date at start, fed after each publication, parked when they raise."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from broker_desk import run_broker
from fake_store import FakeStore, entry

from gantrymq.broker.sending.dispatchers import FLUSH_S, REPLAY_BATCH, Dispatchers


class Recorder:
    def __init__(self, name="recorder", position=0, fails_at=None):
        self.name, self._position, self._fails_at = name, position, fails_at
        self.calls = []

    def position(self):
        return self._position

    def dispatch(self, entries):
        self._note("dispatch", [each.log_offset for each in entries])

    def truncate(self, log_offset):
        self._note("truncate", log_offset)

    def flush(self):
        self._note("flush", None)

    def _note(self, what, value):
        if what == self._fails_at:
            raise ValueError(f"{what} broke")
        self.calls.append((what, value))


class InThread:
    """Workers that run at once."""

    inside = False

    async def run(self, work, *args):
        self.inside = True
        try:
            return work(*args)
        finally:
            self.inside = False


def caught_up(store, *dispatchers):
    running = Dispatchers(store, dispatchers, InThread())
    asyncio.run(running.catch_up())
    return running


@pytest.fixture
def store():
    store = FakeStore()
    store.log = [entry(log_offset=number * 100) for number in range(5)]
    store.end = 500
    return store


def test_what_it_missed_is_read_in_a_thread(store):
    workers, recorder, seen = InThread(), Recorder(position=300), []
    store.scan = lambda first, end: (each for each in store.log if seen.append(workers.inside) is None)
    asyncio.run(Dispatchers(store, [recorder], workers).catch_up())
    assert seen == [True] * 5
    assert recorder.calls == [("truncate", 500), ("dispatch", [0, 100, 200, 300, 400])]


def test_a_dispatcher_is_cut_to_the_log_and_replays_what_it_missed(store):
    recorder = Recorder(position=300)
    caught_up(store, recorder)
    assert recorder.calls == [("truncate", 500), ("dispatch", [300, 400])]


def test_one_that_is_up_to_date_replays_nothing(store):
    recorder = Recorder(position=500)
    caught_up(store, recorder)
    assert recorder.calls == [("truncate", 500)]


def test_a_long_replay_comes_in_batches(store):
    store.log = [entry(log_offset=number) for number in range(REPLAY_BATCH + 1)]
    store.end = REPLAY_BATCH + 1
    recorder = Recorder()
    caught_up(store, recorder)
    assert [len(value) for what, value in recorder.calls if what == "dispatch"] == [REPLAY_BATCH, 1]


@pytest.mark.parametrize("where", ["truncate", "dispatch", "flush"])
def test_one_that_raises_is_parked_with_the_reason_and_the_others_go_on(store, where, caplog):
    bad, good = Recorder("bad", fails_at=where), Recorder("good")
    running = caught_up(store, bad, good)
    running.published([entry(log_offset=500)])
    asyncio.run(running.close())
    assert running.parked == {"bad": f"ValueError: {where} broke"}
    assert [what for what, _ in good.calls] == ["truncate", "dispatch", "dispatch", "flush"]
    assert "dispatcher bad is suspended" in caplog.text
    if where != "flush":
        assert ("flush", None) not in bad.calls  # its position stays where it was


def test_a_running_broker_makes_positions_durable_every_few_seconds(plugins):
    recorder = Recorder()
    recorder.name = "recorder"

    async def main(desk):
        await desk.send("T")
        await desk.clock.sleep(FLUSH_S + 1)
        assert [what for what, _ in recorder.calls] == ["truncate", "dispatch", "flush"]

    run_broker(attrs.evolve(plugins, dispatchers={"recorder": lambda context: recorder}), main)
