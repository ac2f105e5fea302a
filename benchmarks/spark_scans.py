"""A store of a given size, and the ways to read its messages with and without Spark."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from filled_store import TOPIC, new_store, put

from gantrymq.interfaces import StoreMessage
from gantrymq.world.real import RealFiles, real_world
from gantrymq_spark import register
from gantrymq_spark.columns import schema
from gantrymq_spark.log_scan import LogScan
from gantrymq_spark.store_options import StoreOptions, plan
from gantrymq_store_files.log_walk import LogDamage, LogWalk
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader

PRUNED = ("queueOffset", "commitLogOffset", "storeTimestamp", "tags")
CHUNK_BYTES = 4 * 1024 * 1024
LOG_FILE_BYTES = 256 * 1024 * 1024
OVERHEAD_BYTES = 240  # of a record, about: everything but its body
_TICKS = os.sysconf("SC_CLK_TCK")


class Took(NamedTuple):
    """One reading; seconds."""

    wall: float
    cpu: float  # of all processes involved
    rows: int
    log_bytes: int


def fill(root: Path, log_bytes: int, body_bytes: int) -> int:
    """Create a store whose log has about *log_bytes*; return the number of records."""
    records = max(1, log_bytes // (body_bytes + OVERHEAD_BYTES))
    asyncio.run(_fill(root, records, body_bytes))
    return records


async def _fill(root: Path, records: int, body_bytes: int) -> None:
    world = real_world()
    store = new_store(world, root, mappedFileSizeCommitLog=LOG_FILE_BYTES)
    await store.start()
    text = random.Random(17).randbytes((1 << 20) + body_bytes)  # so that Parquet has to store the data that it reads
    for start in range(0, records, 1000):
        batch = []
        for n in range(start, min(start + 1000, records)):
            properties = (
                b"UNIQ_KEY\x017F0000010B2C18B4AAC2%012X\x02KEYS\x01order-%d\x02WAIT\x01true\x02TAGS\x01Tag%d\x02"
                b"CLUSTER\x01DefaultCluster\x02" % (n, n, n % 5)
            )
            place = n * 1021 & (1 << 20) - 1
            body = text[place : place + body_bytes]
            batch.append(StoreMessage(TOPIC, n % 8, body, properties, tags_code=2598919, born_timestamp=n))
        await put(store, batch)
    await store.stop()
    await world.workers.close()


def used_bytes(root: Path) -> int:
    """Bytes of the log that hold records."""
    return sum(part.end - part.start for part in plan(RealFiles(), root))


# --- ways to read -----------------------------------------------------------------------------------------------------


def read_raw(root: Path) -> int:
    """Read the log's bytes with ``pread``; no rows."""
    files = RealFiles()
    for part in plan(files, root):
        reader = LogReader(files, part.log)
        for at in range(part.start, part.end, CHUNK_BYTES):
            reader.read(at, min(CHUNK_BYTES, part.end - at))
        reader.close()
    return 0


def python_rows(root: Path, end: int | None = None) -> int:
    """One process, a record at a time: checked as by the store tools, fields and properties as Python objects."""
    files = RealFiles()
    reader = LogReader(files, find_layout(files, root).log)
    rows = 0
    for each in LogWalk(reader, reader.start, end):
        if not isinstance(each, LogDamage):
            _ = (
                each.topic, each.queue_id, each.queue_offset, each.log_offset, each.total_size, each.flag,
                each.sys_flag, bytes(each.body), each.body_crc, dict(each.properties), each.born_timestamp,
                each.born_host, each.store_timestamp, each.store_host, each.reconsume_times, each.prepared_offset,
            )  # fmt: skip
            rows += 1
    reader.close()
    return rows


def arrow_rows(root: Path, columns: tuple[str, ...] | None = None) -> int:
    """One process, the source's Arrow batches without Spark."""
    shown = StoreOptions(root).row_options(tuple(schema(columns).names))
    files = RealFiles()
    return sum(batch.num_rows for part in plan(files, root) for batch in LogScan(files, part).batches(shown))


class Scans:
    """A Spark session, and data frames that it reads to the end."""

    def __init__(self, folder: Path, cores: int, memory: str = "2g", jars: str = "") -> None:
        """Start Spark; *folder* takes the files that it writes, *jars* are paths with commas between them."""
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": memory,
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            **({"spark.jars": jars} if jars else {}),
        }
        self.spark: Any = SparkSession.builder.master(f"local[{cores}]").config(map=settings).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        register(self.spark)

    def store(self, root: Path, columns: tuple[str, ...] | None = None, **options: str) -> Any:
        """The frame of a store."""
        if columns:
            options["columns"] = ",".join(columns)
        return self.spark.read.format("gantrymq.store").options(**options).load(str(root))

    def premade(self, root: Path, rows: int, columns: tuple[str, ...] | None = None) -> Any:
        """The frame of as many rows made of one batch of a store."""
        from premade_batches import PremadeSource

        self.spark.dataSource.register(PremadeSource)
        options = {"rows": str(rows), **({"columns": ",".join(columns)} if columns else {})}
        return self.spark.read.format("premade").options(**options).load(str(root))

    def parquet(self, path: Path, columns: tuple[str, ...] | None = None) -> Any:
        """The frame of the same rows in Parquet."""
        frame = self.spark.read.parquet(str(path))
        return frame.select(*columns) if columns else frame

    def consume(self, frame: Any) -> int:
        """Read every row and every column and discard them."""
        frame.write.format("noop").mode("overwrite").save()
        return 0


def timed(work: Callable[[], int], rows: int, log_bytes: int, without: tuple[int, ...] = ()) -> Took:
    """Run *work*, which reads *rows* rows, or fewer if it reports so; *without*: processes whose CPU does not count."""
    before, began = _cpu_seconds(without), time.perf_counter()
    found = work()
    wall, cpu = time.perf_counter() - began, _cpu_seconds(without) - before
    share = found / rows if found else 1
    return Took(wall, cpu, found or rows, round(log_bytes * share))


def _cpu_seconds(without: tuple[int, ...] = ()) -> float:
    """CPU time of this process and all its descendants, Spark's workers included, except those of *without*."""
    parents, ticks = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(name)], ticks[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
    own, grew = {os.getpid()}, True
    while grew:
        more = {one for one, parent in parents.items() if parent in own} - own
        grew = bool(more)
        own |= more
    return sum(ticks[one] for one in own.difference(without)) / _TICKS
