"""A consumer whose SQL92 filter keeps 1 % of a backlog: GantryMQ and a Java broker, and both kinds of filters.

    python benchmarks/bench_filtered_backlog.py                           1,000,000 messages of 1 KB in each layout
    python benchmarks/bench_filtered_backlog.py --quick                   100,000, one round
    python benchmarks/bench_filtered_backlog.py --layouts bursts --modes off
    python benchmarks/bench_filtered_backlog.py --blocks                  block filters only, without Java

Messages have one of 100 values of a property, and the official Java client consumes those with one of the values by
push, from the beginning to the end. Two layouts:

    spread   the values in turn: each part of a queue has all of them
    bursts   in each queue a value comes in five runs: most parts do not have it

For the rates, servers run in turn, never two at once, each on its own store that was filled over the wire:

    off      every message is evaluated
    bits     RocketMQ's bit map: computed for each message on arrival, for the groups known by then

The rate is that of the backlog, messages that do not match included, from the first fifth of the matches (the JVM warms
up) to the last. The figures are medians over the rounds. Each line also has the CPU time of the broker per message of
the backlog, from start to end, which depends less on other load of the machine. The stores need 5 KB a message. Needs
Java and Maven (the jars are downloaded once, see tests/interop). Block filters are off.

With --blocks, two GantryMQ brokers with equal stores run at the same time, with and without block filters, and READINGS
groups, each with another value, read the backlog in turn by bare pulls, which alternate between the two brokers. The
rows are ratios of their CPU times:

    bursts, first reading     goal 1.02: nothing is collected yet
    bursts, second reading    goal 1.3: values are collected, and block filters built
    bursts, later readings    goal 0.4: blocks are skipped
    spread, all readings      goal 1.05: no block is worth a filter
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from arguments import existing_folder, whole
from load_client import Connection, Pump, Request, connect, new_loop, pull_request, send_request
from servers_in_turn import DEFAULT_SIZES, Driver, GantryServer, JavaBroker, JavaNameServer, create_topic, route_of

QUEUES = 8
VALUES = 100
RUNS = 5
CHOSEN = 7
SQL = f"tenant = 't{CHOSEN}'"
LAYOUTS = ("spread", "bursts")
MODES = ("off", "bits")
GOAL = 1.0
FILLING_CONNECTIONS, FILLING_UNDER_WAY = 4, 256
DEADLINE_S = 600
BITS = {"enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}
WITHOUT_BLOCKS = {"sql92BlockFilterBytes": "0"}
READINGS = 5
BLOCK_GOALS = {  # of the CPU without block filters
    ("bursts", "first reading"): 1.02,
    ("bursts", "second reading"): 1.3,
    ("bursts", "later readings"): 0.4,
    ("spread", "all readings"): 1.05,
}


@contextmanager
def running(name: str, scratch: Path, store: Path, version: str, settings: dict[str, str]) -> Iterator[tuple[str, int]]:
    """A name server and a broker on *store*; yields the name server's address and the broker's process id."""
    settings = {"flushDiskType": "ASYNC_FLUSH", "enablePropertyFilter": "true", **settings}
    if name == "gantrymq":
        ours = GantryServer.both(scratch, store=store, settings=settings)
        try:
            yield ours.namesrv, ours.pid
        finally:
            ours.stop()
        return
    name_server = JavaNameServer(version, scratch / "namesrv")
    try:
        broker = JavaBroker(
            version, scratch / "broker", name_server.address, store=store, settings={**DEFAULT_SIZES, **settings}
        )
        try:
            yield name_server.address, broker.pid
        finally:
            broker.stop()
    finally:
        name_server.stop()


def group_of(layout: str, mode: str, number: int) -> str:
    """Each round has a new group, which starts at the beginning."""
    return f"{layout}-{mode}-{number}"


async def fill(namesrv: str, layout: str, count: int, size: int) -> None:
    """Store *count* messages, evenly over the queues."""
    found = re.search(r'"?0"?:"([^"]+)"', route_of(namesrv, layout) or "")
    if found is None:
        raise SystemExit(f"the name server {namesrv} has no route of {layout}")
    connections = await connect(found[1], FILLING_CONNECTIONS)
    requests = [
        [send_request(layout, queue, b"x" * size, more_properties=f"tenant\x01t{value}\x02") for value in range(VALUES)]
        for queue in range(QUEUES)
    ]
    run = 1 if layout == "spread" else max(1, count // QUEUES // VALUES // RUNS)
    turn = 0

    def next_request() -> Request:
        nonlocal turn
        turn += 1
        return requests[turn % QUEUES][turn // QUEUES // run % VALUES]

    pump = Pump(connections, next_request, FILLING_UNDER_WAY)
    missing = count
    while missing:  # a busy Java broker refuses some (code 2): they are sent again
        before = sum(pump.refused.values())
        await pump.send(missing)
        missing = sum(pump.refused.values()) - before
    for connection in connections:
        connection.close()


def make(options: argparse.Namespace, name: str, root: Path, *, bits: bool) -> None:
    """Fill the store of a server; groups that need bits exist before the first message."""
    store = root / f"{name}-{'bits' if bits else 'plain'}"
    began = time.monotonic()
    with running(name, root / f"fill-{store.name}", store, options.server, BITS if bits else {}) as (namesrv, _):
        driver = Driver(options.client, root / f"known-{store.name}", namesrv)
        for layout in options.layouts:
            create_topic(namesrv, layout, queues=QUEUES)
            if bits:
                known = [
                    driver.start(
                        "bench-drain", topic=layout, group=group_of(layout, "bits", number), sql=SQL, deadline=8
                    )
                    for number in range(1, options.rounds + 1)
                ]
                for each in known:
                    with suppress(RuntimeError):  # it receives no message, and therefore ends
                        each.finish(60.0)
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(fill(namesrv, layout, options.messages, options.size))
    print(f"{store.name}: {len(options.layouts) * options.messages:,} messages in {time.monotonic() - began:.0f} s")


def drain(options: argparse.Namespace, namesrv: str, scratch: Path, layout: str, group: str) -> float:
    """Consume the matches; return messages of the backlog per second. Raises RuntimeError if some are missing."""
    matching = options.messages // VALUES
    warmup = matching // 5
    events = Driver(options.client, scratch, namesrv).run(
        "bench-drain",
        deadline_s=DEADLINE_S + 60.0,
        topic=layout,
        group=group,
        sql=SQL,
        count=matching - matching // 20,  # the last run may have been shortened by resent messages
        warmup=warmup,
        threads=options.threads,
        deadline=DEADLINE_S,
    )
    report = next(event for event in events if event["event"] == "drained")
    return float(report["messagesPerSecond"]) * VALUES


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far; 0 without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(options: argparse.Namespace, root: Path, name: str, layout: str, mode: str, number: int) -> float:
    """One reading of one backlog."""
    store = root / f"{name}-{'bits' if mode == 'bits' else 'plain'}"
    scratch = root / f"{layout}-{mode}-{number}-{name}"
    settings = {**(BITS if mode == "bits" else {}), **(WITHOUT_BLOCKS if name == "gantrymq" else {})}
    with running(name, scratch, store, options.server, settings) as (namesrv, pid):
        cpu_s = -cpu_seconds(pid)
        rate = drain(options, namesrv, scratch / "client", layout, group_of(layout, mode, number))
        cpu_s += cpu_seconds(pid)
    cpu_us = cpu_s / options.messages * 1e6
    print(
        f"{layout}, {mode}, round {number}, {name:8}: {rate:11,.0f} messages/s, {cpu_us:6.2f} us of CPU each",
        flush=True,
    )
    return rate


def show(options: argparse.Namespace, rates: dict[tuple[str, str, str], list[float]]) -> int:
    """Print the table; return 0 if the goal is met."""
    good = True
    print(
        f"\n{'messages of the backlog/s':26} {'java':>11} {'gantrymq':>11} {'ratio':>6}   medians of {options.rounds}"
    )
    for layout in options.layouts:
        for mode in options.modes:
            ours, theirs = (statistics.median(rates[layout, mode, name]) for name in ("gantrymq", "java"))
            words = "good" if ours >= GOAL * theirs else "BELOW THE GOAL"
            good = good and ours >= GOAL * theirs
            print(f"{layout + ', ' + mode:26} {theirs:11,.0f} {ours:11,.0f} {ours / theirs:6.2f}   {words}")
    return 0 if good else 1


# --- block filters --------------------------------------------------------------------------------------------------


def exact_cpu_seconds(pid: int) -> float:
    """Time on a processor of all threads of a process, which `cpu_seconds` counts in steps of 10 ms."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


