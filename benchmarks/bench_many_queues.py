"""Tens of thousands of queues: start, start after kill -9, stop, and the longest step of the event loop during these.

    python benchmarks/bench_many_queues.py                         5,000 topics of 8 queues, 428 MB for the recovery
    python benchmarks/bench_many_queues.py --topics 500 --log-mb 0 a tenth of it, and no recovery

Every start is `gantrymq start` in its own process, timed from before the process is created to its ready line; steps
are those of its loop (`loop_watch.py`), name server included. The store is filled in process: some messages in every
queue, then a clean stop; for the start after kill -9, some more in every queue, none of them in the checkpoint.
Memory is the peak resident size until it was ready, minus the resident size after a clean start. Then every queue gets
a message over the wire, which the thorough flush makes durable; and again, for the stop. Consumer offsets are those
of two groups: saved after one commit, and while every one is committed. Retention deletes all log files but the newest.
Recovery reads a log of 1 KB messages from its first record on, and writes its queue entries; the log has been written
to disk before, as it is half a minute after a process was killed.

A step counts as late for any reason: the table also shows how late an idle process was in the same period.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from arguments import existing_folder, whole
from load_client import (
    BrokerProcess,
    Connection,
    Pump,
    Request,
    connect,
    new_loop,
    raise_descriptor_limit,
    send_request,
    verdict,
)
from loop_watch import LONG_MS, LoopWatch, Steps, idle_log
from many_queues import KILLED, apart, fill_log, fill_queues, group_name, topic_name, write_tables

from gantrymq.config import Settings
from gantrymq.formats.config import CONSUMER_OFFSETS
from gantrymq.interfaces import StoreContext
from gantrymq.remoting.codes import RequestCode
from gantrymq.world.real import real_world
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore

MB = 1e6
PARTS = ("recovery", "life", "deletions")
GOAL_CLEAN_S = 2.0
GOAL_CRASH_S = 4.0
GOAL_CRASH_MB = 60.0
GOAL_STOP_S = 3.0
GOAL_RECOVERY_MB_S = 300.0
GROUPS = 2
THOROUGH_S = 15  # between two thorough flushes
SAVE_S = 2  # between two saves of consumer offsets
UNDER_WAY = 64
DROPS_UNDER_WAY = 16
PATIENCE_S = 120.0
SETTLE_S = 1.0  # includes work that continues after an answer


class Table:
    """Prints rows and records whether every goal was met."""

    def __init__(self) -> None:
        self.good = True

    def most(self, label: str, value: float, unit: str, goal: float, more: str = "") -> None:
        """One figure that should stay below its goal."""
        self._row(label, value, unit, verdict(value, goal), goal, more)
        self.good = self.good and value < goal

    def least(self, label: str, value: float, unit: str, goal: float, more: str = "") -> None:
        """One figure that should reach its goal."""
        self._row(label, value, unit, "good" if value >= goal else "BELOW THE GOAL", goal, more)
        self.good = self.good and value >= goal

    def steps(self, label: str, steps: Steps, more: str = "") -> None:
        """The longest step of the loop meanwhile."""
        words = "; ".join(word for word in (steps.said, more) if word)
        self.most(f"  longest step, {label}", steps.longest_ms, "ms", LONG_MS, words)

    @staticmethod
    def _row(label: str, value: float, unit: str, judged: str, goal: float, more: str) -> None:
        shown = f"{value:8.2f}" if unit == "s" else f"{value:8.1f}"
        words = f", {more}" if more else ""
        print(f"{label:54}{shown} {unit:5}{judged} (goal {goal:g} {unit}{words})", flush=True)


class Bench:
    """The measurements, one after the other on one store."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._store = folder / "store"
        self._idle = folder / "idle"
        self._table = Table()
        self._watches = 0
        self._settings = {
            "flushDiskType": "ASYNC_FLUSH",
            "mappedFileSizeCommitLog": str(options.file_mb * 1024**2),
            "flushConsumeQueueThoroughInterval": str(THOROUGH_S * 1000),
            "flushConsumerOffsetInterval": str(SAVE_S * 1000),
            "fileReservedTime": "0",
        }

    def run(self) -> bool:
        """Print all rows; return whether every goal was met."""
        with idle_log(self._idle):
            return self._run()

    def _run(self) -> bool:
        parts = self._options.parts
        if "recovery" in parts and self._options.log_mb:
            self._recovery()
        if "life" in parts or "deletions" in parts:
            self._fill(self._options.messages, "stop")
            write_tables(self._store, self._options.topics, self._options.queues, GROUPS)
        if "life" in parts:
            idle_bytes = self._clean_start()
            self._fill(self._options.behind, "kill")
            self._from_crash_to_stop(idle_bytes)
        if "deletions" in parts:
            self._deletions()
        return self._table.good

    def _fill(self, each: int, end: str) -> None:
        options = self._options
        sizes = (options.topics, options.queues, each, options.body, options.file_mb * 1024**2)
        apart(fill_queues, self._store, *sizes, end, code=KILLED if end == "kill" else 0)

    def _started(self) -> tuple[BrokerProcess, LoopWatch, float, Steps]:
        """A broker on the store, the watch on its loop, the start time in s, and its steps."""
        self._watches += 1
        watch, began = LoopWatch(self._folder / f"steps-{self._watches}"), time.monotonic()
        broker = BrokerProcess(self._settings, store=self._store, python=watch.python, scratch=self._folder)
        ended = time.monotonic()
        return broker, watch, ended - began, watch.between(began, ended, self._idle)

    # --- starts -----------------------------------------------------------------------------------------------------

    def _clean_start(self) -> int:
        """Start after a clean stop; return the resident bytes then."""
        broker, _, took_s, steps = self._started()
        with broker:
            resident = broker.resident_bytes()
            self._table.most("start after a clean stop", took_s, "s", GOAL_CLEAN_S, f"{resident / MB:.0f} MB resident")
            self._table.steps("start after a clean stop", steps)
        return resident

    def _from_crash_to_stop(self, idle_bytes: int) -> None:
        broker, watch, took_s, steps = self._started()
        with broker:
            more = broker.peak_bytes() - idle_bytes
            self._table.most("start after kill -9", took_s, "s", GOAL_CRASH_S)
            self._table.most("  memory, more than after a clean stop", more / MB, "MB", GOAL_CRASH_MB)
            self._table.steps("start after kill -9", steps)
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(self._at_work(broker, watch))
            began = time.monotonic()
            broker.stop()
            ended = time.monotonic()
            self._table.most("stop with all queues dirty", ended - began, "s", GOAL_STOP_S)
            self._table.steps("stop with all queues dirty", watch.between(began, ended, self._idle))

    async def _at_work(self, broker: BrokerProcess, watch: LoopWatch) -> None:
        connections = await connect(broker.address, 8)
        await self._save_offsets(connections, watch)
        sends = [send_request(topic_name(t), q, b"x" * self._options.body) for t, q in self._queues()]
        dirtied = await self._make_dirty(connections, sends)
        await until(lambda: self._checkpoint_ns() != dirtied)
        await asyncio.sleep(SETTLE_S)
        self._table.steps("thorough queue flush", watch.between(self._dirty_since, time.monotonic(), self._idle))
        await self._make_dirty(connections, sends)
        _close(connections)

    # --- everything dirty -------------------------------------------------------------------------------------------

    async def _make_dirty(self, connections: list[Connection], sends: list[Request]) -> int:
        """A message to each queue with no thorough flush in between; the checkpoint's time."""
        for _ in range(3):
            before = self._checkpoint_ns()
            await asked(connections, sends, UNDER_WAY)
            if self._checkpoint_ns() == before:
                self._dirty_since = time.monotonic()
                return before
        raise SystemExit(f"sends to all queues take longer than the {THOROUGH_S} s between two flushes")

    def _checkpoint_ns(self) -> int:
        return (self._store / "checkpoint").stat().st_mtime_ns

    def _queues(self) -> Iterable[tuple[int, int]]:
        """Topic and queue, by their numbers."""
        return ((t, q) for q in range(self._options.queues) for t in range(self._options.topics))

    # --- offsets ----------------------------------------------------------------------------------------------------

    async def _save_offsets(self, connections: list[Connection], watch: LoopWatch) -> None:
        commits = [commit(topic_name(t), q, 2, group_name(g)) for g in range(GROUPS) for t, q in self._queues()]
        for label, some in (("one of them changed", commits[:1]), ("each of them changed", commits)):
            began = time.monotonic()
            await asked(connections, some, UNDER_WAY)
            await self._saved_since(time.time_ns())
            ended = time.monotonic()
            name = f"{len(commits):,} offsets saved, {label}"
            self._table.steps(name, watch.between(began, ended, self._idle))

    async def _saved_since(self, moment_ns: int) -> None:
        path = self._store / "config" / CONSUMER_OFFSETS
        await until(lambda: path.exists() and path.stat().st_mtime_ns > moment_ns)
        await asyncio.sleep(SETTLE_S)

    # --- deletions --------------------------------------------------------------------------------------------------

    def _deletions(self) -> None:
        broker, watch, _, _ = self._started()
        with broker, asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(self._delete(broker, watch))

    async def _delete(self, broker: BrokerProcess, watch: LoopWatch) -> None:
        connections = await connect(broker.address, 8)
        options, log = self._options, self._store / "commitlog"
        files, began = len(list(log.iterdir())), time.monotonic()
        await asked(connections, [Request(RequestCode.DELETE_EXPIRED_COMMITLOG, {})], 1)
        for topic, queue_id in ((0, 0), (options.topics - 1, options.queues - 1)):
            while not await min_offset(connections[0], topic_name(topic), queue_id):
                await asyncio.sleep(0.05)
                if time.monotonic() - began > PATIENCE_S:
                    raise SystemExit(f"no log file was deleted, or no queue begins later, in {PATIENCE_S:g} s")
        await asyncio.sleep(SETTLE_S)
        steps = watch.between(began, time.monotonic(), self._idle)
        self._table.steps("retention", steps, f"{files - len(list(log.iterdir()))} log files")
        drops = [Request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic_name(n)}) for n in range(options.drops)]
        began = time.monotonic()
        refused = await answered(connections, drops, DROPS_UNDER_WAY)
        ended = time.monotonic()
        await asyncio.sleep(SETTLE_S)
        steps = watch.between(began, time.monotonic(), self._idle)
        words = f"in {ended - began:.1f} s" + (f", {refused} REFUSED" if refused else "")
        self._table.steps(f"{len(drops):,} topics dropped", steps, words)
        self._table.good = self._table.good and not refused
        _close(connections)

    # --- recovery ---------------------------------------------------------------------------------------------------

    def _recovery(self) -> None:
        root, log_bytes = self._folder / "log", int(self._options.log_mb * MB)
        apart(fill_log, root, log_bytes, 1000, code=KILLED)
        os.sync()

        async def start() -> tuple[float, int, int]:
            world = real_world()
            context = StoreContext(world, root, Settings(SCHEMA), lambda sentence: None)
            store, began = MmapStore(context), time.perf_counter()
            report = await store.start()
            took_s = time.perf_counter() - began
            await store.stop()
            await world.workers.close()
            return took_s, report.log_end, report.records_checked

        took_s, end, records = asyncio.run(start())
        more = f"{end / MB:.0f} MB and {records:,} records in {took_s:.2f} s"
        self._table.least("recovery of the log after kill -9", end / MB / took_s, "MB/s", GOAL_RECOVERY_MB_S, more)


