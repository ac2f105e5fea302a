"""CPU time per message of hot `get`s of `storage_mmap`, 32 messages each, with blocks of the log in memory and without.

    python benchmarks/bench_store_get.py [--records N] [--rounds N]

One queue is read alone, then 8 and 64 queues in turn, as consumers do that catch up together. "Without" is
``logBlockCacheBytes=0``: every record among those of other queues costs a system call. Both stores hold the same
messages and are read in turn in each round, each from start to end; figures are medians of CPU time, which depends less
on other load of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from arguments import whole
from bench_store import read_in_turn
from filled_store import batches, new_store, put

from gantrymq.world.real import real_world

BODIES = (256, 4096)
QUEUES = (1, 8, 64)
CACHES = (18 * 1024**2, 0)  # the default, and none


async def measure(root: Path, records: int, body: int, queues: int, rounds: int) -> list[float]:
    """Return the CPU time per message, us, for each of `CACHES`."""
    taken: list[list[float]] = [[] for _ in CACHES]
    async with AsyncExitStack() as stack:
        stores = []
        for cache in CACHES:
            world = real_world()
            stack.push_async_callback(world.workers.close)
            store = new_store(world, root / f"{body}-{queues}-{cache}", logBlockCacheBytes=cache)
            await store.start()
            stack.push_async_callback(store.stop)
            for batch in batches(records, body_bytes=body, batch=1000, queues=queues):
                await put(store, batch)
            stores.append(store)
        for number in range(rounds):
            for index in range(len(stores)) if number % 2 else reversed(range(len(stores))):
                began = time.process_time()
                read = await read_in_turn(stores[index], list(stores[index].queues()))
                taken[index].append((time.process_time() - began) / read * 1e6)
    return [statistics.median(each) for each in taken]


def main() -> None:
    """Measure each size and number of queues; print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=whole(1), default=40_000)
    parser.add_argument("--rounds", type=whole(1), default=5)
    options = parser.parse_args()
    print("body  queues  us a message: with blocks, without")
    for body in BODIES:
        for queues in QUEUES:
            with tempfile.TemporaryDirectory() as root:
                blocks, alone = asyncio.run(measure(Path(root), options.records, body, queues, options.rounds))
            print(f"{body:4} {queues:7} {blocks:10.2f} {alone:10.2f}", flush=True)


if __name__ == "__main__":
    main()
