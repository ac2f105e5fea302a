"""Pop consumption of a backlog through the official Java client: GantryMQ and a Java broker on one machine.

    python benchmarks/bench_pop_java.py                                   200,000 messages of 1 KB, 3 rounds
    python benchmarks/bench_pop_java.py --quick                           40,000 messages, one round

Each server's store is filled once, by our raw load over the wire. Then the servers run in turn on their
stores, never both at once. Threads of one client, 1 and 64, pop 32 messages at a time for a new group,
acknowledge each message, and wait for the answers before they pop again. The first messages are not counted, while the
JVM warms up. The figures are medians over the rounds, the ratio is ours over Java's. Needs Java and Maven (the jars are
downloaded once, see tests/interop).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arguments import existing_folder, whole
from bench_consume_java import fill
from load_client import new_loop
from servers_in_turn import DEFAULT_SIZES, NAMES, GantryServer, JavaBroker, JavaNameServer, Pops, Rates, create_topic

TOPIC = "DrainLoad"
QUEUES = 8
GOALS = {"pop, 1 thread": 1.5, "pop, 64 threads": 1.5}
THREADS = (1, 64)
SETTINGS = {"flushDiskType": "ASYNC_FLUSH", "brokerName": "broker-a"}


@contextmanager
def server(name: str, scratch: Path, version: str, store: Path) -> Iterator[tuple[str, str]]:
    """A running name server and broker on *store*; yields their addresses."""
    if name == "gantrymq":
        with GantryServer.both(scratch, store=store, settings=SETTINGS) as running:
            yield running.namesrv, running.broker_address
            return
    more = {**SETTINGS, **DEFAULT_SIZES, "timerWheelEnable": "true"}
    with (
        JavaNameServer(version, scratch / "namesrv") as namesrv,
        JavaBroker(version, scratch / "broker", namesrv.address, store=store, settings=more) as broker,
    ):
        yield namesrv.address, broker.address


def main() -> int:
    """Fill both stores, run the rounds and print the table; return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=whole(1), default=200_000)
    parser.add_argument("--warmup", type=whole(0), default=50_000, help="of these so many are not counted")
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--server", default="5.3.3", help="version of the Java broker")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    parser.add_argument("--quick", action="store_true", help="40,000 messages, 10,000 of them not counted, one round")
    options = parser.parse_args()
    if options.quick:
        options.messages, options.warmup, options.rounds = 40_000, 10_000, 1
    if options.warmup >= options.messages:
        parser.error(f"--warmup {options.warmup}: of {options.messages} messages none would count")
    rates = Rates()
    with tempfile.TemporaryDirectory(prefix="gantrymq-pop-", dir=options.store) as folder:
        root = Path(folder)
        for name in NAMES:
            with server(name, root / f"fill-{name}", options.server, root / name) as (namesrv, _):
                create_topic(namesrv, TOPIC, queues=QUEUES)
                with asyncio.Runner(loop_factory=new_loop) as runner:
                    runner.run(fill(namesrv, options.messages, options.size))
            print(f"{name}: {options.messages:,} messages stored", flush=True)
        for number in range(1, options.rounds + 1):
            for name in NAMES:
                scratch = root / f"round-{number}-{name}"
                with server(name, scratch, options.server, root / name) as (namesrv, broker):
                    for threads in THREADS:
                        with Pops(scratch / f"client-{threads}", namesrv, broker, tuning=()) as pops:
                            group = f"pop-{number}-{threads}"
                            report = pops.drain(
                                TOPIC, group, threads=threads, count=options.messages, warmup=options.warmup
                            )
                        what = f"pop, {threads} thread{'s' if threads > 1 else ''}"
                        rates.add(what, name, report["messagesPerSecond"])
                        print(
                            f"round {number}, {name:8} {what}: {report['messagesPerSecond']:9,.0f} messages/s, "
                            f"{report['messages']:,} in {report['seconds']:.1f} s, {report['failed']} failed",
                            flush=True,
                        )
    return 0 if rates.show("messages/s", GOALS) else 1


if __name__ == "__main__":
    sys.exit(main())
