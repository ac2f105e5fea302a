"""Duration of recovery against the size of the log: after a clean stop, from a checkpoint, and over the whole log.

    python benchmarks/bench_recovery.py [--sizes 100,200,400] [--file-mb 16] [--body 1000] [--store DIR]

A thousand records share a second; the checkpoint is five seconds before the newest record, so recovery reads that
part and the preceding part of its file, whatever the log's size. "Whole" has no checkpoint and no queues: every record
is checked and every queue entry written. Each is paired with reading the same log files raw right before it, so both
find them in the page cache. The goals: the time from a checkpoint at the largest size is at most twice that at the
smallest, and no store needs more than a second after a clean stop.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path

import attrs
from filled_store import batches, put
from load_client import verdict

from gantrymq.config import Settings
from gantrymq.interfaces import RecoveryReport, StoreContext
from gantrymq.world import World
from gantrymq.world.real import RealClock, real_world
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_store_files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint

MB = 1e6
CHECKPOINT_BEHIND_MS = 5000
GOAL_CLEAN_S = 1.0
GOAL_GROWTH = 2.0


class SetClock(RealClock):
    """Wall time that changes only when it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000_000

    def now_ms(self) -> int:
        """The time that was set."""
        return self.now


def main() -> int:
    """Measure and print; return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,200,400", help="MB of log, the smallest first")
    parser.add_argument("--file-mb", type=int, default=16, help="size of a log file")
    parser.add_argument("--body", type=int, default=1000, help="bytes of the bodies")
    parser.add_argument("--store", type=Path, metavar="DIR", help="where the stores are made; the temporary folder")
    options = parser.parse_args()
    print(f"load of this machine {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores")
    print("   log       raw read        clean stop      from checkpoint                  whole")
    clean, crashed = [], []
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="gantrymq-recovery-", dir=options.store) as folder:
            times = asyncio.run(measure(Path(folder) / "store", options, size))
        clean.append(times[0])
        crashed.append(times[1])
    growth = crashed[-1] / crashed[0]
    print(
        f"slowest after a clean stop  {max(clean):6.2f} s  {verdict(max(clean), GOAL_CLEAN_S)} (goal {GOAL_CLEAN_S} s)"
    )
    print(f"largest against smallest    {growth:6.2f}    {verdict(growth, GOAL_GROWTH)} (goal {GOAL_GROWTH})")
    return 0 if max(clean) <= GOAL_CLEAN_S and growth <= GOAL_GROWTH else 1


async def measure(root: Path, options: argparse.Namespace, size_mb: int) -> tuple[float, float]:
    """Create one store and recover it in three ways; return the times of the first two in s."""
    clock = SetClock()
    world = attrs.evolve(real_world(), clock=clock)
    store = new_store(world, root, options)
    await store.start()
    records = int(size_mb * MB / (options.body + 200))
    for batch in batches(records, body_bytes=options.body, batch=1000, queues=8):
        clock.now += 1000
        await put(store, batch)
    await store.stop()

    raw_s, read = read_raw(root)
    clean_s, _ = await recover(world, root, options)
    newest = decode_checkpoint((root / "checkpoint").read_bytes()).log_timestamp
    near = newest - CHECKPOINT_BEHIND_MS
    (root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(near, near)))
    (root / "abort").touch()
    read_raw(root)
    crashed_s, crashed = await recover(world, root, options)
    shutil.rmtree(root / "consumequeue")
    (root / "checkpoint").unlink()
    (root / "abort").touch()
    read_raw(root)
    whole_s, whole = await recover(world, root, options)
    await world.workers.close()
    if whole.records_checked != records or whole.entries_rebuilt != records:
        raise SystemExit(f"{records} records were written, {whole} says otherwise")
    print(
        f"{size_mb:5d} MB  {raw_s:5.2f} s {read / MB / raw_s:5.0f} MB/s  {clean_s:8.3f} s  {crashed_s:7.3f} s "
        f"{crashed.records_checked:8,} records  {whole_s:6.2f} s {whole.log_end / MB / whole_s:5.0f} MB/s "
        f"{whole.records_checked / whole_s:9,.0f} records/s"
    )
    return clean_s, crashed_s


def new_store(world: World, root: Path, options: argparse.Namespace) -> MmapStore:
    """A store with log files of the requested size."""
    settings = Settings(SCHEMA, {"mappedFileSizeCommitLog": options.file_mb * 1024**2})
    return MmapStore(StoreContext(world, root, settings, lambda sentence: None))


async def recover(world: World, root: Path, options: argparse.Namespace) -> tuple[float, RecoveryReport]:
    """Start the store and stop it; the time of the start in s, and its report."""
    store = new_store(world, root, options)
    began = time.perf_counter()
    report = await store.start()
    took = time.perf_counter() - began
    await store.stop()
    return took, report


def read_raw(root: Path) -> tuple[float, int]:
    """Read every log file; the time in s, and the bytes."""
    began, read = time.perf_counter(), 0
    for path in sorted((root / "commitlog").iterdir()):
        with path.open("rb", buffering=0) as file:
            while data := file.read(1024**2):
                read += len(data)
    return time.perf_counter() - began, read


if __name__ == "__main__":
    raise SystemExit(main())