async def asked(connections: list[Connection], requests: list[Request], under_way: int) -> None:
    """Send all requests and wait for the answers; a refusal ends the program."""
    if refused := await answered(connections, requests, under_way):
        raise SystemExit(f"the broker refused {refused} of {len(requests)} requests")


async def answered(connections: list[Connection], requests: list[Request], under_way: int) -> int:
    """Send all requests and wait for the answers; return the number of refusals."""
    pump = Pump(connections, iter(requests).__next__, under_way)
    await pump.send(len(requests))
    return pump.refused.total()


async def min_offset(connection: Connection, topic: str, queue_id: int) -> int:
    """The first offset that a queue still has."""
    answer = await connection.call(Request(RequestCode.GET_MIN_OFFSET, {"topic": topic, "queueId": str(queue_id)}))
    found = re.search(rb'"offset":"?(\d+)', answer.header)
    if answer.code or found is None:
        raise SystemExit(f"asked for the first offset of {topic}/{queue_id}, the broker says {answer.header!r}")
    return int(found[1])


def commit(topic: str, queue_id: int, queue_offset: int, group: str) -> Request:
    """Send a commit that is answered, which limits the number in flight."""
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(queue_offset)}
    return Request(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


async def until(true: Callable[[], bool]) -> None:
    """Check every 10 ms; exit the program after `PATIENCE_S`."""
    give_up = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > give_up:
            raise SystemExit(f"waited {PATIENCE_S:g} s for nothing")
        await asyncio.sleep(0.01)


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


def main() -> int:
    """Measure and print; return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=whole(1), default=5000)
    parser.add_argument("--queues", type=whole(1), default=8, help="of each topic")
    parser.add_argument("--messages", type=whole(1), default=3, help="in each queue before the clean stop")
    parser.add_argument("--behind", type=whole(1), default=1, help="messages more in each queue before kill -9")
    parser.add_argument("--drops", type=whole(1), default=1500, help="topics that are dropped")
    parser.add_argument("--body", type=whole(1), default=100, help="bytes of a body")
    parser.add_argument("--file-mb", type=whole(1), default=16, help="size of a log file")
    parser.add_argument("--log-mb", type=whole(0), default=428, help="log of the recovery, 0 for none")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="life: from start to stop")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    options = parser.parse_args()
    options.drops = min(options.drops, options.topics)
    raise_descriptor_limit(4096)
    print(f"load of this machine {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="gantrymq-many-", dir=options.store) as folder:
        return 0 if Bench(options, Path(folder)).run() else 1


if __name__ == "__main__":
    sys.exit(main())
