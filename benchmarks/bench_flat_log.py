"""The cost of a message against the size of the log, from 1 MB to 10 GB: CPU, memory and disk in one table.

    python benchmarks/bench_flat_log.py [--largest-mb N] [--body BYTES] [--store DIR]

One store with the default settings grows through the points of the table, closed and reopened at each; the log is not
flushed in between, the operating system writes it when it likes. At each point:

    CPU us       user and system time of the process per message, for the 16 MB of messages before the point: append
                 and publish in batches of 64, until the last is found by its key; a smaller point is reached several
                 times, in separate stores
    write us     the cost of only writing as many bytes into a file, batch by batch, in between
    get us       CPU for each message of pulls of 32 at the end of the log
    cold us      the same for pulls of 8 at the beginning of the log, after a restart
    read us      the cost of only reading the part of the log that holds them
    private MB   resident memory without pages of files
    log files, queues, index MB   blocks on the disk; a log file is reserved in full, and the next one once half of it
                 is used
    start ms     time to open it after a clean close

Each is the median of PARTS measurements, because the machine usually has other load. Flat means that the most expensive
point costs at most BAND times the cheapest in "get us", and in "CPU us" and "cold us" after "write us" and "read us"
are subtracted. The system's cost per byte does grow: a page that was never used has to be found and cleared (by a
virtual machine's host too), and bytes that no longer fit the processor's cache come from memory. From 100 MB of log on,
when the index has its slots in memory (20 MB), at most MEMORY_MB of private memory are added; disk is used only
for the log's bytes, two reserved files, and the queues. A discarded store precedes the first point, so that the point
does not include the warm-up of the program; one message precedes every store, which creates the first log file.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
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
from load_client import memory_bytes

from gantrymq.interfaces import GetLimit, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq.world import World
from gantrymq.world.real import real_world
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_store_files.queue_entry import ENTRY_BYTES

BAND = 1.5
MEMORY_MB = 32
POINTS_MB = (1, 10, 100, 1_000, 10_000)
SAMPLE_BYTES = 16_000_000
INDEXED_S = 300.0
PARTS = 5
GETS = 300
AT_END, AT_BEGINNING = 32, 8  # messages of a pull
LOG_FILE_BYTES = 1024**3
QUEUES = 8
BATCH = 64
M_MMAP_THRESHOLD = -3  # of malloc.h
SPARE = 1.3  # required free space, as a factor of the log


class Point(NamedTuple):
    """One row of the table."""

    mb: int
    put_us: float
    write_us: float
    get_us: float
    cold_us: float
    read_us: float
    private_mb: float
    log_mb: float
    queues_mb: float
    index_mb: float
    entries_mb: float  # size of the queues
    start_ms: float


class Growing:
    """A store that grows from point to point."""

    def __init__(self, world: World, root: Path, body: int, scratch: int) -> None:
        """*scratch*: descriptor of a file to which bytes may be appended."""
        self.root = root
        self._world = world
        self._body = body
        self._scratch = scratch
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

    async def grow(self, size: int) -> list[tuple[float, float]]:
        """Append until the log has *size* bytes; return CPU microseconds per message for parts of the last ones, and
        for only writing their bytes.
        """
        while (missing := size - SAMPLE_BYTES - self._end) > 0:
            await self._append(self._made(min(missing, SAMPLE_BYTES)), size - SAMPLE_BYTES)
        made = self._made(size - self._end)
        gc.collect()
        gc.freeze()  # the load makes the messages: their construction is not charged to the store
        costs = []
        share = -(-len(made) // min(PARTS, len(made)))
        for start in range(0, len(made), share):
            before, cpu = self._end, time.process_time()
            count = await self._append(made[start : start + share], size)
            if count:
                put_us = (time.process_time() - cpu) / count * 1e6
                costs.append((put_us, self._write(count, (self._end - before) // count)))
        gc.unfreeze()
        return costs

    def _write(self, records: int, record_bytes: int) -> float:
        """CPU microseconds to write each of *count* records."""
        batch = b"x" * (BATCH * record_bytes)
        cpu = time.process_time()
        writes = -(-records // BATCH)
        for _ in range(writes):
            os.write(self._scratch, batch)
        return (time.process_time() - cpu) / (writes * BATCH) * 1e6

    @property
    def _end(self) -> int:
        return self._store.state().max_log_offset

    def _made(self, size: int) -> list[list[StoreMessage]]:
        """Batches of messages with a total size of *size* bytes, or slightly more."""
        records = size // self._body + 1
        self._number += records
        first = self._number - records
        return list(batches(records, body_bytes=self._body, batch=BATCH, queues=QUEUES, first=first))

    async def _append(self, made: list[list[StoreMessage]], size: int) -> int:
        """Append from *made* until the log has *size* bytes or slightly more; return the number of messages."""
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
        """Wait until the newest message is found by its key: the index cost belongs to the messages that caused it.

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
        most = AT_END if at_end else AT_BEGINNING
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

    def read(self) -> float:
        """CPU microseconds per message to read the part of the log with the messages of `get` at the beginning."""
        end = self._store.bounds(Queue(TOPIC, 0)).max_offset
        record_bytes = self._end // sum(self._store.bounds(queue).max_offset for queue in self._store.queues())
        span = AT_BEGINNING * QUEUES * record_bytes
        files = [os.open(path, os.O_RDONLY) for path in sorted((self.root / "commitlog").iterdir())]
        costs = []
        for part in range(PARTS):
            cpu = time.process_time()
            for number in range(part * GETS, (part + 1) * GETS):
                start = (number * AT_BEGINNING) % max(end - AT_BEGINNING, 1) * QUEUES * record_bytes
                os.pread(files[start // LOG_FILE_BYTES], span, start % LOG_FILE_BYTES)
            costs.append((time.process_time() - cpu) / (GETS * AT_BEGINNING) * 1e6)
        for file in files:
            os.close(file)
        return statistics.median(costs)

    @property
    def entries_mb(self) -> float:
        """Size of the entries of its queues."""
        return sum(self._store.bounds(queue).max_offset for queue in self._store.queues()) * ENTRY_BYTES / 1e6

    async def restart(self) -> float:
        """Close and open the store; milliseconds of the opening."""
        await self.stop()
        self._store = self._new()
        began = time.perf_counter()
        await self._store.start()
        return (time.perf_counter() - began) * 1e3


def keep_no_holes() -> None:
    """Always map large blocks separately: glibc stops doing that once one was freed, and the slots of an index
    are freed at every restart; the holes left in its heap would be counted. A broker opens its store once.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, 1024**2)


def private_mb() -> float:
    """Resident memory of this process without pages of files."""
    gc.collect()
    return memory_bytes(os.getpid(), "RssAnon") / 1e6


def blocks_mb(folder: Path) -> float:
    """Disk usage of the files below *folder*."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) / 1e6


async def several_times(world: World, folder: Path, size: int, body: int, scratch: int) -> list[tuple[float, float]]:
    """Reach a small *size* in new stores, as often as a sample needs; like `Growing.grow`."""
    costs: list[tuple[float, float]] = []
    for _ in range(SAMPLE_BYTES // size):
        small = Growing(world, folder / "small", body, scratch)
        await small.start()
        costs += await small.grow(size)
        await small.stop()
        shutil.rmtree(small.root)
    return costs


async def measure(options: argparse.Namespace, points: list[int]) -> list[Point]:
    """Grow a store through *points* and print a row for each."""
    world, rows = real_world(), []
    with tempfile.TemporaryDirectory(prefix="gantrymq-flat-", dir=options.store) as folder:
        scratch = os.open(Path(folder) / "scratch", os.O_CREAT | os.O_WRONLY)
        first = Growing(world, Path(folder) / "warm-up", options.body, scratch)
        await first.start()
        await first.grow(2 * SAMPLE_BYTES)
        await first.get(at_end=True)
        await first.restart()
        await first.get(at_end=False)
        await first.stop()
        shutil.rmtree(first.root)
        print(
            f"{'log MB':>8} {'CPU us':>8} {'write us':>8} {'get us':>8} {'cold us':>8} {'read us':>8} "
            f"{'private MB':>11} {'log files MB':>13} {'queues MB':>10} {'index MB':>9} {'start ms':>9}"
        )
        store = Growing(world, Path(folder) / "store", options.body, scratch)
        await store.start()
        for mb in points:
            costs = await store.grow(mb * 1_000_000)
            if mb * 1_000_000 < SAMPLE_BYTES:
                costs = await several_times(world, Path(folder), mb * 1_000_000, options.body, scratch)
            put_us, write_us = (statistics.median(each) for each in zip(*costs, strict=True))
            get_us = await store.get(at_end=True)
            memory = private_mb()
            start_ms = await store.restart()
            cold_us = await store.get(at_end=False)
            read_us = store.read()
            log_mb, queues_mb, index_mb = (
                blocks_mb(store.root / name) for name in ("commitlog", "consumequeue", "index")
            )
            disk = log_mb, queues_mb, index_mb, store.entries_mb
            rows.append(Point(mb, put_us, write_us, get_us, cold_us, read_us, memory, *disk, start_ms))
            print(
                f"{mb:8,} {put_us:8.2f} {write_us:8.2f} {get_us:8.2f} {cold_us:8.2f} {read_us:8.2f} "
                f"{memory:11.1f} {log_mb:13,.0f} {queues_mb:10.1f} {index_mb:9.1f} {start_ms:9.1f}",
                flush=True,
            )
        await store.stop()
        os.close(scratch)
    await world.workers.close()
    return rows


def judge(rows: list[Point]) -> bool:
    """Print which columns are flat."""
    flat = True
    for name, values in (
        ("append and publish, but for writing", [row.put_us - row.write_us for row in rows]),
        ("get at the end", [row.get_us for row in rows]),
        ("get at the beginning, but for reading", [row.cold_us - row.read_us for row in rows]),
    ):
        ratio = max(values) / max(min(values), 1e-9)
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
    """Check the free disk space, measure, print; return 0 if everything is flat."""
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
    keep_no_holes()
    rows = asyncio.run(measure(options, points))
    print(f"load of this machine {os.getloadavg()[0]:.1f} over the last minute, {os.cpu_count()} cores")
    return 0 if judge(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
