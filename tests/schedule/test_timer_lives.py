"""Timers through crashes, power cuts, restarts, recalls and set clocks: each message once, and none early."""

import random
from collections import Counter

import pytest
from timer_rig import ROOT, Rig

from gantrymq_storage_faults.machine import Machine
from gantrymq_store_files.timer_checkpoint import decode_timer_checkpoint, encode_timer_checkpoint
from gantrymq_testing.simulated import simulate

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(autouse=True)
def seldom(monkeypatch):
    """A look at the wall clock each 10 minutes: weeks pass here."""
    monkeypatch.setattr("gantrymq_schedule.timer.timers.LOOK_S", 600.0)


def run(seed, work, **settings):
    async def main(world):
        rig = Rig(world, Machine(world.files), seed, settings)
        await rig.start()
        await work(rig)
        await rig.timers.stop()
        return rig

    return simulate(seed, main, limit_s=40 * 24 * 3600)


def test_three_days_take_milliseconds():
    async def work(rig):
        await rig.send(3 * DAY_MS)
        await rig.clock.sleep(3 * 24 * 3600 + 1)

    rig = run(1, work)
    ((unique_id, at),) = rig.delivered()
    assert unique_id == "id1"
    assert 0 <= at - rig.promises["id1"].deliver_ms <= 1100


@pytest.mark.parametrize("seed", range(6))
def test_each_message_is_delivered_once_whatever_happens(seed):
    seeded = random.Random(f"{seed}/lives")
    steps = seed % 4 == 3  # clocks are set in some of the runs

    async def work(rig):
        for _ in range(60):
            what = seeded.choice(["send"] * 6 + ["recall", "sleep", "sleep", "stop", "kill", "power"])
            if what == "send":
                for _ in range(seeded.choice([1, 1, 5, 30])):
                    await rig.send(seeded.choice([500, 1000, 2500, 5000, 60_000, HOUR_MS, 50 * HOUR_MS, 71 * HOUR_MS]))
            elif what == "recall" and rig.promises:
                await rig.recall(seeded.choice(list(rig.promises.values())))
            elif what == "sleep":
                await rig.clock.sleep(seeded.choice([0.01, 0.3, 1, 3, 40, 3600, 30 * 3600]))
            elif what in ("stop", "kill", "power"):
                await rig.clock.sleep(seeded.uniform(0, 2))
                await rig.restart(what)
                if seeded.random() < 0.2:
                    await rig.clock.sleep(seeded.choice([10, 9 * 24 * 3600]))
            if steps and seeded.random() < 0.1:
                rig.clock.ahead_ms += seeded.choice([-4000, -700, 900, 5000, HOUR_MS])
        await rig.clock.sleep(4 * 24 * 3600)

    rig = run(seed, work)
    times = Counter(unique_id for unique_id, _ in rig.delivered())
    for promise in rig.promises.values():
        assert times[promise.unique_id] == (0 if promise.recalled else 1), promise
    assert max(times.values(), default=1) == 1
    for unique_id, at in rig.delivered():
        promise = rig.promises.get(unique_id)
        assert promise is None or at >= (promise.deliver_ms - 1) // 1000 * 1000


@pytest.mark.parametrize("java", [False, True], ids=["new", "java"])
def test_what_was_delivered_before_the_first_saving_does_not_come_again_after_a_kill(java):
    """A store without a checkpoint, and one whose checkpoint a Java broker wrote: it does not say where to look."""

    async def work(rig):
        if java:
            await rig.send(1500)
            await rig.timers.stop()
            path = ROOT / "config/timercheck"
            saved = decode_timer_checkpoint(rig.machine.inner.read(path))
            rig.machine.inner.replace(path, encode_timer_checkpoint(saved._replace(delivered_from=-1)))
            await rig.start()
        await rig.send(500)
        while not rig.delivered():
            await rig.clock.sleep(0.05)
        await rig.restart("kill")
        await rig.clock.sleep(10)

    rig = run(1, work, timerFlushIntervalMs=60_000)
    assert {unique_id for unique_id, _ in rig.delivered()} == set(rig.promises)
    assert len(rig.delivered()) == len(rig.promises)


@pytest.mark.parametrize("pause_s", [0.004, 0.05, 0.3])
def test_a_wheel_that_is_weeks_behind_delivers_once_through_kills(pause_s):
    """What goes round in such a wheel comes once, however far a process got that saved nothing of it."""

    async def work(rig):
        for hours in (1, 30, 50, 60, 71):
            await rig.send(hours * HOUR_MS)
        await rig.timers.stop()
        await rig.clock.sleep(20 * 24 * 3600)
        await rig.start()
        for _ in range(3):
            await rig.send(5000)
            await rig.clock.sleep(pause_s)
            await rig.restart("kill")
        await rig.clock.sleep(60)

    rig = run(3, work)
    assert sorted(unique_id for unique_id, _ in rig.delivered()) == sorted(rig.promises)
