"""Timers through crashes, power cuts, restarts, recalls and clock changes: each message once, and none early."""

import random
from collections import Counter

import pytest
from timer_rig import ROOT, Promise, Rig, RigBroker

from gantrymq.errors import RequestRefused, StoreLayoutError
from gantrymq.interfaces import GetResult, GetStatus, StoreMessage
from gantrymq.model import properties as props
from gantrymq_schedule.timer.enqueue import PUT_TOGETHER
from gantrymq_schedule.timer.messages import DELETE_KEY, TIMER_QUEUE, delete_key, due_message
from gantrymq_schedule.timer.state import WITHOUT_A_PAUSE
from gantrymq_schedule.timer.timers import Timers
from gantrymq_schedule.timer.wheel_clock import accepted_ms
from gantrymq_schedule.timer.wheel_files import WheelFiles
from gantrymq_storage_faults.machine import Machine
from gantrymq_store_files.timer_checkpoint import decode_timer_checkpoint, encode_timer_checkpoint
from gantrymq_testing.simulated import simulate

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(autouse=True)
def seldom(monkeypatch):
    """Checks the wall clock each 10 minutes: weeks pass here."""
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_each_message_is_delivered_once_whatever_happens(seed, caplog):
    seeded = random.Random(f"{seed}/lives")
    steps = seed % 4 == 3  # clocks are set in some of the runs

    async def work(rig):
        for _ in range(60):
            what = seeded.choice(["send"] * 6 + ["recall", "sleep", "sleep", "stop", "kill", "power"])
            if what == "send":
                for _ in range(seeded.choice([1, 1, 5, 30])):
                    await rig.send(seeded.choice([500, 1000, 2500, 5000, 60_000, HOUR_MS, 50 * HOUR_MS, 71 * HOUR_MS]))
            elif what == "recall" and rig.promises:
                promise = seeded.choice(list(rig.promises.values()))
                left_ms = promise.deliver_ms - rig.clock.now_ms()
                # After the clock was set back, a delivered message may be due later, or further ahead than is accepted.
                if promise.unique_id not in dict(rig.delivered()) and left_ms < 72 * HOUR_MS:
                    await rig.recall(promise)
            elif what == "sleep":
                await rig.clock.sleep(seeded.choice([0.01, 0.3, 1, 3, 40, 3600, 30 * 3600]))
            elif what in ("stop", "kill", "power"):
                await rig.clock.sleep(seeded.uniform(0, 2))
                await rig.restart(what)
                if seeded.random() < 0.2:
                    await rig.clock.sleep(seeded.choice([10, 9 * 24 * 3600]))
            if steps and seeded.random() < 0.1:
                set_ms = [-9 * DAY_MS, -30 * HOUR_MS, -HOUR_MS, -4000, -700, 900, 5000, HOUR_MS]
                rig.clock.ahead_ms += seeded.choice(set_ms)
        last_ms = max(promise.deliver_ms for promise in rig.promises.values())
        await rig.clock.sleep(max(0, last_ms - rig.clock.now_ms()) / 1000 + 24 * 3600)

    rig = run(seed, work)
    times = Counter(unique_id for unique_id, _ in rig.delivered())
    for promise in rig.promises.values():
        assert times[promise.unique_id] == (0 if promise.recalled else 1), promise
    assert max(times.values(), default=1) == 1
    assert times.keys() <= rig.promises.keys()
    assert not [each for each in caplog.messages if "made again from the commit log" in each]
    for unique_id, at in rig.delivered():
        assert at >= accepted_ms(rig.promises[unique_id].deliver_ms, 1000) + 1000


