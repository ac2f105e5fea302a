"""Timer files damaged while the broker was down: each message is delivered once, and one warning is logged."""

import random
from collections import Counter

import pytest
from killed_cluster import SETTINGS, after_a_kill, counts
from timer_rig import ROOT, Rig

from gantrymq_schedule.timer import rebuild
from gantrymq_storage_faults.machine import Machine
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint, decode_timer_checkpoint, encode_timer_checkpoint
from gantrymq_store_files.timer_wheel import WHEEL_BYTES
from gantrymq_testing.simulated import simulate

LOG, WHEEL, CONFIG = ROOT / "timerlog", ROOT / "timerwheel", ROOT / "config"
CHECK, METRICS = CONFIG / "timercheck", CONFIG / "timermetrics"
HOUR_MS = 3600 * 1000
FILE_BYTES = 52 * 7 + 16
TIMER_SETTINGS = {"mappedFileSizeTimerLog": 65536}


@pytest.fixture(autouse=True)
def seldom(monkeypatch):
    """Checks the wall clock and the log each hour: days pass here."""
    monkeypatch.setattr("gantrymq_schedule.timer.timers.LOOK_S", 3600.0)
    monkeypatch.setattr("gantrymq_schedule.timer.state.IDLE_LOOK_S", 3600.0)


def logs(files):
    return [LOG / name for name in files.list(LOG)]


def overwritten(files, path, data, position=0):
    file = files.open(path)
    file.pwrite(data, position)
    file.close()


def over_wheel(files, data):
    """Overwrite every part of the wheel that holds something."""
    file = files.open(WHEEL)
    for begin, end in list(file.written(0, WHEEL_BYTES)):
        for at in range(begin, end, 4096):
            if any(file.pread(4096, at)):
                file.pwrite(data(4096), at)
    file.close()


def log_files_gone(files):
    for path in logs(files):
        files.remove(path)


def log_of_no_length(files):
    for path in logs(files):
        files.replace(path, b"")


def log_zeroed(files):
    for path in logs(files):
        files.replace(path, bytes(FILE_BYTES))


def log_truncated(files):
    for path in logs(files)[2:]:
        files.remove(path)
    files.replace(logs(files)[1], files.read(logs(files)[1])[:60])


def garbage_at_the_beginning(files):
    for path in logs(files):
        overwritten(files, path, b"\xff" * 100)


