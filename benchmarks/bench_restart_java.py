"""Restart on a store of two million messages, and queries by key on it: GantryMQ and a Java broker.

    python benchmarks/bench_restart_java.py                      three rounds
    python benchmarks/bench_restart_java.py --messages 200000 --rounds 1

The store is created once, by ours, every message with its own unique key, and closed cleanly; then both servers
open it in turn, each with RocketMQ's default file sizes. A restart is timed from before the process is created: ours to
its ready line, when it serves and is registered, with a name server in the same process; Java's to its "boot success",
with a name server that is already running (it registers its topics some seconds later, which is not counted). A query
looks up one existing key, drawn at random, with request 12 over raw connections; both get the same keys in the same
order, after a warm-up that is not counted, and each answer must contain a message. Needs Java and Maven (the jars are
downloaded once, see tests/interop).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arguments import existing_folder, whole
from filled_store import TOPIC, fill, unique_key
from load_client import Answer, BrokerProcess, Connection, Pump, Request, connect, new_loop, percentile
from servers_in_turn import DEFAULT_SIZES, NAMES, JavaBroker, JavaNameServer, Rates

from gantrymq.world.real import real_world

QUERY_MESSAGE = 12
CONNECTIONS = 4
UNDER_WAY = (1, 16)
INDEXED_S = 300.0
RESTARTS = "restarts a minute"


class TimedBroker(JavaBroker):
    """A Java broker that knows when it had booted."""

    booted_at = 0.0

    def wait_for_start(self, *args: Any) -> Any:
        """As `Process.wait_for_start`; the constructor calls it for "boot success"."""
        found = super().wait_for_start(*args)
        self.booted_at = time.perf_counter()
        return found


@contextmanager
def opened(name: str, store: Path, scratch: Path, version: str) -> Iterator[tuple[str, float]]:
    """A broker on *store*; yields its address, and the seconds until it was ready."""
    if name == "java":
        name_server = JavaNameServer(version, scratch / "namesrv")
        try:
            began = time.perf_counter()
            java = TimedBroker(
                version, scratch / "broker", name_server.address, store=store, settings=dict(DEFAULT_SIZES)
            )
            try:
                yield java.address, java.booted_at - began
            finally:
                java.stop()
        finally:
            name_server.stop()
    else:
        began = time.perf_counter()
        with BrokerProcess(DEFAULT_SIZES, store=store, scratch=scratch) as ours:
            yield ours.address, time.perf_counter() - began


def query_request(number: int) -> Request:
    """Query message *number* of the store by its key. Source: header/QueryMessageRequestHeader.java."""
    ext = {
        "topic": TOPIC,
        "key": unique_key(number).decode(),
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(2**63 - 1),
    }
    return Request(QUERY_MESSAGE, ext)


class Checked(Connection):
    """A connection on which every answer must contain a message; the first other answer is kept."""

    bad: Answer | None = None

    def ask(self, request: Request, done: Callable[[Connection, Answer], None]) -> None:
        """Send a request, like `Connection.ask`."""

        def checked(connection: Connection, answer: Answer) -> None:
            if self.bad is None and (answer.code or not answer.body_bytes):
                self.bad = answer
            done(connection, answer)

        super().ask(request, checked)


async def query(address: str, options: argparse.Namespace, seed: int, under_way: int) -> tuple[float, list[float]]:
    """Query many keys; return queries per second, and the seconds each took, ascending.

    Raises:
        SystemExit: an answer contained no message.
    """
    connections = await connect(address, min(CONNECTIONS, under_way), kind=Checked)
    drawn = random.Random(seed)
    numbers = [drawn.randrange(options.messages) for _ in range(options.warmup + options.queries)]
    requests = iter([query_request(number) for number in numbers])
    pump = Pump(connections, lambda: next(requests), under_way)
    await pump.send(options.warmup)
    pump.keep_times = True
    began = time.perf_counter()
    await pump.send(options.queries)
    took = time.perf_counter() - began
    for connection in connections:
        connection.close()
        if isinstance(connection, Checked) and connection.bad is not None:
            raise SystemExit(f"a query was answered without a message: {connection.bad.header!r}")
    return options.queries / took, sorted(pump.times)


async def indexed(address: str, messages: int) -> None:
    """Wait until every message is found by its key: at full speed, the index is slightly behind the store.

    Raises:
        SystemExit: that took too long.
    """
    (connection,) = await connect(address)
    until = time.perf_counter() + INDEXED_S
    while (await connection.call(query_request(messages - 1))).code:
        if time.perf_counter() > until:
            raise SystemExit(f"the newest message is not in the index after {INDEXED_S:g} s")
        await asyncio.sleep(0.5)
    connection.close()


def one_round(name: str, number: int, options: argparse.Namespace, store: Path, rates: Rates) -> None:
    """Open the store, query it, close it."""
    with tempfile.TemporaryDirectory() as scratch, opened(name, store, Path(scratch), options.server) as (at, took_s):
        rates.add(RESTARTS, name, 60 / took_s)
        print(f"round {number}, {name:8}: ready in {took_s:6.2f} s", flush=True)
        for under_way in UNDER_WAY:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                rate, times = runner.run(query(at, options, number, under_way))
            rates.add(f"queries/s, {under_way} under way", name, rate)
            p50, p99 = (percentile(times, share) * 1e3 for share in (0.5, 0.99))
            print(
                f"{'':8} {under_way:3} under way: {rate:9,.0f} queries/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms",
                flush=True,
            )


def main() -> int:
    """Create the store, run the rounds, print the table; return 0 if ours is faster everywhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=whole(1), default=2_000_000)
    parser.add_argument("--body", type=whole(1), default=100, help="bytes of their bodies")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--queries", type=whole(1), default=10_000, help="that count, for each number under way")
    parser.add_argument("--warmup", type=whole(1), default=10_000, help="queries before those")
    parser.add_argument("--server", default="5.3.3", help="version of the Java broker")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the store is made")
    options = parser.parse_args()
    rates = Rates()
    with tempfile.TemporaryDirectory(prefix="gantrymq-restart-", dir=options.store) as folder:
        store = Path(folder) / "store"
        asyncio.run(fill(real_world(), store, options.messages, body_bytes=options.body))
        with BrokerProcess(DEFAULT_SIZES, store=store) as ours:  # warms byte code and page cache as well
            asyncio.run(indexed(ours.address, options.messages))
        for number in range(1, options.rounds + 1):
            for name in NAMES:
                one_round(name, number, options, store, rates)
    print(f"load of this machine {os.getloadavg()[0]:.1f} over the last minute, {os.cpu_count()} cores")
    goals = {RESTARTS: 1.0, **{f"queries/s, {each} under way": 1.0 for each in UNDER_WAY}}
    return 0 if rates.show("store of the same messages", goals) else 1


if __name__ == "__main__":
    sys.exit(main())