@pytest.mark.parametrize("how", ["", "stop", "kill", "power"])
@pytest.mark.parametrize(
    "back_ms",
    [3000, HOUR_MS, *(pytest.param(days * DAY_MS, marks=pytest.mark.slow) for days in (5, 13, 20))],
)
def test_after_the_clock_was_set_back_new_messages_come_in_time_and_no_other_again(back_ms, how, caplog):
    async def work(rig):
        rig.clock.ahead_ms = back_ms
        for delay_ms in (500, 2500, min(back_ms // 2 + 10_000, 60 * HOUR_MS), 71 * HOUR_MS):
            await rig.send(delay_ms)
        await rig.clock.sleep(5)
        early = len(rig.delivered())
        assert early == 2
        rig.clock.ahead_ms = 0
        for delay_ms in (1500, 6000, 9000, HOUR_MS // 2, 70 * HOUR_MS):
            await rig.send(delay_ms)
        await rig.clock.sleep(3)
        if how:
            await rig.restart(how)
        await rig.send(2000)
        await rig.clock.sleep(7 + HOUR_MS / 1000)
        if how:
            await rig.restart(how)
        await rig.clock.sleep((back_ms + 74 * HOUR_MS) / 1000)

    rig = run(7, work)
    assert sorted(unique_id for unique_id, _ in rig.delivered()) == sorted(rig.promises)
    for unique_id, at in rig.delivered():
        late_ms = at - rig.promises[unique_id].deliver_ms
        assert late_ms > -1000, unique_id
        assert late_ms <= 5000, unique_id
    rebuilt = [each for each in caplog.messages if "rebuilt from the commit log" in each]
    assert bool(rebuilt) == (back_ms >= 13 * DAY_MS)


@pytest.mark.parametrize("java", [False, True], ids=["new", "java"])
def test_what_was_delivered_before_the_first_saving_does_not_come_again_after_a_kill(java):
    """A store without a checkpoint, or with one of a Java broker, which has no start position for timers."""

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


@pytest.mark.parametrize("others", [True, False], ids=["with other messages", "alone"])
def test_what_a_killed_java_broker_delivered_after_its_last_save_does_not_come_again(others):
    """Its checkpoint does not say where its last deliveries begin in the log."""
    read = []

    async def work(rig):
        for number in range(300):  # older, and not read again
            rig.log.append(StoreMessage("B", number % 2, b"x" * 100, b""))
            await rig.clock.sleep(1)
        for number in range(40):
            await rig.send(1000 + 200 * number)
        await rig.send(HOUR_MS)
        await rig.clock.sleep(2)
        await rig.timers._save()
        if others:
            rig.log.append(StoreMessage("B", 0, b"x", b""))
        await rig.clock.sleep(3.5)
        assert 20 < len(rig.delivered()) < 40
        await rig.kill()
        path = ROOT / "config/timercheck"
        saved = decode_timer_checkpoint(rig.machine.inner.read(path))
        java = saved._replace(delivered_from=-1, in_slots=-1)
        rig.machine.inner.replace(path, encode_timer_checkpoint(java))
        scan = rig.log.scan
        rig.log.scan = lambda start, end: read.append(end - start) or scan(start, end)
        await rig.start()
        await rig.clock.sleep(2 * 3600)
        assert rig.log.end > 300 * 200

    rig = run(8, work, timerFlushIntervalMs=60_000)
    assert sorted(unique_id for unique_id, _ in rig.delivered()) == sorted(rig.promises)
    assert len(read) == 1
    assert read[0] < 30_000


@pytest.mark.parametrize("pause_s", [0.004, 0.05, 0.3])
def test_a_wheel_that_is_weeks_behind_delivers_once_through_kills(pause_s):
    """A rolled message in such a wheel is delivered once, however far a process got that saved nothing of it."""

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


def test_a_start_with_another_precision_is_refused_and_with_the_one_before_all_come():
    async def work(rig):
        for delay_ms in (1500, 5000, HOUR_MS):
            await rig.send(delay_ms)
        await rig.timers.stop()
        rig.settings["timerPrecisionMs"] = 100
        with pytest.raises(StoreLayoutError, match="slots of 1000 ms"):
            await rig.start()
        rig.settings["timerPrecisionMs"] = 1000
        await rig.start()
        await rig.clock.sleep(2 * 3600)
        await rig.timers.stop()
        rig.settings["timerPrecisionMs"] = 100
        await rig.start()
        await rig.send(300)
        await rig.clock.sleep(1)

    rig = run(1, work)
    assert [unique_id for unique_id, _ in rig.delivered()] == ["id1", "id2", "id3", "id4"]
    assert rig.delivered()[3][1] - rig.promises["id4"].deliver_ms <= 150


@pytest.mark.parametrize("idle_days", [3, 6, pytest.param(30, marks=pytest.mark.slow)])
def test_a_short_delay_after_idle_days_goes_straight_to_its_slot(idle_days):
    async def work(rig):
        await rig.send(500)
        await rig.clock.sleep(idle_days * 24 * 3600)
        await rig.send(5000)
        await rig.clock.sleep(10)

    rig = run(2, work)
    assert [unique_id for unique_id, _ in rig.delivered()] == ["id1", "id2"]
    assert len(rig.log.queues_by_name[TIMER_QUEUE]) == 2  # a rolled one comes there again


def test_a_start_after_idle_days_reads_little_of_messages_stored_by_others(monkeypatch):
    """Delivered timers are searched after the last saved position, which follows the log while the timers are idle."""
    monkeypatch.setattr("gantrymq_schedule.timer.state.IDLE_BYTES", 5000)
    read = []

    async def work(rig):
        await rig.send(500)
        await rig.clock.sleep(10)
        for _ in range(200):
            rig.log.append(StoreMessage("B", 0, b"x" * 100, b""))
            await rig.clock.sleep(1)
        scan = rig.log.scan
        rig.log.scan = lambda start, end: read.append(end - start) or scan(start, end)
        await rig.restart("kill")
        saved = rig.timers.checkpoint().counter
        await rig.clock.sleep(3600)
        assert rig.timers.checkpoint().counter <= saved + 1  # without stored messages nothing is saved

    rig = run(3, work)
    assert [unique_id for unique_id, _ in rig.delivered()] == ["id1"]
    assert rig.log.end > 30_000
    assert max(read) < 5000 + 15 * 250


@pytest.mark.parametrize(("sent", "recalls"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (0, 2)])
def test_nothing_is_counted_as_waiting_once_all_is_out(sent, recalls):
    async def work(rig):
        deliver_ms = rig.clock.now_ms() + 5000
        for _ in range(sent):
            await rig._stored({"UNIQ_KEY": "same", "TIMER_DELIVER_MS": str(deliver_ms)})
        for _ in range(recalls):
            await rig.recall(Promise("same", deliver_ms))
        await rig.send(60_000)
        await rig.clock.sleep(10)
        assert rig.timers._state.waiting == 1
        assert rig.timers.topics()["A"].count == 1
        await rig.clock.sleep(60)
        assert rig.timers._state.waiting == rig.timers.topics()["A"].count == 0

    assert [unique_id for unique_id, _ in run(4, work).delivered()] == ["id1"]


def test_a_slot_that_is_full_takes_no_more_and_nothing_is_read_to_know_it(monkeypatch):
    """Counted while it fills, after a restart, after a limit is set meanwhile, and from 0 once it is empty."""
    refusing = []
    slot, move = WheelFiles.slot, Timers.move

    def checked_slot(*arguments):
        assert not refusing
        return slot(*arguments)

    def checked_move(*arguments):
        refusing.append(True)
        try:
            return move(*arguments)
        finally:
            refusing.clear()

    monkeypatch.setattr(WheelFiles, "slot", checked_slot)
    monkeypatch.setattr(Timers, "move", checked_move)

    async def work(rig):
        due_ms = rig.clock.now_ms() // 1000 * 1000 + 600_000

        async def fill(most):
            """Send until one is refused; return the number of accepted ones."""
            for number in range(most):
                try:
                    await rig.send(due_ms - rig.clock.now_ms())
                except RequestRefused:
                    return number
                await rig.clock.sleep(0.1)
            return most

        taken = await fill(30)
        assert 10 < taken <= 20
        await rig.restart("kill")
        taken += await fill(30)
        assert 10 < taken <= 20
        rig.timers._state.broker.settings.set("timerCongestNumEachSlot", 2**31 - 1, "test")
        assert await fill(15) == 15
        rig.timers._state.broker.settings.set("timerCongestNumEachSlot", 10, "test")
        rig.timers._state.wake.set()
        await rig.clock.sleep(1)
        assert await fill(3) == 0
        await rig.clock.sleep(700)
        assert all(rig.timers._slot_count(tick) == 0 for tick in range(due_ms // 1000 - 5, due_ms // 1000 + 5))
        due_ms += 10_000_000
        assert await fill(10) == 10

    run(5, work, timerCongestNumEachSlot=10)


def test_a_thousand_messages_whose_time_is_past_are_made_in_slices_and_come_in_order(monkeypatch):
    since, most, appends = [0], [0], []

    async def many(broker, queue, queue_offset, limit):
        found = broker.log.queues_by_name[queue][queue_offset:]
        end = queue_offset + len(found)
        return GetResult(GetStatus.FOUND, end, 0, end, tuple(each.raw for each in found))

    def counted(*arguments):
        since[0] += 1
        most[0] = max(most[0], since[0])
        return due_message(*arguments)

    async def put_all(broker, messages, *, skip_interceptors=False):
        appends.append(len(messages))
        return await put(broker, messages, skip_interceptors=skip_interceptors)

    async def work(rig):
        await rig.timers.stop()
        for number in range(1000):
            own = {"UNIQ_KEY": str(number), "TIMER_OUT_MS": "1000", "REAL_TOPIC": "A", "REAL_QID": "0"}
            rig.log.append(StoreMessage(*TIMER_QUEUE, b"x", props.encode(own)))
        sleep = rig.clock.sleep

        async def pause(seconds):
            since[0] = 0
            await sleep(seconds)

        rig.clock.sleep = pause
        await rig.start()
        await sleep(10)

    put = RigBroker.put_all
    monkeypatch.setattr(RigBroker, "get", many)
    monkeypatch.setattr(RigBroker, "put_all", put_all)
    monkeypatch.setattr("gantrymq_schedule.timer.enqueue.due_message", counted)
    rig = run(6, work)
    assert [unique_id for unique_id, _ in rig.delivered()] == [str(number) for number in range(1000)]
    assert 0 < most[0] <= WITHOUT_A_PAUSE
    assert max(appends) <= PUT_TOGETHER


def test_a_recall_far_behind_its_message_in_the_queue_holds_though_their_slot_was_due_before_they_were_read():
    async def work(rig):
        await rig.timers.stop()
        due_ms = rig.clock.now_ms() // 1000 * 1000 + 5000

        def stored(unique_id, **more):
            own = {"UNIQ_KEY": unique_id, "TIMER_OUT_MS": str(due_ms), "REAL_TOPIC": "A", "REAL_QID": "0", **more}
            rig.log.append(StoreMessage(*TIMER_QUEUE, b"x", props.encode(own)))

        for number in range(60):
            stored(f"id{number}")
        stored("id0", **{DELETE_KEY: delete_key("A", "id0")})
        await rig.clock.sleep(20)
        await rig.start()
        await rig.clock.sleep(5)

    assert [unique_id for unique_id, _ in run(7, work).delivered()] == [f"id{number}" for number in range(1, 60)]
