"""Time from start to ready on an empty or a full store, memory of an idle `gantrymq start`, and time of commands.

    python benchmarks/bench_start.py [--runs N] [--idle SECONDS] [--set KEY=VALUE]... [--store DIR] [--imports N]
    python benchmarks/bench_start.py --messages 2000000 [--body BYTES]       on a store with N messages, cleanly closed
    python benchmarks/bench_start.py commands [--runs N]     from exec to exit: the help, a list of topics, a send

Wall time is measured from before the process is created to its ready line; ``start_ms`` is the line's own, from the
import of the command on. The first run warms byte code and page cache and is not counted. Memory is that of name server
and broker in one process, as the kernel reports it: RSS counts pages shared with other processes in full, PSS in part.
The empty store has one log file of the default size; the pages of its mapping count when they are touched.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from arguments import existing_folder, seconds, whole
from filled_store import fill
from load_client import verdict

from gantrymq.world.real import real_world

GOAL_MS = 350
GOAL_FULL_MS = 2000
GOAL_MB = 45
GOAL_FULL_MB = 80
GOAL_COMMAND_MS = 150
READY_S = 60.0
MB = 1e6


class Start(NamedTuple):
    """One start."""

    wall_ms: float
    start_ms: float
    rss_mb: float = 0.0
    pss_mb: float = 0.0
    threads: int = 0


def main() -> int:
    """Measure and print; return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["start", "commands"], default="start")
    parser.add_argument("--runs", type=whole(1), default=9)
    parser.add_argument("--idle", type=seconds(0.1), default=5.0, metavar="SECONDS")
    parser.add_argument("--set", dest="pairs", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--store", type=existing_folder, metavar="DIR", help="where the stores are made; the temporary folder"
    )
    parser.add_argument("--imports", type=whole(0), default=0, metavar="N", help="list the N slowest imports as well")
    parser.add_argument("--messages", type=whole(0), default=0, help="start on a store of so many")
    parser.add_argument("--body", type=whole(1), default=100, help="bytes of their bodies")
    options = parser.parse_args()
    if options.what == "commands":
        return report_commands(options)
    if not options.messages:
        return report(options, None, GOAL_MS, GOAL_MB)
    with tempfile.TemporaryDirectory(prefix="gantrymq-full-", dir=options.store) as folder:
        full, began = Path(folder) / "store", time.perf_counter()
        asyncio.run(fill(real_world(), full, options.messages, body_bytes=options.body))
        took = time.perf_counter() - began
        print(f"store of {options.messages:,} messages of {options.body} bytes made in {took:.0f} s")
        return report(options, full, GOAL_FULL_MS, GOAL_FULL_MB)


def report(options: argparse.Namespace, full: Path | None, goal_ms: float, goal_mb: float) -> int:
    """Start repeatedly, on *full* or on an empty store; return 0 if the goals are met."""
    runs = range(options.runs + 1)
    starts = [start_once(options, options.idle if run == options.runs else 0.0, full=full) for run in runs][1:]
    wall = statistics.median(each.wall_ms for each in starts)
    own = statistics.median(each.start_ms for each in starts)
    last = starts[-1]
    print(f"load of this machine      {os.getloadavg()[0]:8.2f}     over the last minute, {os.cpu_count()} cores")
    print(f"exec to ready             {wall:8.0f} ms  {verdict(wall, goal_ms)} (goal {goal_ms} ms, {spread(starts)})")
    print(f"start_ms                  {own:8.0f} ms  {verdict(own, goal_ms)} (goal {goal_ms} ms)")
    print(f"idle resident memory, RSS {last.rss_mb:8.1f} MB  {verdict(last.rss_mb, goal_mb)} (goal {goal_mb} MB)")
    print(f"idle resident memory, PSS {last.pss_mb:8.1f} MB  {verdict(last.pss_mb, goal_mb)} (goal {goal_mb} MB)")
    print(f"threads                   {last.threads:8}")
    if options.imports:
        show_imports(options)
    return 0 if wall < goal_ms and last.rss_mb < goal_mb else 1


