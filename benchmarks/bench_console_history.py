"""The history of the web console: CPU of its samples, size of its file, time to read it.

    python benchmarks/bench_console_history.py                  both parts at 5,000 topics and 2,000 groups
    python benchmarks/bench_console_history.py --parts file --moving 1    all series move at random

Part ``samples``: `gantrymq start` with the store in memory, and `gantrymq console` in a process of its own, with and
without a history, and without visitors. The difference of their CPU times, of all threads, is that of the samples:
requests, their answers, keeping and writing.

Part ``file``: the history in this process, with values instead of requests. A share of the topics and groups moves
(`--moving`): rates with two decimals, lags and ages change at random in every sample. Points of five minutes are made
of one sample each for 30 days, then a day of samples follows. Times are CPU times of this process, reads are from a
file that the kernel has in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from arguments import existing_folder, seconds, whole
from bench_console import ConsoleProcess, fill
from bench_scrape import write_tables
from load_client import BrokerProcess, raise_descriptor_limit

from gantrymq_console.history.curves import Ends, Slots, put_periods, slots_from
from gantrymq_console.history.file import HistoryFile
from gantrymq_console.history.keeping import FILE_NAME, HistoryOptions
from gantrymq_console.history.periods import COARSE, FINE, LEVELS, Level
from gantrymq_console.history.reading import DAY_MS, HOUR_MS
from gantrymq_console.history.recent import Loaded, Recent

BEGIN_MS: Final = 1_800_000_000_000
MB: Final = 1e6

# The goals: issue 49.
SAMPLE_MS: Final = 100.0  # of CPU for a sample each 10 s: 1 % of a core
FILE_MB: Final = 100.0
READ_MS: Final = 50.0


class Values:
    """Columns of a cluster in which some topics and groups move."""

    def __init__(self, topics: int, groups: int, moving: float) -> None:
        self._random = random.Random(1)
        names = [f"orders-of-some-service-{number}" for number in range(topics)]
        self.got_in, self.got_out = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        self.topics = names[: max(1, round(topics * moving))]
        names = [f"group-of-some-service-{number}" for number in range(groups)]
        self.lags, self.late = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
        self.rates, self.retries = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
        self.dead = {name: self._random.randrange(5) for name in names}
        self.groups = names[: max(1, round(groups * moving))]

    def columns(self) -> dict[str, Any]:
        """Return the next sample."""
        chance = self._random.random
        for name in self.topics:
            self.got_in[name] = round(self.got_in[name] * 0.8 + chance() * 100, 2)
            self.got_out[name] = round(self.got_out[name] * 0.8 + chance() * 100, 2)
        for name in self.groups:
            self.lags[name] = lag = max(0, self.lags[name] + int(chance() * 1000) - 500)
            self.late[name] = round(chance() * 100, 3) if lag else 0.0
            self.rates[name] = round(self.rates[name] * 0.8 + chance() * 100, 2)
            if chance() < 0.1:
                self.retries[name] = int(chance() * 50)
            if chance() < 0.01:
                self.dead[name] += 1
        rate = {"": round(chance() * 1000, 2)}
        broker = {"broker-a": round(chance() * 1000, 2)}
        return {
            "cluster": [rate, rate],
            "broker": [broker] * 5,
            "topic": [self.got_in, self.got_out],
            "group": [self.lags, self.late, self.rates, self.retries, self.dead],
        }


class FilePart:
    """The file and what is in memory."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._path = folder / FILE_NAME
        self._file = HistoryFile(self._path, HistoryOptions(most_bytes=options.bytes).bounds())
        self._recent = Recent()
        self._recent.adopt(Loaded((), (0, 0), ((), ())))
        self._values = Values(options.topics, options.groups, options.moving)
        self._at_ms = BEGIN_MS
        self._over: list[str] = []

    def run(self) -> bool:
        """Fill the file, read, print; return whether the goals are met."""
        options = self._options
        self._fill("points of five minutes", round(options.days * DAY_MS / COARSE.step_ms), COARSE.step_ms)
        self._fill("samples", round(options.hours * HOUR_MS / FINE.step_ms), FINE.step_ms)
        size_mb = self._path.stat().st_size / MB
        kept = ", ".join(self._kept(level) for level in LEVELS)
        print(f"file: {size_mb:.1f} MB of at most {options.bytes / MB:.0f}; {kept}")
        self._check("file, MB", size_mb, options.bytes / MB)
        self._reads()
        self._file.close()
        for each in self._over:
            print(f"ABOVE THE GOAL: {each}")
        return not self._over

    def _kept(self, level: Level) -> str:
        since_ms = self._file.oldest_ms(level)
        hours = 0.0 if since_ms is None else (self._at_ms - since_ms) / HOUR_MS
        return f"steps of {level.step_ms // 1000} s for {hours:.1f} h"

    def _fill(self, what: str, count: int, step_ms: int) -> None:
        added = written = longest = made_longest = 0.0
        flushes = max(1, 30_000 // step_ms)
        for number in range(count):
            columns = self._values.columns()
            began = time.process_time()
            due = self._recent.due(self._at_ms)
            point = due.made() if due is not None else {}
            made = time.process_time() - began
            if due is not None:
                self._recent.add_point(due, point)
            self._recent.add(self._at_ms, columns)
            took = time.process_time() - began
            made_longest = max(made_longest, made)
            added, longest = added + took, max(longest, took - made)
            self._at_ms += step_ms
            if number % flushes == flushes - 1:
                began = time.process_time()
                batch = self._recent.take()
                self._recent.written(batch, self._file.write(batch, self._recent.ids))
                written += time.process_time() - began
        if count:
            kept_ms, written_ms = added * 1000 / count, written * 1000 / count
            print(
                f"{what}: {count}, of which {self._options.moving:.0%} moves; {kept_ms:.1f} ms of CPU to keep one "
                f"(longest on the loop {longest * 1000:.1f}, in a worker {made_longest * 1000:.1f}), "
                f"{written_ms:.1f} to write it",
                flush=True,
            )

    def _reads(self) -> None:
        topic, group = self._values.topics[0], self._values.groups[-1]
        idle = next(reversed(self._values.got_in))
        for kind, name in (("topic", topic), ("topic", idle), ("group", group)):
            for level, length_ms in ((FINE, HOUR_MS), (FINE, DAY_MS), (COARSE, 30 * DAY_MS)):
                known, took_ms = self._timed(partial(self._read, kind, name, level, length_ms))
                print(f"read {kind} over {length_ms // HOUR_MS} h: {took_ms:.1f} ms, {known} values")
                self._check(f"read {kind}, ms", took_ms, READ_MS)
        moved, took_ms = self._timed(self._moved)
        print(f"first and last lags of all groups over 1 h: {took_ms:.1f} ms, {moved} moved")
        self._check("first and last lags, ms", took_ms, READ_MS)

    def _read(self, kind: str, name: str, level: Level, length_ms: int) -> int:
        found = Slots.empty(level, kind, self._at_ms - length_ms, self._at_ms)
        slots_from(self._file, kind, self._recent.ids[kind], {name: found}, 2**62)
        put_periods(found, kind, name, self._recent.periods(level))
        return sum(each is not None for word in found.values for each in word)

    def _moved(self) -> int:
        ends = Ends("group", "lag", (self._at_ms - HOUR_MS) // FINE.step_ms, self._at_ms // FINE.step_ms)
        names = {number: name for name, number in self._recent.ids["group"].items()}
        for period in self._recent.periods(FINE):
            ends.add_period(period)
        ends.add_file(self._file, FINE, names, 2**62)
        return sum(first != last for first, last in ends.found.values())

    def _timed(self, work: Callable[[], int]) -> tuple[int, float]:
        times = []
        for _ in range(5):
            began = time.process_time()
            found = work()
            times.append((time.process_time() - began) * 1000)
        return found, sorted(times)[2]

    def _check(self, what: str, value: float, goal: float) -> None:
        if value > goal:
            self._over.append(f"{what} {value:.1f}, goal {goal:g}")


async def samples(options: argparse.Namespace, broker: BrokerProcess, folder: Path) -> bool:
    """Measure consoles with and without a history; return whether the goal is met."""
    connections = await fill(broker.address, options)
    namesrv = str(broker.ready["namesrv"])
    with (
        ConsoleProcess(namesrv, folder / "with") as kept,
        ConsoleProcess(namesrv, folder / "without", more=("--no-history",)) as bare,
    ):
        for each in (kept, bare):
            await each.settled()
        await asyncio.sleep(options.settle)
        before, began = (kept.cpu_s(), bare.cpu_s()), time.monotonic()
        await asyncio.sleep(options.seconds)
        spent = [each.cpu_s() - cpu for each, cpu in zip((kept, bare), before, strict=True)]
        took_s = time.monotonic() - began
        memory = [each.private_bytes() / MB for each in (kept, bare)]
    for connection in connections:
        connection.close()
    sample_ms = (spent[0] - spent[1]) * 1000 / (took_s / 10)
    print(
        f"samples: {sample_ms:.1f} ms of CPU each, {sample_ms / 100:.2f} % of a core; memory {memory[0]:.0f} MB, "
        f"without a history {memory[1]:.0f} MB"
    )
    if sample_ms > SAMPLE_MS:
        print(f"ABOVE THE GOAL: a sample {sample_ms:.1f} ms, goal {SAMPLE_MS:g}")
    return sample_ms <= SAMPLE_MS


def main() -> int:
    """Measure and print; return 0 if all goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=("samples", "file"), default=["samples", "file"])
    parser.add_argument("--topics", type=whole(1), default=5000)
    parser.add_argument("--queues", type=whole(1), default=8, help="of each topic")
    parser.add_argument("--groups", type=whole(1), default=2000)
    parser.add_argument("--readers", type=whole(0), default=1, help="groups of each topic")
    parser.add_argument("--wide", type=whole(1), default=8, help="queues of the topic that all groups read")
    parser.add_argument("--settle", type=seconds(0), default=20.0, help="seconds before samples are measured")
    parser.add_argument("--seconds", type=seconds(1), default=120.0, help="in which samples are measured")
    parser.add_argument("--moving", type=float, default=0.1, help="share of topics and groups that move")
    parser.add_argument("--days", type=float, default=30.0, help="of points of five minutes")
    parser.add_argument("--hours", type=float, default=24.0, help="of samples")
    parser.add_argument("--bytes", type=whole(1_000_000), default=HistoryOptions().most_bytes, help="bound of the file")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where files are made")
    options = parser.parse_args()
    raise_descriptor_limit(200)
    print(f"load of this machine {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores")
    met = True
    with tempfile.TemporaryDirectory(prefix="gantrymq-history-", dir=options.store) as name:
        folder = Path(name)
        if "samples" in options.parts:
            write_tables(folder / "store", options)
            with BrokerProcess({"store": "memory"}, store=folder / "store", scratch=folder) as broker:
                met = asyncio.run(samples(options, broker, folder))
        if "file" in options.parts:
            met = FilePart(options, folder).run() and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
