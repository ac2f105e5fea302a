"""MB per second of rebuilding a store's queues and index from its log, and of reading the same files raw.

    python benchmarks/bench_scan.py [--records N] [--body BYTES] [--rounds N] [--store DIR] [--profile]

A store of `storage_mmap` is filled once: 8 queues, a unique key, one more key and a tag for each message. Then rounds
alternate between reading the log's files with ``pread`` in pieces of 4 MB, the scan with its checks (whole structure,
CRC of every body) that builds all queue entries and index keys, and the same with queue and index files written.
In addition, a walk that builds dispatch entries (`LogEntries`: recovery, replays), with the same checks, once with
compiled functions if they are installed and once in Python.
All files are in the page cache. Rates are those of medians. If the machine has other load, compare CPU seconds.

With ``GANTRYMQ_SPEEDUPS=off`` in the environment everything runs in Python.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from filled_store import TOPIC, put

from gantrymq import speedups
from gantrymq.config import Settings
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.interfaces import StoreContext, StoreMessage
from gantrymq.world.real import RealFiles, real_world
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_store_files import log_entries, log_walk, plain_entries
from gantrymq_store_files.index import IndexLayout
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_tools.check import ranges
from gantrymq_store_tools.index_files import IndexWriter
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.queue_write import QueueWriter
from gantrymq_store_tools.store_rules import rules_of

CHUNK_BYTES = 4 * 1024 * 1024
LOG_FILE_BYTES = 32 * 1024 * 1024  # so that little of the last file is empty


async def fill(root: Path, records: int, body_bytes: int) -> None:
    """Put *records* messages into a store and close it."""
    world = real_world()
    settings = Settings(SCHEMA, {"flushIntervalCommitLog": 3_600_000, "mappedFileSizeCommitLog": LOG_FILE_BYTES})
    store = MmapStore(StoreContext(world, root, settings, print))
    await store.start()
    body = bytes(range(256)) * (body_bytes // 256) + b"x" * (body_bytes % 256)
    for start in range(0, records, 1000):
        batch = []
        for n in range(start, min(start + 1000, records)):
            properties = (
                b"UNIQ_KEY\x017F0000010B2C18B4AAC2%012X\x02KEYS\x01order-%d\x02WAIT\x01true\x02TAGS\x01TagA\x02"
                b"CLUSTER\x01DefaultCluster\x02" % (n, n)
            )
            batch.append(StoreMessage(TOPIC, n % 8, body, properties, tags_code=2598919, born_timestamp=n))
        await put(store, batch)
    await store.stop()
    await world.workers.close()


def read_raw(root: Path) -> int:
    """Read every log file; returns the bytes."""
    files, read = RealFiles(), 0
    for file in find_layout(files, root).log.files:
        opened = files.open(file.path, read_only=True)
        for at in range(0, file.size, CHUNK_BYTES):
            read += len(opened.pread(CHUNK_BYTES, at))
        opened.close()
    return read


def make_entries(root: Path, target: Path | None) -> int:
    """Rebuild everything, into *target* or into memory only; returns the records."""
    files = RealFiles()
    layout = find_layout(files, root)
    reader, open_files = LogReader(files, layout.log), OpenFiles(files)
    queues = index = None
    if target is not None:
        queues = QueueWriter(files, layout, target, open_files)
        index = IndexWriter(files, target / "index", IndexLayout(), lambda time_ms: 0)
    records = 0
    for part in ranges(reader, rules_of(files, layout)):
        records += part.records
        if queues is not None and index is not None:
            queues.add(part)
            index.add(part)
    if queues is not None and index is not None:
        queues.finish()
        index.finish()
    reader.close()
    open_files.close()
    return records


def walk_entries(root: Path, read_plain: Callable[..., object]) -> int:
    """Build the dispatch entries of the whole log, plain records with *read_plain*; return the number of records."""
    files = RealFiles()
    reader = LogReader(files, find_layout(files, root).log)
    levels = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    walk = log_entries.LogEntries(reader, reader.start, delay_levels_ms=levels, trust_zeros=True)
    used, log_walk.plain_entries = log_walk.plain_entries, read_plain
    try:
        for found in walk:
            assert not isinstance(found, LogDamage)
    finally:
        log_walk.plain_entries = used
        reader.close()
    return walk.records


def timed(work: Callable[[], int]) -> tuple[float, float]:
    """Wall time of *work* in seconds, and CPU time of this process."""
    began, computing = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - computing


def main() -> None:
    """Parse the command line and run in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="gantrymq-bench-", dir=options.store))
    try:
        asyncio.run(fill(root / "store", options.records, options.body))
        files = RealFiles()
        layout = find_layout(files, root / "store")
        used = max(part.records_end for part in ranges(LogReader(files, layout.log), rules_of(files, layout)))
        readers = {"walk, Python": plain_entries._plain_entries}
        if speedups.compiled is not None:
            readers = {"walk, compiled": plain_entries.plain_entries, **readers}
        names = ("read raw", *readers, "scan and make", "scan, make and write")
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for number in range(options.rounds):
            took["read raw"].append(timed(lambda: read_raw(root / "store")))
            for name, read in readers.items():
                took[name].append(timed(lambda read=read: walk_entries(root / "store", read)))
            took["scan and make"].append(timed(lambda: make_entries(root / "store", None)))
            target = root / str(number)
            took["scan, make and write"].append(timed(lambda target=target: make_entries(root / "store", target)))
            shutil.rmtree(target)
        way = "Python" if speedups.compiled is None else "compiled"
        print(f"{options.records} records, {used / 1e6:.0f} MB of log, {way}, medians of {options.rounds}")
        raw = statistics.median(wall for wall, _ in took["read raw"])
        for name, times in took.items():
            wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
            each = cpu / options.records * 1e6
            print(
                f"{name:22}{used / wall / 1e6:8,.0f} MB/s {used / cpu / 1e6:8,.0f} MB a CPU second "
                f"{each:6.2f} us of CPU a record {wall / raw:6.1f} times reading"
            )
        if options.profile:
            profile = cProfile.Profile()
            profile.runcall(make_entries, root / "store", None)
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