class Reader:
    """One group that reads the backlog of one broker to its end."""

    def __init__(self, connection: Connection, pid: int, layout: str, value: int) -> None:
        self._connection, self._pid, self._layout = connection, pid, layout
        self._group, self._sql = f"{layout}-t{value}", f"tenant = 't{value}'"
        self._offsets = dict.fromkeys(range(QUEUES), 0)
        self.cpu_s = -exact_cpu_seconds(pid)

    async def step(self) -> bool:
        """Pull once from each queue that has not ended; return whether there was any."""
        if not self._offsets:
            return False
        pulls = [
            self._connection.call(pull_request(self._layout, queue, offset, self._group, sql=self._sql))
            for queue, offset in self._offsets.items()
        ]
        for queue, answer in zip(list(self._offsets), await asyncio.gather(*pulls), strict=True):
            self._offsets[queue] = answer.next_offset
            if answer.next_offset >= answer.max_offset:
                del self._offsets[queue]
        if not self._offsets:
            self.cpu_s += exact_cpu_seconds(self._pid)
        return True


async def readings(layout: str, brokers: dict[str, tuple[str, int]]) -> dict[str, list[float]]:
    """Let each group read the backlog of both brokers, pull by pull in turn; return the CPU seconds of each."""
    connections = {name: (await connect(address))[0] for name, (address, _) in brokers.items()}
    found: dict[str, list[float]] = {name: [] for name in brokers}
    for value in range(CHOSEN, CHOSEN + READINGS):
        readers = {name: Reader(connections[name], pid, layout, value) for name, (_, pid) in brokers.items()}
        while [each for each in readers.values() if await each.step()]:
            pass
        for name, reader in readers.items():
            found[name].append(reader.cpu_s)
    for connection in connections.values():
        connection.close()
    return found


