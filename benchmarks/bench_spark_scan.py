"""Rows and MB per second of Spark's scan of a store's folder, with Parquet of the same rows and Python alone to
compare.

    python benchmarks/bench_spark_scan.py [--mb N] [--body BYTES] [--rounds N] [--cores N] [--store DIR] [--option K=V]

A store of `storage_mmap` is filled: random bodies, a unique key, one more key and a tag for each message; then Spark
writes the same rows as Parquet. Rounds alternate between reading the log's files raw, the source gantrymq.store with
all columns and with queueOffset, commitLogOffset, storeTimestamp and tags alone, Spark's Parquet with the same, one
batch of the source again and again (Spark's own part), the source's Arrow batches in one process without Spark, and the
log record by record in Python (its first part only).
Spark's frames are written to the data source noop. One round before them, which starts Spark's workers, does not count.

MB always refer to the log, also for Parquet, and rates are those of medians. CPU is that of all processes.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from arguments import existing_folder, whole
from spark_scans import PRUNED, Scans, Took, arrow_rows, fill, python_rows, read_raw, timed, used_bytes

PYTHON_BYTES = 128 * 1024 * 1024


def rounds(ways: dict[str, Callable[[], int]], rows: int, log_bytes: int, count: int) -> dict[str, list[Took]]:
    """Run every way once in each round; the first round is not counted."""
    took: dict[str, list[Took]] = {name: [] for name in ways}
    for number in range(count + 1):
        for name, work in ways.items():
            found = timed(work, rows, log_bytes)
            if number:
                took[name].append(found)
    return took


def table(took: dict[str, list[Took]]) -> str:
    """A line for each way."""
    lines = [f"{'':34}{'rows/s':>10}{'MB/s':>8}{'s':>8}{'us CPU/row':>12}"]
    for name, times in took.items():
        wall, cpu = (
            statistics.median(column) for column in zip(*((each.wall, each.cpu) for each in times), strict=True)
        )
        rows, size = times[0].rows, times[0].log_bytes
        lines.append(f"{name:34}{rows / wall:10,.0f}{size / wall / 1e6:8,.0f}{wall:8.2f}{cpu / rows * 1e6:12.2f}")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=whole(1), default=1000, help="of log")
    parser.add_argument("--body", type=whole(1), default=1024, help="bytes")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--cores", type=whole(1), default=2)
    parser.add_argument("--store", type=existing_folder)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="of the source")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="gantrymq-bench-", dir=options.store))
    try:
        store, parquet = root / "store", root / "parquet"
        rows = fill(store, options.mb * 1_000_000, options.body)
        log_bytes = used_bytes(store)
        given = dict(each.split("=", 1) for each in options.option)
        scans = Scans(root / "spark", options.cores)
        scans.store(store).write.parquet(str(parquet))
        assert scans.spark.read.parquet(str(parquet)).count() == rows
        ways: dict[str, Callable[[], int]] = {
            "read raw": lambda: read_raw(store),
            "gantrymq.store, all columns": lambda: scans.consume(scans.store(store, **given)),
            "gantrymq.store, pruned": lambda: scans.consume(scans.store(store, PRUNED, **given)),
            "Parquet, all columns": lambda: scans.consume(scans.parquet(parquet)),
            "Parquet, pruned": lambda: scans.consume(scans.parquet(parquet, PRUNED)),
            "premade batches, all columns": lambda: scans.consume(scans.premade(store, rows)),
            "premade batches, pruned": lambda: scans.consume(scans.premade(store, rows, PRUNED)),
            "Arrow batches alone, all columns": lambda: arrow_rows(store),
            "Arrow batches alone, pruned": lambda: arrow_rows(store, PRUNED),
            "Python, a record at a time": lambda: python_rows(store, min(PYTHON_BYTES, log_bytes)),
        }
        took = rounds(ways, rows, log_bytes, options.rounds)
        scans.spark.stop()
        print(
            f"{rows} messages of {options.body} bytes, {log_bytes / 1e6:.0f} MB of log, local[{options.cores}], ",
            end="",
        )
        print(f"medians of {options.rounds}")
        print(table(took))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
