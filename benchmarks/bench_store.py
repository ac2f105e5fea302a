"""Records a second that `storage_mmap` appends and publishes, everything but the sync.

    python benchmarks/bench_store.py [--records N] [--body BYTES] [--batch N] [--queues N] [--store DIR] [--profile]

Messages are made beforehand. The clock runs over `put` and `publish` of batches, as the broker's event loop calls them
with asynchronous flush; log files are preallocated by the store's own threads meanwhile. Then the same records are read
back queue by queue with `get` (hot, no filter), and the whole log with `scan`.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import shutil
import tempfile
import time
from inspect import isawaitable
from pathlib import Path

from arguments import existing_folder, whole
from filled_store import batches, new_store, put

from gantrymq.interfaces import GetLimit
from gantrymq.world.real import real_world


async def run(options: argparse.Namespace, root: Path) -> None:
    """Open a store in *root*, fill it, read it back, print the figures."""
    world = real_world()
    store = new_store(world, root)
    await store.start()
    made = list(batches(options.records, body_bytes=options.body, batch=options.batch, queues=options.queues))
    profile = cProfile.Profile() if options.profile else None
    if profile is not None:
        profile.enable()
    began = time.perf_counter()
    for batch in made:
        await put(store, batch)
    took = time.perf_counter() - began
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
    print(f"append and publish  {options.records / took:10,.0f} records/s  {took / options.records * 1e6:6.2f} us each")

    began = time.perf_counter()
    read = 0
    for queue in store.queues():
        offset, end = store.bounds(queue)
        while offset < end:
            result = store.get(queue, offset, GetLimit(32), None)
            if isawaitable(result):
                result = await result
            offset = result.next_offset
            read += result.count
    took = time.perf_counter() - began
    print(f"get, 32 at a time   {read / took:10,.0f} records/s  {took / read * 1e6:6.2f} us each")

    began = time.perf_counter()
    scanned = sum(1 for _ in store.scan(0, 1 << 62))
    took = time.perf_counter() - began
    print(f"scan                {scanned / took:10,.0f} records/s  {took / scanned * 1e6:6.2f} us each")
    await store.stop()
    began = time.perf_counter()
    again = new_store(world, root)
    report = await again.start()
    print(
        f"start, clean        {(time.perf_counter() - began) * 1e3:10,.1f} ms  {report.records_checked} records checked"
    )
    await again.stop()
    (root / "abort").touch()
    began = time.perf_counter()
    report = await again.start()
    took = time.perf_counter() - began
    print(f"start, after a kill {took * 1e3:10,.1f} ms  {report.records_checked} records checked")
    await again.stop()
    await world.workers.close()


def main() -> None:
    """Parse the command line and run in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=whole(1), default=500_000)
    parser.add_argument("--body", type=whole(1), default=1024)
    parser.add_argument("--batch", type=whole(1), default=64)
    parser.add_argument("--queues", type=whole(1), default=8)
    parser.add_argument("--store", type=existing_folder)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="gantrymq-bench-", dir=options.store))
    try:
        asyncio.run(run(options, root))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
