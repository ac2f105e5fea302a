"""Calls that fail, a disk that runs full, bits that flip, calls that dawdle."""

import asyncio
import errno
from pathlib import Path

import attrs
import pytest

from gantrymq_storage_faults import (
    PAGE_BYTES,
    Failure,
    FaultPlan,
    FaultyFiles,
    LateWorkers,
    Slowness,
    flip_bit,
)
from gantrymq_testing.simulated import SimulatedFiles, simulate


def test_the_nth_matching_call_fails_and_does_nothing(disk):
    inner, folder = disk
    plan = FaultPlan(failures=(Failure(errno.EIO, {"pwrite"}, where="log", at=2),))
    files = FaultyFiles(inner, plan)
    log, other = files.open(folder / "log", create=True), files.open(folder / "other", create=True)
    log.pwrite(b"one", 0)
    other.pwrite(b"two", 0)
    with pytest.raises(OSError, match="log") as failed:
        log.pwrite(b"three", 0)
    assert failed.value.errno == errno.EIO
    assert inner.read(folder / "log") == b"one"
    log.pwrite(b"four", 0)
    assert "EIO" in files.trace()


def test_a_share_of_calls_fails_for_some_time(disk):
    inner, folder = disk
    files = FaultyFiles(inner, FaultPlan(seed=5, failures=(Failure(errno.EIO, {"datasync"}, share=0.5, times=3),)))
    file = files.open(folder / "f", create=True)
    outcomes = []
    for _ in range(40):
        try:
            file.datasync()
            outcomes.append(True)
        except OSError:
            outcomes.append(False)
    assert outcomes.count(False) == 3
    assert outcomes.index(False) < 10
    assert all(outcomes[-10:])


def test_a_failed_sync_makes_nothing_durable(disk):
    inner, folder = disk
    files = FaultyFiles(inner, FaultPlan(lose=1.0, write_back=0.0, failures=(Failure(errno.EIO, {"datasync"}),)))
    inner.replace(folder / "f", b"old")
    file = files.open(folder / "f")
    file.pwrite(b"new", 0)
    with pytest.raises(OSError, match="f"):
        file.datasync()
    files.power_cut()
    assert inner.read(folder / "f") == b"old"


def test_the_disk_runs_full_and_room_comes_back(disk):
    inner, folder = disk
    files = FaultyFiles(inner, FaultPlan(room_bytes=4 * PAGE_BYTES))
    first, second = files.open(folder / "1", create=True), files.open(folder / "2", create=True)
    first.allocate(3 * PAGE_BYTES)
    first.pwrite(b"x" * PAGE_BYTES, PAGE_BYTES)  # reserved: uses no more space
    with pytest.raises(OSError, match="2") as failed:
        second.pwrite(b"x" * 2 * PAGE_BYTES, 0)
    assert failed.value.errno == errno.ENOSPC
    assert (second.size(), files.room_bytes, files.disk_use(folder).usable) == (0, PAGE_BYTES, PAGE_BYTES)
    used, under = files.disk_use(folder), inner.disk_use(folder)
    assert abs((used.total - used.free) - (under.total - under.free)) < 1 << 30  # the same except for writes of others
    with pytest.raises(OSError, match="f") as failed:
        files.replace(folder / "f", b"x" * 2 * PAGE_BYTES)
    assert failed.value.errno == errno.ENOSPC
    files.remove(folder / "1")
    second.pwrite(b"x" * 2 * PAGE_BYTES, 0)
    assert files.room_bytes == 2 * PAGE_BYTES
    second.truncate(10)
    assert files.room_bytes == 3 * PAGE_BYTES


def test_room_can_be_taken_and_given_from_outside(disk):
    inner, folder = disk
    files = FaultyFiles(inner)
    file = files.open(folder / "f", create=True)
    files.room_bytes = 0
    with pytest.raises(OSError, match="f"):
        file.allocate(1)
    files.room_bytes = PAGE_BYTES
    file.allocate(1)


def test_a_read_may_be_wrong_by_one_bit(disk):
    inner, folder = disk
    inner.replace(folder / "f", bytes(100))
    files = FaultyFiles(inner, FaultPlan(seed=1, flip_share=1.0))
    for data in (files.read(folder / "f"), files.open(folder / "f").pread(100, 0)):
        assert sum(byte.bit_count() for byte in data) == 1
    assert inner.read(folder / "f") == bytes(100)
    assert files.open(folder / "f").pread_cached(100, 0) in (None, bytes(100))  # in memory: no disk to be wrong
    assert "is wrong" in files.trace()


def test_a_bit_flips_at_rest(disk):
    inner, folder = disk
    inner.replace(folder / "f", b"\0\0\0")
    flip_bit(inner, folder / "f", 1, 7)
    assert inner.read(folder / "f") == b"\0\x80\0"
    flip_bit(inner, folder / "f", 1, 7)
    assert inner.read(folder / "f") == bytes(3)


def test_a_slow_call_off_the_loop_makes_its_completion_late():
    async def main(world):
        files = FaultyFiles(world.files, FaultPlan(slowness=(Slowness((2.0, 3.0), {"datasync"}),)))
        world = attrs.evolve(world, files=files, workers=LateWorkers(world.workers, world.clock, files))
        file = world.files.open(Path("/f"), create=True)
        began = world.clock.monotonic()
        await world.workers.run(file.pwrite, b"quick", 0)
        quick = world.clock.monotonic() - began
        await world.workers.run(file.datasync)
        slow = world.clock.monotonic() - began - quick
        late = []
        world.workers.submit(file.datasync, done=lambda result, error: late.append((result, error)))
        await world.workers.close()
        return quick, slow, late

    quick, slow, late = simulate(1, main)
    assert quick < 0.1
    assert 2 <= slow <= 3.1
    assert late == [(None, None)]


def test_a_slow_call_on_the_loop_stalls_it():
    async def main(world):
        loop = asyncio.get_running_loop()
        plan = FaultPlan(slowness=(Slowness((0.5, 0.5), {"pwrite"}),))
        file = FaultyFiles(world.files, plan, stall=loop.jump).open(Path("/f"), create=True)
        began = world.clock.monotonic()
        file.pwrite(b"x", 0)
        return world.clock.monotonic() - began

    assert simulate(1, main) == 0.5


def test_a_failure_off_the_loop_is_handed_on():
    async def main(world):
        files = FaultyFiles(world.files, FaultPlan(failures=(Failure(errno.EIO, {"datasync"}),)))
        workers = LateWorkers(world.workers, world.clock, files)
        with pytest.raises(OSError, match="f"):
            await workers.run(files.open(Path("/f"), create=True).datasync)

    simulate(1, main)


def test_the_trace_keeps_the_newest_calls():
    files = FaultyFiles(SimulatedFiles(lambda: 0), FaultPlan(seed=9))
    file = files.open(Path("/f"), create=True)
    for number in range(1000):
        file.pwrite(b"xy", number)
    lines = files.trace(2).splitlines()
    assert lines == [
        "seed 9, 1001 calls, the last 2:",
        "   1000 pwrite /f [998, 1000)",
        "   1001 pwrite /f [999, 1001)",
    ]


def test_failures_may_be_added_while_the_world_runs(disk):
    inner, folder = disk
    files = FaultyFiles(inner, FaultPlan(write_back=0.0))
    file = files.open(folder / "f", create=True)
    file.datasync()
    files.fail(Failure(errno.EIO, {"datasync"}, times=1))
    with pytest.raises(OSError, match="f"):
        file.datasync()
    file.datasync()
    assert files.failed == {"datasync": 1}
