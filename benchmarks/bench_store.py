"""Records per second that `storage_mmap` appends and publishes, without the sync, and ``pwrite`` of the same bytes.

    python benchmarks/bench_store.py [--records N] [--body BYTES] [--batch N] [--queues N] [--store DIR] [--profile]

Messages are created beforehand. The measurement covers `put` and `publish` of batches, as the broker's event loop calls
them with asynchronous flush; meanwhile the store's own threads preallocate log files. After each round the same number
of bytes is written, batch by batch, with ``pwrite`` to a separate reserved file: the cost of the system alone. "CPU" is
user and system time of the whole process, threads included; it shows the capacity of one core even if the machine has
other load, and the goal is GOAL records for each second of it. Then the records are read back queue by queue with `get`
(hot, no filter; alone and, as consumers do that catch up together, in turn), and the whole log with `scan`.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import os
import pstats
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from inspect import isawaitable
from itertools import pairwise
from pathlib import Path

from arguments import existing_folder, whole
from filled_store import batches, new_store, put

from gantrymq import speedups
from gantrymq.interfaces import GetLimit, MessageStore
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world

GOAL = 150_000  # records for each second of CPU


def cost(work: Callable[[], object], records: int) -> tuple[float, float]:
    """Microseconds for each record of *work*: on the wall, and of this process's CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) / records * 1e6, (time.process_time() - cpu) / records * 1e6


async def read_in_turn(store: MessageStore, queues: Sequence[Queue]) -> int:
    """Read *queues* from start to end, 32 messages of each in turn; return the number of messages."""
    read, places = 0, {queue: store.bounds(queue).min_offset for queue in queues}
    while places:
        for queue, offset in list(places.items()):
            result = store.get(queue, offset, GetLimit(32), None)
            if isawaitable(result):
                result = await result
            read += result.count
            places[queue] = result.next_offset
            if result.next_offset >= result.max_offset:
                del places[queue]
    return read


def write_raw(root: Path, sizes: list[int]) -> None:
    """Write the same number of bytes sequentially, in the sizes of the store's batches."""
    descriptor = os.open(root / "raw", os.O_RDWR)
    data = memoryview(bytes(max(sizes)))
    position = 0
    for size in sizes:
        position += os.pwrite(descriptor, data[:size], position)
    os.close(descriptor)


def reserve(path: Path, length: int) -> None:
    """Create a file with all its blocks, like log files."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.posix_fallocate(descriptor, 0, length)
    os.close(descriptor)


async def run(options: argparse.Namespace, root: Path) -> bool:
    """Open a store in *root*, fill it, read it back, print the figures; return whether the goal is met."""
    world = real_world()
    store = new_store(world, root)
    await store.start()
    made = list(batches(options.records, body_bytes=options.body, batch=options.batch, queues=options.queues))
    gc.freeze()  # the load makes the messages: their construction is not charged to the store
    profile = cProfile.Profile() if options.profile else None
    ours: list[tuple[float, float]] = []
    raw: list[tuple[float, float]] = []
    share = -(-len(made) // options.rounds)
    for start in range(0, len(made), share):
        part = made[start : start + share]
        records = sum(map(len, part))
        ends = [store.state().max_log_offset]
        wall, cpu = time.perf_counter(), time.process_time()
        if profile is not None:
            profile.enable()
        for batch in part:
            await put(store, batch)
            ends.append(store.state().max_log_offset)
        if profile is not None:
            profile.disable()
        found = time.perf_counter() - wall, time.process_time() - cpu
        ours.append((found[0] / records * 1e6, found[1] / records * 1e6))
        sizes = [after - before for before, after in pairwise(ends)]
        reserve(root / "raw", sum(sizes))
        raw.append(cost(lambda sizes=sizes: write_raw(root, sizes), records))
        (root / "raw").unlink()
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
    print(f"load of this machine {os.getloadavg()[0]:.1f} over the last minute; medians of {len(ours)} rounds")
    print(speedups.description)
    for name, rounds in (("append and publish", ours), ("pwrite of the same", raw)):
        wall_us, cpu_us = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name}  {1e6 / wall_us:10,.0f} records/s  {wall_us:6.2f} us each on the wall, {cpu_us:.2f} us of CPU")
    cpu_us = statistics.median(cpu for _, cpu in ours)
    good = 1e6 / cpu_us >= GOAL
    print(f"records for a second of CPU {1e6 / cpu_us:10,.0f}, {'good' if good else 'BELOW THE GOAL'} (goal {GOAL:,})")

    for name, groups in (("", [[each] for each in store.queues()]), (", in turn", [list(store.queues())])):
        began = time.perf_counter()
        read = sum([await read_in_turn(store, queues) for queues in groups])
        took = time.perf_counter() - began
        print(f"get{name:16} {read / took:10,.0f} records/s  {took / read * 1e6:6.2f} us each")

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
    return good


def main() -> int:
    """Parse the command line and run in a temporary folder; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=whole(1), default=500_000)
    parser.add_argument("--body", type=whole(1), default=1024)
    parser.add_argument("--batch", type=whole(1), default=64)
    parser.add_argument("--queues", type=whole(1), default=8)
    parser.add_argument("--rounds", type=whole(1), default=5, help="the records are shared out among them")
    parser.add_argument("--store", type=existing_folder)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="gantrymq-bench-", dir=options.store))
    try:
        return 0 if asyncio.run(run(options, root)) else 1
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
