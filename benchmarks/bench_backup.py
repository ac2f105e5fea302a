"""Backups of a running broker with tens of thousands of queues, and their restores: time, memory, effect on the broker.

    python benchmarks/bench_backup.py                 5,000 topics of 8 queues, two groups with an offset in each
    python benchmarks/bench_backup.py --topics 500    a tenth of it

`gantrymq start` on the store, and `gantrymq store backup` and `restore` in processes of their own, while one message
after the other is sent to random queues with synchronous flush, `--rate` a second. First a period without a backup, for
comparison; then a backup, one with `--previous`, one with `--link`, one with `--no-check`, a verification of the first
and its restore. Queues are copied up to the broker's checkpoint, so the first backup begins after one of all of
them. Memory is the peak resident size of the process without pages of files. Steps are those of the broker's loop
(`loop_watch.py`). At the end a broker starts on the restored store.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, create_subprocess_exec
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from arguments import existing_folder, whole
from load_client import (
    BrokerProcess,
    Connection,
    connect,
    memory_bytes,
    new_loop,
    percentile,
    raise_descriptor_limit,
    send_request,
)
from loop_watch import LONG_MS, LoopWatch, idle_log
from many_queues import apart, fill_queues, topic_name, write_tables

MB: Final = 1e6
GROUPS: Final = 2
MARGIN_S: Final = 4.0  # a checkpoint counts up to three seconds before it
PATIENCE_S: Final = 120.0
SAMPLE_S: Final = 0.05
GOAL_S: Final = 60.0
GOAL_START_S: Final = 4.0
GOAL_MEMORY_MB: Final = 150.0


class Command(NamedTuple):
    """One command that ended."""

    said: dict[str, object]
    took_s: float
    peak_bytes: int


class Sends:
    """Messages to random queues at an even rate; one that the broker delays does not delay the others."""

    def __init__(self, connections: list[Connection], options: argparse.Namespace) -> None:
        self._connections = itertools.cycle(connections)
        self._options = options
        self._random = random.Random(34)
        self.times_ms: list[float] = []
        self.refused = 0

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            due = time.monotonic()
            while True:
                tasks.create_task(self._send())
                due += 1 / self._options.rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _send(self) -> None:
        topic, queue_id = self._random.randrange(self._options.topics), self._random.randrange(self._options.queues)
        answer = await next(self._connections).call(send_request(topic_name(topic), queue_id, b"x" * 100))
        self.times_ms.append(answer.took_s * 1000)
        self.refused += answer.code != 0


class Bench:
    """The measurements on one store."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._store = folder / "store"
        self._idle = folder / "idle"
        self._watch = LoopWatch(folder / "steps")
        self._settings = {
            "mappedFileSizeCommitLog": str(options.file_mb * 1024**2),
            "flushConsumeQueueThoroughInterval": str(options.checkpoints * 1000),
        }
        self._over: list[str] = []

    def run(self) -> bool:
        """Print all rows; return whether every goal was met."""
        options = self._options
        sizes = (options.topics, options.queues, options.messages, 100, options.file_mb * 1024**2)
        apart(fill_queues, self._store, *sizes, "stop")
        write_tables(self._store, options.topics, options.queues, GROUPS)
        with idle_log(self._idle):
            with (
                BrokerProcess(self._settings, store=self._store, python=self._watch.python) as broker,
                asyncio.Runner(loop_factory=new_loop) as runner,
            ):
                runner.run(self._measure(broker))
            self._start_again()
        for each in self._over:
            print(f"ABOVE THE GOAL: {each}")
        return not self._over

    async def _measure(self, broker: BrokerProcess) -> None:
        connections = await connect(broker.address, 4)
        sends = Sends(connections, self._options)
        sending = asyncio.ensure_future(sends.run())
        whole_copy, again = self._folder / "whole", self._folder / "again"
        restored = self._folder / "restored"
        print(f"{'':24}{'time':>8}{'files':>9}{'memory':>9}{'step':>10}{'its CPU':>9}{'p99 send':>10}{'slowest':>10}")
        await self._row("no backup", sends, None)
        await self._row("backup", sends, ("backup", self._store, whole_copy))
        await self._row("backup --previous", sends, ("backup", self._store, again, "--previous", whole_copy))
        await self._row("backup --link", sends, ("backup", self._store, self._folder / "linked", "--link"))
        await self._row("backup --no-check", sends, ("backup", self._store, self._folder / "unread", "--no-check"))
        await self._row("restore --dry-run", sends, ("restore", whole_copy, restored, "--dry-run"))
        await self._row("restore", sends, ("restore", whole_copy, restored))
        sending.cancel()
        for connection in connections:
            connection.close()

    async def _row(self, name: str, sends: Sends, words: tuple[str | Path, ...] | None) -> None:
        sends.times_ms.clear()
        sends.refused, began = 0, time.monotonic()
        if words is None:
            done = Command({"files": 0}, await self._checkpoint(), 0)
        else:
            done = await _command(*words)
        steps = self._watch.between(began, time.monotonic(), self._idle)
        times = sorted(sends.times_ms)
        print(
            f"{name:24}{done.took_s:6.1f} s{done.said['files']:>9}{done.peak_bytes / MB:6.0f} MB"
            f"{steps.longest_ms:7.1f} ms{steps.longest_cpu_ms:6.1f} ms{percentile(times, 0.99):7.1f} ms"
            f"{times[-1]:7.1f} ms  {len(times):,} sends, {sends.refused} refused; {steps.said}",
            flush=True,
        )
        self._check(f"{name}: s", done.took_s, GOAL_S)
        self._check(f"{name}: MB of memory", done.peak_bytes / MB, GOAL_MEMORY_MB)
        self._check(f"{name}: broker's step, CPU ms", steps.longest_cpu_ms, LONG_MS)
        self._check(f"{name}: refused sends", sends.refused, 1)

    async def _checkpoint(self) -> float:
        """Wait for a checkpoint of messages sent now; return how long that took."""
        began = time.monotonic()
        await asyncio.sleep(MARGIN_S)
        path = self._store / "checkpoint"
        before = path.stat().st_mtime_ns
        while path.stat().st_mtime_ns == before:
            await asyncio.sleep(SAMPLE_S)
            if time.monotonic() - began > PATIENCE_S:
                raise SystemExit(f"no checkpoint in {PATIENCE_S:g} s")
        return time.monotonic() - began

    def _start_again(self) -> None:
        began = time.monotonic()
        with BrokerProcess(self._settings, store=self._folder / "restored"):
            took_s = time.monotonic() - began
        print(f"start of a broker on the restored store {took_s:.1f} s")
        self._check("start on the restored store, s", took_s, GOAL_START_S)

    def _check(self, what: str, value: float, goal: float) -> None:
        if value >= goal:
            self._over.append(f"{what} {value:.1f}, goal {goal:g}")


