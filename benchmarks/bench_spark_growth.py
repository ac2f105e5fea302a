"""Rows per second of the source gantrymq.store against the size of the log: the time of a scan should grow linearly.

    python benchmarks/bench_spark_growth.py [--mb 100,...] [--rounds N] [--cores N] [--store DIR] [--plot FILE]

One store of `storage_mmap` for each size, 100 MB to 5 GB by default, one at a time on the disk; each is
scanned under Spark with all columns and pruned, as in `bench_spark_scan.py`, after a scan that is not counted. The last
line reports the growth of the time: the exponent of the straight line through the sizes on logarithmic axes, without
the time of a query before its first row (the seconds on a store of 1 MB); 1 is linear. ``--plot`` draws both (.png or
.svg).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from arguments import existing_folder, whole
from spark_scans import PRUNED, Scans, fill, timed, used_bytes

SIZES_MB = (100, 250, 500, 1000, 2500, 5000)
WAYS = {"all columns": None, "pruned": PRUNED}
Points = dict[str, list[tuple[float, float, float]]]  # by way: MB of log, median seconds, rows a second


def sizes(text: str) -> list[int]:
    """Megabytes, with commas between them."""
    return [whole(1)(each) for each in text.split(",")]


def measure(root: Path, scans: Scans, mb: int, rounds: int) -> dict[str, tuple[float, float, float, float]]:
    """By way: MB of log, median seconds, rows a second, microseconds of CPU a row."""
    store = root / "store"
    rows = fill(store, mb * 1_000_000, 1024)
    log_bytes = used_bytes(store)
    found = {}
    try:
        for name, columns in WAYS.items():
            work = partial(_scan, scans, store, columns)
            took = [timed(work, rows, log_bytes) for _ in range(rounds + 1)]
            wall, cpu = (statistics.median(each[n] for each in took[1:]) for n in (0, 1))
            found[name] = (log_bytes / 1e6, wall, rows / wall, cpu / rows * 1e6)
    finally:
        shutil.rmtree(store)
    return found


def _scan(scans: Scans, store: Path, columns: tuple[str, ...] | None) -> int:
    return scans.consume(scans.store(store, columns))


def exponent(points: list[tuple[float, float, float]], before_s: float) -> float:
    """Of the size in the seconds."""
    slope, _ = np.polyfit(
        [np.log(mb) for mb, _, _ in points], [np.log(max(s - before_s, 0.01)) for _, s, _ in points], 1
    )
    return float(slope)


def draw(points: Points, path: Path) -> None:
    """Seconds and rows a second against megabytes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    for name, found in points.items():
        left.plot([mb for mb, _, _ in found], [s for _, s, _ in found], marker="o", label=name)
        right.plot([mb for mb, _, _ in found], [rate / 1000 for _, _, rate in found], marker="o", label=name)
    for axes, label in ((left, "seconds"), (right, "thousand rows a second")):
        axes.set(xlabel="MB of log", ylabel=label, xlim=(0, None), ylim=(0, None))
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    figure.suptitle("gantrymq.store under Spark, messages of 1 KB")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Parse the command line and run in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=sizes, default=list(SIZES_MB), help="sizes of logs, with commas between them")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--cores", type=whole(1), default=2)
    parser.add_argument("--store", type=existing_folder)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="gantrymq-bench-", dir=options.store))
    try:
        scans = Scans(root / "spark", options.cores)
        before = {name: found[1] for name, found in measure(root, scans, 1, options.rounds).items()}
        points: Points = {name: [] for name in WAYS}
        print(f"{'MB of log':>10}{'columns':>14}{'s':>8}{'rows/s':>10}{'us CPU/row':>12}")
        for mb in options.mb:
            for name, (size, wall, rate, cpu) in measure(root, scans, mb, options.rounds).items():
                points[name].append((size, wall, rate))
                print(f"{size:10,.0f}{name:>14}{wall:8.2f}{rate:10,.0f}{cpu:12.2f}", flush=True)
        scans.spark.stop()
        if len(options.mb) > 1:
            grow = ", ".join(f"{exponent(found, before[name]):.2f} ({name})" for name, found in points.items())
            print(f"seconds grow with the size to the power of {grow}")
        if options.plot is not None:
            draw(points, options.plot)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
