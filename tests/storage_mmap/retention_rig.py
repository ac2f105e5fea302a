"""A store of small files on a virtual clock and a disk with a size, for the tests of retention."""

from pathlib import Path

import attrs

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import StoreContext
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_testing.simulated import simulate
from gantrymq_testing.store_contract_bench import StoreBench, message

KEYS = (*SCHEMA, Setting("maxMessageSize", "number", 4 * 1024**2, "declared by the broker"))
ROOT = Path("/store")
FILE = 8192
SELDOM = {"flushIntervalCommitLog": 60_000}  # virtual days pass sooner
HOUR = 3600.0
SECONDS_TO_FOUR = 5 * HOUR + 46 * 60 + 40  # from the simulation's start at 22:13:20 UTC
T0 = Queue("T", 0)
BIG = message(body=b"b" * 4000)  # two to a log file


def run(case, *, capacity=1 << 40, files=lambda files: files, reserve=lambda topic: -1, **settings):
    """Run ``case(bench)`` with an open store of small files in ``bench.world``; log sentences are in ``bench.said``."""

    async def main(world):
        said = []
        world = attrs.evolve(world, files=files(world.files))
        sizes = {"mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 400, **SELDOM, **settings}
        context = StoreContext(world, ROOT, Settings(KEYS, sizes), said.append, reserve_ms=reserve)
        bench = StoreBench(lambda: MmapStore(context), world.clock)
        bench.world, bench.said, bench.settings = world, said, context.settings
        await bench.store.start()
        try:
            return await case(bench)
        finally:
            await bench.store.stop()
            await world.workers.close()

    return simulate(1, main, capacity=capacity)


def logs(bench):
    """Numbers of the log files on the disk."""
    return [int(name) // FILE for name in bench.world.files.list(ROOT / "commitlog")]


async def fill(bench, count, *, queue_id=0):
    """Add messages of half a log file each."""
    return [(await bench.add(message("T", queue_id, BIG.body)))[0] for _ in range(count)]