def measure_blocks(options: argparse.Namespace, root: Path) -> int:
    """Print a row for each of BLOCK_GOALS; return 0 if all are met."""
    stores = {"without": root / "gantrymq-plain", "with": root / "gantrymq-copy"}
    make(options, "gantrymq", root, bits=False)
    shutil.copytree(stores["without"], stores["with"])
    spent: dict[tuple[str, str], list[list[float]]] = {}
    for number in range(1, options.rounds + 1):
        for layout in options.layouts:
            servers = [
                GantryServer.both(root / f"{layout}-{number}-{name}", store=store, settings=settings)
                for (name, store), settings in zip(stores.items(), (WITHOUT_BLOCKS, {}), strict=True)
            ]
            brokers = {name: (each.broker_address, each.pid) for name, each in zip(stores, servers, strict=True)}
            with asyncio.Runner(loop_factory=new_loop) as runner:
                found = runner.run(readings(layout, brokers))
            for each in servers:
                each.stop()
            for name, seconds in found.items():
                spent.setdefault((layout, name), []).append(seconds)
                each_us = "  ".join(f"{each / options.messages * 1e6:5.2f}" for each in seconds)
                print(f"{layout}, round {number}, {name:7}: {each_us} us of CPU per message", flush=True)
    parts = {"first": slice(0, 1), "second": slice(1, 2), "later": slice(2, None), "all": slice(None)}
    good = True
    for (layout, what), goal in BLOCK_GOALS.items():
        if layout in options.layouts:
            part = parts[what.split()[0]]
            pairs = zip(spent[layout, "with"], spent[layout, "without"], strict=True)
            ratio = statistics.median(sum(one[part]) / sum(other[part]) for one, other in pairs)
            good = good and ratio <= goal
            words = "good" if ratio <= goal else "ABOVE THE GOAL"
            print(f"{layout + ', ' + what:26} {ratio:6.2f} of the CPU without, goal {goal:.2f}   {words}")
    return 0 if good else 1


def main() -> int:
    """Fill the stores, run the rounds and print the table; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=whole(1), default=1_000_000, help="in each layout")
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    parser.add_argument("--threads", type=whole(1), default=20, help="of the consumer")
    parser.add_argument("--rounds", type=whole(1), default=1)
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=LAYOUTS)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--server", default="5.3.3", help="version of the Java broker")
    parser.add_argument("--client", default="5.3.3", help="version of the Java client")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    parser.add_argument("--blocks", action="store_true", help="compare readings with and without block filters")
    parser.add_argument("--quick", action="store_true", help="100,000 messages")
    options = parser.parse_args()
    if options.quick:
        options.messages = 100_000
    if options.messages < VALUES * QUEUES * RUNS:
        parser.error(f"--messages {options.messages}: the layouts need {VALUES * QUEUES * RUNS}")
    rates: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="gantrymq-filtered-", dir=options.store) as folder:
        root = Path(folder)
        if options.blocks:
            return measure_blocks(options, root)
        for name in ("java", "gantrymq"):
            for mode in options.modes:
                make(options, name, root, bits=mode == "bits")
        for number in range(1, options.rounds + 1):
            for layout in options.layouts:
                for mode in options.modes:
                    for name in ("java", "gantrymq"):
                        rate = measure(options, root, name, layout, mode, number)
                        rates.setdefault((layout, mode, name), []).append(rate)
    return show(options, rates)


if __name__ == "__main__":
    sys.exit(main())
