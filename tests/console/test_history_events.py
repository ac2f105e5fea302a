"""Events of a history: brokers, masters, settings and groups that changed between samples."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from sampled_history import BEGIN_S, STEP_MS, Sampled

from gantrymq_console.data.brokers import BrokerState, CopyRow
from gantrymq_console.data.cluster import Aged
from gantrymq_console.data.nameservers import SettingRow
from gantrymq_console.history import events
from gantrymq_console.history.reading import Window
from gantrymq_console.history.sampling import replica_lag

MASTER = BrokerState("c", "broker-a", 0, "10.0.0.1:10911", registered=True, answers=True)
SLAVE = attrs.evolve(MASTER, broker_id=1, address="10.0.0.2:10911")
ROW = CopyRow(
    role="master",
    broker_id=0,
    address="10.0.0.1:10911",
    end=None,
    lag_bytes=None,
    lag_s=None,
    in_sync=None,
    following=None,
    in_sync_copies=None,
    wanted_copies=None,
    problem="",
    lacking=False,
    epoch=3,
    in_sync_set=None,
    elected_id=1,
)


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    """The settings that brokers report, and how often they were asked."""
    told = {}
    asked = []

    async def broker_settings(_cluster, address):
        asked.append(address)
        return Aged(tuple(told.get(address, ())), 0)

    monkeypatch.setattr(events, "broker_settings", broker_settings)
    told["asked"] = asked
    return told


def setting(key, value, origin="given"):
    return SettingRow(key, value, "", None, origin, "", "", "text", (), None, None, None, False, False)


def found(samples, folder=None, again=()):
    """Return time, word, name and fields of the events of *samples*, and of *again* in another process."""

    async def run():
        kept = Sampled(folder)
        marks = []
        for part in (samples, again):
            if part is again and not again:
                break
            if part is again:
                kept = kept.opened_again()
            await kept.open()
            for each in part:
                for name, value in each.items():
                    setattr(kept, name, value)
                kept.columns = {} if kept.members is None else {"group": [dict.fromkeys(kept.members)] * 5}
                await kept.history.sample()
                kept.clock.advance(10)
            marks = await kept.history.marks(Window(0, 2**50, 2**50))
            await kept.history.close()
        return [
            ((each.at_ms - int(BEGIN_S * 1000)) // STEP_MS, each.word, each.name, dict(each.fields)) for each in marks
        ]

    return asyncio.run(run())


def test_a_broker_is_gone_after_two_samples_and_back_with_one():
    silent = attrs.evolve(MASTER, answers=False, problem="no answer")
    states = [MASTER, silent, MASTER, silent, silent, silent, MASTER]
    assert found([{"brokers": (each,)} for each in states]) == [
        (4, "broker_gone", "broker-a", {"problem": "no answer"}),
        (6, "broker_back", "broker-a", {}),
    ]
    unregistered = attrs.evolve(MASTER, registered=False, answers=False)
    assert [each[:2] for each in found([{"brokers": (each,)} for each in (MASTER, *[unregistered] * 3)])] == [
        (2, "broker_gone")
    ]
    assert found([{"brokers": (each,)} for each in (silent, silent, MASTER)]) == [], "it was away from the start"


def test_an_election_is_another_epoch_or_address():
    moved = attrs.evolve(MASTER, address="10.0.0.2:10911")
    copies = [{"broker-a": (attrs.evolve(ROW, epoch=epoch),)} for epoch in (3, 3, 4, None, 4)]
    samples = [
        {"brokers": (MASTER,), "copies": copies[0]},
        {"copies": copies[1]},
        {"copies": copies[2]},
        {"copies": copies[3]},
        {"copies": copies[4]},
        {"brokers": (moved,)},
    ]
    assert found(samples) == [
        (2, "elected", "broker-a", {"address": "10.0.0.1:10911", "before": "10.0.0.1:10911", "epoch": 4}),
        (5, "elected", "broker-a", {"address": "10.0.0.2:10911", "before": "10.0.0.1:10911", "epoch": 4}),
    ]
    assert [each[1] for each in found([{"brokers": (MASTER,)}, {"brokers": (SLAVE,)}, {"brokers": (moved,)}])] == [
        "elected"
    ]


def test_groups_that_are_new_silent_or_back(tmp_path):
    counts = [2, 2, 0, 2, 0, 0, 0, 1]
    samples = [{"members": {"billing": count, "idle": 0, "unknown": None}} for count in counts]
    samples[3]["members"]["fresh"] = 0
    assert found(samples, tmp_path) == [
        (3, "group_new", "fresh", {}),
        (5, "group_silent", "billing", {}),
        (7, "group_back", "billing", {}),
    ]


def test_a_group_that_came_while_the_console_was_stopped_is_new(tmp_path):
    again = [{"members": {"billing": 1, "meanwhile": 0, "TOOLS_CONSUMER": 0}}, {"members": None}]
    assert found([{"members": {"billing": 1}}], tmp_path, again) == [(1, "group_new", "meanwhile", {})]


def test_a_setting_that_changed_is_found_within_a_minute(settings):
    at = MASTER.address
    settings[at] = [setting("a", "1"), setting("b", "x"), setting("up", "5", "computed"), setting("secret", "******")]
    changed = {7: [setting("a", "2"), setting("b", "x"), setting("up", "6", "computed"), setting("secret", "******")]}

    class Samples(list):
        def __iter__(self):
            for number in range(15):
                if number in changed:
                    settings[at] = changed[number]
                yield {"brokers": (MASTER,)}

    assert found(Samples([1])) == [(12, "setting", "broker-a", {"key": "a", "old": "1", "new": "2"})]
    assert len(settings["asked"]) == 3


def test_replica_lag_is_that_of_the_last_slave():
    slaves = [attrs.evolve(ROW, role="slave", lag_bytes=lag) for lag in (5, 100)]
    assert replica_lag((ROW, *slaves)) == 100
    assert replica_lag((ROW,)) is None
    assert replica_lag((ROW, attrs.evolve(ROW, role="slave"), *slaves)) is None, "one does not tell"