def garbage_in_the_middle(files):
    paths = logs(files)
    overwritten(files, paths[len(paths) // 2], random.Random(1).randbytes(104), 104)


def garbage_at_the_end(files):
    overwritten(files, logs(files)[-1], b"\xff" * 52)


def everything_gone(files):
    log_files_gone(files)
    for path in (WHEEL, CHECK, METRICS):
        files.remove(path)


def wheel_gone(files):
    files.remove(WHEEL)


def wheel_of_no_length(files):
    files.replace(WHEEL, b"")


def wheel_zeroed(files):
    over_wheel(files, bytes)


def wheel_of_ones(files):
    over_wheel(files, lambda size: b"\xff" * size)


def wheel_of_noise(files):
    over_wheel(files, random.Random(2).randbytes)


def check_gone(files):
    files.remove(CHECK)


def check_zeroed(files):
    files.replace(CHECK, bytes(4096))


def check_of_ones(files):
    files.replace(CHECK, b"\xff" * 4096)


def check_of_noise(files):
    files.replace(CHECK, random.Random(3).randbytes(4096))


def check_of_another_store(files):
    now_ms = decode_timer_checkpoint(files.read(CHECK)).read_time_ms
    files.replace(CHECK, encode_timer_checkpoint(TimerCheckpoint(now_ms, 10**6, 10**5, 10**5, 0, now_ms, 5, 10**7, 50)))


def check_cut(files):
    files.replace(CHECK, files.read(CHECK)[:40])


def metrics_gone(files):
    files.remove(METRICS)


def metrics_of_noise(files):
    files.replace(METRICS, random.Random(4).randbytes(300))


def log_and_check_zeroed(files):
    log_zeroed(files)
    check_zeroed(files)


MENDED = (wheel_gone, wheel_of_no_length)  # from the log of the timers, without a word
DAMAGE = (
    *(log_files_gone, log_of_no_length, log_zeroed, log_truncated, garbage_at_the_beginning, garbage_in_the_middle),
    *(garbage_at_the_end, everything_gone, *MENDED, wheel_zeroed, wheel_of_ones, wheel_of_noise, check_gone),
    *(check_zeroed, check_of_ones, check_of_noise, check_of_another_store, check_cut, metrics_gone, metrics_of_noise),
    log_and_check_zeroed,
)


def run(work, seed=1, **settings):
    async def main(world):
        rig = Rig(world, Machine(world.files), seed, settings)
        await rig.start()
        await work(rig)
        await rig.timers.stop()
        return rig

    return simulate(seed, main, limit_s=40 * 24 * 3600)


def check_once(rig):
    times = Counter(unique_id for unique_id, _ in rig.delivered())
    assert times == {each.unique_id: 1 for each in rig.promises.values() if not each.recalled}
    for unique_id, at in rig.delivered():
        assert at >= rig.promises[unique_id].deliver_ms


async def fill(rig):
    """Messages of all kinds: delivered, due soon, recalled, going round, sent a moment ago."""
    for delay_ms in (800, 1500, 1500, 2500, 71 * HOUR_MS, 20_000, 30 * HOUR_MS):
        await rig.send(delay_ms)
    await rig.clock.sleep(24 * 3600)
    for number in range(30):
        await rig.send(2000 + number * 977)
        if number % 5 == 4:
            await rig.recall(rig.promises[f"id{number}"])
    await rig.send(60 * HOUR_MS)
    await rig.clock.sleep(9.7)
    for _ in range(3):
        await rig.send(40_000)


AFTER_A_STOP = (log_files_gone, log_zeroed, wheel_gone, wheel_zeroed, check_gone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "how"), [*((each, "kill") for each in DAMAGE), *((each, "stop") for each in AFTER_A_STOP)]
)
def test_each_message_comes_once_whatever_was_damaged(caplog, damage, how):
    async def work(rig):
        await fill(rig)
        await (rig.timers.stop() if how == "stop" else rig.kill())
        damage(rig.machine.inner)
        await rig.clock.sleep(12)
        await rig.start()
        await rig.clock.sleep(1)
        waiting = sum(not each.recalled for each in rig.promises.values()) - len(rig.delivered())
        assert rig.timers.topics()["A"].count == rig.timers.stats()["waiting"] == waiting
        await rig.clock.sleep(3)
        await rig.restart("kill")
        await rig.clock.sleep(4 * 24 * 3600)
        assert rig.timers.topics()["A"].count == 0

    rig = run(work, timerRollWindowSlot=20 * 3600)
    check_once(rig)
    warnings = [each for each in caplog.messages if "rebuilt from the commit log" in each]
    assert len(warnings) == (0 if damage in MENDED else 1), caplog.messages


@pytest.mark.parametrize("damage", [garbage_in_the_middle, garbage_at_the_beginning])
def test_damage_that_is_met_while_timers_run_is_mended_too(caplog, damage):
    async def work(rig):
        await fill(rig)
        await rig.clock.sleep(0.5)
        damage(rig.machine.inner)
        await rig.clock.sleep(4 * 24 * 3600)

    check_once(run(work, timerRollWindowSlot=20 * 3600))
    assert len([each for each in caplog.messages if "rebuilt from the commit log" in each]) <= 1


@pytest.mark.parametrize("pause_s", [0, 0.01, 0.2, 3.0])
def test_a_rebuild_that_is_killed_begins_again(pause_s, monkeypatch):
    monkeypatch.setattr(rebuild, "_TOGETHER", 5)

    async def work(rig):
        await fill(rig)
        await rig.kill()
        log_zeroed(rig.machine.inner)
        for _ in range(3):
            await rig.start()
            await rig.clock.sleep(pause_s)
            await rig.send(5000)
            await rig.kill()
        await rig.start()
        await rig.clock.sleep(4 * 24 * 3600)

    check_once(run(work, timerRollWindowSlot=20 * 3600))


def test_a_store_without_timed_messages_is_made_without_a_warning(caplog):
    async def work(rig):
        await rig.clock.sleep(100)
        await rig.restart("kill")

    run(work)
    assert not [each for each in caplog.messages if "rebuilt" in each]


@pytest.mark.parametrize("damage", [log_files_gone, log_and_check_zeroed])
def test_a_broker_puts_its_timers_together_again(gantrymq_simulation, damage):
    def damaged(store):
        """Results of the functions above at `ROOT`."""
        name = "timerlog/" + "0" * 20
        if damage is log_and_check_zeroed:
            files.replace(store / name, bytes(TIMER_SETTINGS["mappedFileSizeTimerLog"]))
            files.replace(store / "config/timercheck", bytes(4096))
        else:
            files.remove(store / name)

    async def main(cluster):
        nonlocal files
        files, clock = cluster.world.files, cluster.world.clock
        await cluster.create_topic("T", 1)
        for number in range(60):
            await cluster.send("T", b"%d" % number, system_properties={"TIMER_DELAY_MS": str(500 + number * 250)})
        await clock.sleep(6)
        assert 20 < len(await cluster.pull("T")) < 30
        async with after_a_kill(cluster, "again", damaged) as again:
            await clock.sleep(15)
            assert await counts(again) == {b"%d" % number: 1 for number in range(60)}
            await again.restart()
            await clock.sleep(5)
            assert await counts(again) == {b"%d" % number: 1 for number in range(60)}

    files = None
    gantrymq_simulation(main, settings={**SETTINGS, **TIMER_SETTINGS})
