"""What a message costs against the size of the log, from 1 MB to 10 GB: CPU, memory and disk in one table.

    python benchmarks/bench_flat_log.py [--largest-mb N] [--body BYTES] [--store DIR]

One store with the default settings grows through the points of the table, closed and opened at each; the log is not
flushed in between, the system writes it out as it likes. At each point:

    CPU us       user and system time of the process for each of the 16 MB of messages that led up to the point: append
                 and publish in batches of 64, until the last is found by its key; a smaller point is reached several
                 times, in stores of its own
    get us       the same for each message of pulls of 32 at the end of the log
    cold us      the same for pulls of 8 at the beginning of the log, read in a thread
    private MB   resident memory without pages of files
    log files, queues, index MB   blocks on the disk; a log file is reserved in full, and the next one once half of it
                 is used
    start ms     to open it, cleanly closed

Each is the median of PARTS measurements, as this is seldom the only program on a machine. Flat means: the dearest
point costs at most BAND times the cheapest in each of the first three columns; from 100 MB of log on, when the index
has its slots in memory (20 MB), no more than MEMORY_MB of private memory are added; disk is used only for the log's
bytes, two reserved files, and the queues. The first point is preceded by a store that is thrown away, so that it does
not pay for warming up the program, and every store by one message, which makes the first log file.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
from inspect import isawaitable
from pathlib import Path
from typing import NamedTuple

from arguments import existing_folder, whole
from filled_store import TOPIC, batches, new_store, put, unique_key

from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.interfaces import GetLimit, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq.world import World
from gantrymq.world.real import real_world
from gantrymq_storage_mmap.store import MmapStore

BAND = 1.5
MEMORY_MB = 32
POINTS_MB = (1, 10, 100, 1_000, 10_000)
SAMPLE_BYTES = 16_000_000
INDEXED_S = 300.0
PARTS = 5
GETS = 300
LOG_FILE_BYTES = 1024**3
QUEUES = 8
BATCH = 64
SPARE = 1.3  # room that is asked for, times the log


class Point(NamedTuple):
    """One row of the table."""

    mb: int
    put_us: float
    get_us: float
    cold_us: float
    private_mb: float
    log_mb: float
    queues_mb: float
    index_mb: float
    entries_mb: float  # what the queues hold
    start_ms: float


class Growing:
    """A store that grows from point to point."""

    def __init__(self, world: World, root: Path, body: int) -> None:
        self.root = root
        self._world = world
        self._body = body
        self._number = self._newest = 0  # of the next message, of the newest one
        self._store = self._new()

    def _new(self) -> MmapStore:
        return new_store(self._world, self.root, hotReadWindow=256 * 1024**2)

    async def start(self) -> None:
        """Open the store and put one message."""
        await self._store.start()
        await self._append(self._made(1), 1)

    async def stop(self) -> None:
        """Close it in good order."""
        await self._store.stop()

    async def grow(self, size: int) -> list[float]:
        """Append until the log has *size* bytes; CPU microseconds for each message of parts of the last ones."""
        while (missing := size - SAMPLE_BYTES - self._end) > 0:
            await self._append(self._made(min(missing, SAMPLE_BYTES)), size - SAMPLE_BYTES)
        made = self._made(size - self._end)
        gc.collect()
        gc.freeze()  # the messages are the load's: the store is not charged with walking them
        costs = []
        share = -(-len(made) // min(PARTS, len(made)))
        for start in range(0, len(made), share):
            cpu = time.process_time()
            count = await self._append(made[start : start + share], size)
            if count:
                costs.append((time.process_time() - cpu) / count * 1e6)
        gc.unfreeze()
        return costs

    @property
    def _end(self) -> int:
        return self._store.state().max_log_offset

    def _made(self, size: int) -> list[list[StoreMessage]]:
        """Batches of messages that are *size* bytes together, or some more."""
        records = size // self._body + 1
        self._number += records
        first = self._number - records
        return list(batches(records, body_bytes=self._body, batch=BATCH, queues=QUEUES, first=first))

    async def _append(self, made: list[list[StoreMessage]], size: int) -> int:
        """Append of *made* until the log has *size* bytes or a few more; returns how many messages that were."""
        count = 0
        for batch in made:
            if self._end >= size:
                break
            await put(self._store, batch)
            count += len(batch)
            self._newest = batch[-1].born_timestamp  # its number
        await self._indexed()
        return count

    async def _indexed(self) -> None:
        """Wait until the newest message is found by its key: what the index costs belongs to the messages that made it.

        Raises:
            SystemExit: that took too long.
        """
        until = time.perf_counter() + INDEXED_S
        key = unique_key(self._newest).decode()
        while True:
            found = self._store.query(TOPIC, key, 0, 1 << 62, 1)
            if (await found if isawaitable(found) else found).records:
                return
            if time.perf_counter() > until:
                raise SystemExit(f"the newest message is not in the index after {INDEXED_S:g} s")
            await asyncio.sleep(0.02)

    async def get(self, *, at_end: bool) -> float:
        """CPU microseconds for each message of many pulls, at the end of the log or at its beginning."""
        queue = Queue(TOPIC, 0)
        end = self._store.bounds(queue).max_offset
        most = 32 if at_end else 8
        first = max(end - most, 0) if at_end else 0
        costs = []
        for part in range(PARTS):
            cpu, got = time.process_time(), 0
            for number in range(part * GETS, (part + 1) * GETS):
                offset = first if at_end else (number * most) % max(end - most, 1)
                result = self._store.get(queue, offset, GetLimit(most), None)
                if isawaitable(result):
                    result = await result
                got += result.count
            costs.append((time.process_time() - cpu) / got * 1e6)
        return statistics.median(costs)

    @property
    def entries_mb(self) -> float:
        """What the entries of its queues take."""
        return sum(self._store.bounds(queue).max_offset for queue in self._store.queues()) * ENTRY_BYTES / 1e6

    async def restart(self) -> float:
        """Close and open the store; milliseconds of the opening."""
        await self.stop()
        self._store = self._new()
        began = time.perf_counter()
        await self._store.start()
        return (time.perf_counter() - began) * 1e3


def private_mb() -> float:
    """Resident memory of this process without pages of files."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")) / 1e6