async def _command(*words: str | Path) -> Command:
    """Run ``gantrymq store`` with *words*; an error ends the program."""
    program, began = Path(sys.executable).parent / "gantrymq", time.monotonic()
    child = await create_subprocess_exec(
        sys.executable, program, "store", *words, "--output", "json", stdout=PIPE, stderr=PIPE
    )
    said = asyncio.ensure_future(child.communicate())
    peak = 0
    while not said.done():
        with suppress(OSError, StopIteration):  # it has ended
            peak = max(peak, memory_bytes(child.pid, "RssAnon"))
        await asyncio.wait([said], timeout=SAMPLE_S)
    out, err = said.result()
    if child.returncode:
        raise SystemExit(f"gantrymq store {words[0]} ended with {child.returncode}: {err.decode()}")
    return Command(json.loads(out), time.monotonic() - began, peak)


def main() -> int:
    """Measure and print; return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=whole(1), default=5000)
    parser.add_argument("--queues", type=whole(1), default=8, help="of each topic")
    parser.add_argument("--messages", type=whole(1), default=3, help="in each queue before the first backup")
    parser.add_argument("--rate", type=whole(1), default=200, help="sends a second meanwhile")
    parser.add_argument("--checkpoints", type=whole(1), default=15, help="seconds between two thorough flushes")
    parser.add_argument("--file-mb", type=whole(1), default=16, help="size of a log file")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where stores and backups are made")
    options = parser.parse_args()
    raise_descriptor_limit(4096)
    print(f"load of this machine {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="gantrymq-backup-", dir=options.store) as folder:
        return 0 if Bench(options, Path(folder)).run() else 1


if __name__ == "__main__":
    sys.exit(main())