def report_commands(options: argparse.Namespace) -> int:
    """Run each command repeatedly against a server; return 0 if the goals are met."""
    program, met = [sys.executable, str(Path(sys.executable).parent / "gantrymq")], True
    with tempfile.TemporaryDirectory(prefix="gantrymq-commands-", dir=options.store) as folder:
        environ = {"PATH": os.environ["PATH"], "HOME": folder}
        ports = ["--namesrv-port", "0", "--broker-port", "0", "--output", "json", "--log-level", "warning"]
        server = subprocess.Popen(
            [*program, "start", "--store", f"{folder}/store", *ports], stdout=subprocess.PIPE, env=environ
        )
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["namesrv"]
            for words in (
                ["--help"],
                ["topic", "list", "-n", address],
                ["message", "send", "-t", "Commands", "--body", "x", "-n", address],
            ):
                took, cpu = zip(
                    *[run_once([*program, *words], environ) for _ in range(options.runs + 1)][1:], strict=True
                )
                name, median = " ".join(words[:2]), statistics.median(took)
                met = met and median < GOAL_COMMAND_MS
                print(
                    f"{name:14} {median:8.0f} ms  {verdict(median, GOAL_COMMAND_MS)} (goal {GOAL_COMMAND_MS} ms, "
                    f"{min(took):.0f} to {max(took):.0f}; CPU {statistics.median(cpu):.0f} ms)"
                )
            print(f"load of this machine {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores")
        finally:
            server.terminate()
            server.communicate()
    return 0 if met else 1


def run_once(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """Run a command; return its wall time and its CPU time, ms."""
    began, before = time.perf_counter(), os.times()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return took * 1000, cpu * 1000


def start_once(
    options: argparse.Namespace,
    idle_s: float,
    python: tuple[str, ...] = (),
    err: int | None = None,
    full: Path | None = None,
) -> Start:
    """Start on *full* or on an empty store, wait *idle_s* seconds, measure, stop."""
    with tempfile.TemporaryDirectory(prefix="gantrymq-start-", dir=options.store) as folder:
        pairs = [word for pair in options.pairs for word in ("--set", pair)]
        words = [
            "start",
            "--store",
            str(full or f"{folder}/store"),
            "--namesrv-port",
            "0",
            "--broker-port",
            "0",
            *pairs,
        ]
        program = Path(sys.executable).parent / "gantrymq"
        began = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *python, program, *words, "--output", "json", "--log-level", "warning"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            env={"PATH": os.environ["PATH"], "HOME": folder},
        )
        try:
            assert child.stdout is not None
            line = child.stdout.readline()
            wall_ms = (time.perf_counter() - began) * 1000
            if not line:
                raise SystemExit(f"gantrymq start ended with {child.wait(READY_S)}")
            found = Start(wall_ms, float(json.loads(line)["start_ms"]))
            if idle_s:
                time.sleep(idle_s)
                found = Start(wall_ms, found.start_ms, *memory(child.pid))
            child.send_signal(signal.SIGTERM)
            if child.wait(READY_S) != 0:
                raise SystemExit(f"gantrymq start ended with {child.returncode} at SIGTERM")
        finally:
            if child.poll() is None:
                child.kill()
            child.communicate()
        return found


def memory(pid: int) -> tuple[float, float, int]:
    """RSS and PSS in MB, and the number of threads; zeros without /proc."""
    folder = Path("/proc") / str(pid)
    if not folder.exists():
        return 0.0, 0.0, 0
    rollup = kilobytes((folder / "smaps_rollup").read_text())
    status = (folder / "status").read_text()
    threads = next(line.split()[1] for line in status.splitlines() if line.startswith("Threads:"))
    return rollup["Rss"] * 1024 / MB, rollup["Pss"] * 1024 / MB, int(threads)


def kilobytes(text: str) -> dict[str, int]:
    """The fields of a smaps file."""
    rows = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {row[0].rstrip(":"): int(row[1]) for row in rows}


def show_imports(options: argparse.Namespace) -> None:
    """The modules with the longest own import time, and those with the longest import time of their tree."""
    with tempfile.TemporaryFile("w+") as err:
        start_once(options, 0.0, ("-X", "importtime"), err.fileno())
        err.seek(0)
        rows = [line.removeprefix("import time:").split("|") for line in err if line.startswith("import time:")][1:]
    times = [(int(own), int(tree), name.strip()) for own, tree, name in rows]
    print(f"\n{len(times)} modules, {sum(own for own, _, _ in times) / 1000:.0f} ms with the clock on; own, tree in ms")
    for own, tree, name in sorted(times, reverse=True)[: options.imports]:
        print(f"  {own / 1000:6.1f} {tree / 1000:7.1f}  {name}")


def spread(starts: list[Start]) -> str:
    """Fastest and slowest of how many."""
    return f"{min(s.wall_ms for s in starts):.0f} to {max(s.wall_ms for s in starts):.0f} in {len(starts)} runs"


if __name__ == "__main__":
    sys.exit(main())