def blocks_mb(folder: Path) -> float:
    """What the files below *folder* take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) / 1e6


async def several_times(world: World, folder: Path, size: int, body: int) -> list[float]:
    """Reach a small *size* in new stores, as often as it takes to make a sample; as `Growing.grow`."""
    costs: list[float] = []
    for _ in range(SAMPLE_BYTES // size):
        small = Growing(world, folder / "small", body)
        await small.start()
        costs += await small.grow(size)
        await small.stop()
        shutil.rmtree(small.root)
    return costs


async def measure(options: argparse.Namespace, points: list[int]) -> list[Point]:
    """Grow a store through *points* and print a row for each."""
    world, rows = real_world(), []
    with tempfile.TemporaryDirectory(prefix="gantrymq-flat-", dir=options.store) as folder:
        first = Growing(world, Path(folder) / "warm-up", options.body)
        await first.start()
        await first.grow(2 * SAMPLE_BYTES)
        await first.get(at_end=True)
        await first.restart()
        await first.get(at_end=False)
        await first.stop()
        shutil.rmtree(first.root)
        print(
            f"{'log MB':>8} {'CPU us':>8} {'get us':>8} {'cold us':>8} {'private MB':>11} {'log files MB':>13} "
            f"{'queues MB':>10} {'index MB':>9} {'start ms':>9}"
        )
        store = Growing(world, Path(folder) / "store", options.body)
        await store.start()
        for mb in points:
            costs = await store.grow(mb * 1_000_000)
            if mb * 1_000_000 < SAMPLE_BYTES:
                costs = await several_times(world, Path(folder), mb * 1_000_000, options.body)
            put_us = statistics.median(costs)
            get_us = await store.get(at_end=True)
            memory = private_mb()
            start_ms = await store.restart()
            cold_us = await store.get(at_end=False)
            log_mb, queues_mb, index_mb = (
                blocks_mb(store.root / name) for name in ("commitlog", "consumequeue", "index")
            )
            disk = log_mb, queues_mb, index_mb, store.entries_mb
            rows.append(Point(mb, put_us, get_us, cold_us, memory, *disk, start_ms))
            print(
                f"{mb:8,} {put_us:8.2f} {get_us:8.2f} {cold_us:8.2f} {memory:11.1f} {log_mb:13,.0f} "
                f"{queues_mb:10.1f} {index_mb:9.1f} {start_ms:9.1f}",
                flush=True,
            )
        await store.stop()
    await world.workers.close()
    return rows


def judge(rows: list[Point]) -> bool:
    """Print what is flat and what is not."""
    flat = True
    for name, values in (
        ("append and publish", [row.put_us for row in rows]),
        ("get at the end", [row.get_us for row in rows]),
        ("get at the beginning", [row.cold_us for row in rows]),
    ):
        ratio = max(values) / min(values)
        flat = flat and ratio <= BAND
        print(f"{name}: dearest over cheapest {ratio:.2f}, {'flat' if ratio <= BAND else 'NOT FLAT'} (band {BAND:g})")
    held = [row.private_mb for row in rows if row.mb >= 100] or [0.0]
    added = max(held) - held[0]
    print(f"private memory added: {added:.1f} MB, {'flat' if added <= MEMORY_MB else 'NOT FLAT'} (most {MEMORY_MB} MB)")
    reserved = 2 * LOG_FILE_BYTES / 1e6
    wasted = max(row.log_mb - row.mb for row in rows)
    entries = max(row.queues_mb / row.entries_mb for row in rows if row.mb >= 10) if rows[-1].mb >= 10 else 1.0
    lean = wasted <= reserved * 1.05 and entries <= 1.5
    print(
        f"disk: at most {wasted:,.0f} MB of reserved log beyond the messages (two files are {reserved:,.0f}); queues "
        f"take {entries:.2f} times their entries, {'good' if lean else 'TOO MUCH'}"
    )
    return flat and added <= MEMORY_MB and lean


def main() -> int:
    """Find out what the disk allows, measure, print; 0 when all is flat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest-mb", type=whole(1), default=POINTS_MB[-1], help="of the log")
    parser.add_argument("--body", type=whole(1), default=1024, help="bytes of a message's body")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the store is made")
    options = parser.parse_args()
    free_mb = shutil.disk_usage(options.store or tempfile.gettempdir()).free / 1e6
    most = min(options.largest_mb, (free_mb - 2 * LOG_FILE_BYTES / 1e6) / SPARE)
    points = [mb for mb in POINTS_MB if mb <= most]
    if not points:
        raise SystemExit(f"{free_mb:,.0f} MB are free, 3,000 are needed; choose another disk with --store")
    if most < options.largest_mb:
        print(f"{free_mb:,.0f} MB are free, so the log grows to {points[-1]:,} MB only; --store chooses another disk")
    rows = asyncio.run(measure(options, points))
    print(f"load of this machine {os.getloadavg()[0]:.1f} over the last minute, {os.cpu_count()} cores")
    return 0 if judge(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
