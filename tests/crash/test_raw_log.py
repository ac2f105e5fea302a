"""Power cuts at any call of the disk while a log is copied or truncated: the copy goes on, a cut is whole or not."""

import asyncio
from pathlib import Path

import attrs
import pytest

from gantrymq.config import Setting, Settings
from gantrymq.errors import StoreError
from gantrymq.interfaces import StoreContext
from gantrymq_storage_faults import FaultPlan, FaultyFiles, FaultyRawLog
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_testing.raw_log_contract import LogBench, raw_log, read_log, show
from gantrymq_testing.simulated import SimulatedProcess, simulate
from gantrymq_testing.store_contract_bench import StandingClock, StoreBench, keyed

KEYS = (*SCHEMA, Setting("maxMessageSize", "number", 4 * 1024**2, "declared by the broker"))
SIZES = {
    "mappedFileSizeCommitLog": 4096,
    "mappedFileSizeConsumeQueue": 100,
    "maxHashSlotNum": 50,
    "maxIndexNum": 20,
}


def bench_of(world, clock, root):
    return StoreBench(
        lambda: MmapStore(StoreContext(attrs.evolve(world, clock=clock), Path(root), Settings(KEYS, SIZES))), clock
    )


async def work(bench):
    """Copy 20 messages, add own ones, remove these, and go on. `bench.ends`: where the log may end meanwhile."""
    bench.put(12)
    await show(bench.original)
    await bench.follow()
    bench.put(8)
    await show(bench.original)
    await bench.follow()
    end = bench.at_least = raw_log(bench.copy).log_range().max_offset
    results = await bench.copy.add(*[keyed(b"other %d" % n, "red", topic="AB"[n % 2]) for n in range(40)])
    bench.ends = (end, results[-1].end)
    await raw_log(bench.copy).truncate(end)
    bench.ends = ()
    bench.is_cut = True
    await bench.write((9, 5))


async def common_end(bench):
    """The end of the last record up to which both logs are equal: recovery replaces lost bytes with fillers."""
    end = raw_log(bench.copy).log_range().max_offset
    mine, other, place = *[await whole(each) for each in (bench.copy, bench.original)], 0
    for entry in bench.copy.store.scan(0, end):
        after = entry.log_offset + entry.size
        if mine[place:after] != other[place:after]:
            return place
        place = after
    return end if mine[place:] == other[place:end] else place


async def whole(bench):
    """The bytes of a log."""
    data, log = b"", raw_log(bench)
    while len(data) < log.log_range().max_offset:
        data += await read_log(log, len(data), 1 << 20)
    return data


def cut_power(seed, crash_at):
    """Run `work` up to a call of the copy's disk, cut the power, and check the copy; False if there is no such call."""

    async def main(world):
        clock = StandingClock(world.clock)
        original = bench_of(world, clock, "/original")
        await original.store.start()
        files = FaultyFiles(world.files, FaultPlan(seed=seed, crash_at=crash_at, names_in_order=bool(seed % 2)))
        process = SimulatedProcess(attrs.evolve(world, files=files), asyncio.get_running_loop(), "10.0.0.1", 1)
        bench = LogBench(original, bench_of(process.world, StandingClock(process.world.clock), "/copy"))
        bench.at_least, bench.is_cut = 0, False

        async def run():
            await bench.copy.store.start()
            await work(bench)

        task = process.run(run())
        await asyncio.wait([task])
        crashed = files.crashed
        files.crash()
        process.kill()
        files.power_cut()
        bench.copy = bench_of(world, clock, "/copy")
        await bench.copy.store.start()
        end, same = raw_log(bench.copy).log_range().max_offset, raw_log(original).log_range().max_offset
        assert end >= bench.at_least
        assert not bench.ends or end in bench.ends, "a part of the log was cut"
        assert not bench.is_cut or end <= same, "what was removed is back"
        await raw_log(bench.copy).truncate(await common_end(bench))
        await bench.follow()
        await bench.compare()
        await bench.write((7,))
        await bench.copy.restart()
        await bench.compare()
        await bench.copy.store.stop()
        await original.store.stop()
        return crashed

    return simulate(seed, main)


@pytest.mark.parametrize("seed", range(8))
def test_a_copy_goes_on_after_calls_that_fail(seed):
    async def main(world):
        clock = StandingClock(world.clock)
        bench = LogBench(bench_of(world, clock, "/original"), bench_of(world, clock, "/copy"))
        for each in (bench.original, bench.copy):
            await each.store.start()
        logs = [FaultyRawLog(each.store.raw_log, seed + n) for n, each in enumerate((bench.original, bench.copy))]
        for number in range(12):
            bench.put(6)
            await show(bench.original)
            logs[number % 2].fail(("read_log", "append_raw", "log_range")[number % 3], times=1 + number % 2)
            data, source, target = b"", *logs
            while True:
                try:
                    end = target.log_range().max_offset
                    if end + len(data) >= source.log_range().max_offset:
                        break
                    data += await read_log(source, end + len(data), 900)
                    data = data[target.append_raw(end, data) - end :]
                except StoreError:
                    data = b""
            await show(bench.copy)
            await bench.compare()
        assert logs[1].calls["append_raw"] > 12
        for each in (bench.original, bench.copy):
            await each.store.stop()

    simulate(seed, main)


@pytest.mark.parametrize("part", range(4))
def test_a_copy_survives_power_cuts(part):
    for crash_at in range(1 + 13 * part, 2000, 53):
        if not cut_power(crash_at, crash_at):
            break
    assert crash_at > 250


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_copy_survives_a_power_cut_at_every_call(seed):
    crash_at = 1
    while cut_power(seed, crash_at):
        crash_at += 1
    assert crash_at > 250
