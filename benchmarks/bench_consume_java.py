"""Consumption of a backlog by push through the official Java client: GantryMQ and a Java broker on one machine.

    python benchmarks/bench_consume_java.py                               1,000,000 messages of 1 KB, 3 rounds
    python benchmarks/bench_consume_java.py --quick                       100,000 messages, one round

Each server's store is filled once, by our raw load over the wire. Then the servers run in turn on their
stores, never both at once, and a push consumer with a new group (20 threads that discard the messages) reads
the backlog from its start. Its first messages are consumed but not counted while its JVM warms up; the rate is that of
the rest. The figures are medians over the rounds, the ratio is ours over Java's. The stores need some 1.3 KB per
message and server. Needs Java and Maven (the jars are downloaded once, see tests/interop).
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from arguments import existing_folder, whole
from load_client import Pump, Request, connect, new_loop, send_request
from servers_in_turn import NAMES, Driver, Rates, create_topic, route_of, server

TOPIC = "DrainLoad"
QUEUES = 8
GOAL = 1.5
FILLING_CONNECTIONS, FILLING_UNDER_WAY = 4, 256
DEADLINE_S = 600


async def fill(namesrv: str, count: int, size: int) -> None:
    """Store *count* messages, evenly over the queues."""
    found = re.search(r'"?0"?:"([^"]+)"', route_of(namesrv, TOPIC) or "")
    if found is None:
        raise SystemExit(f"the name server {namesrv} has no route of {TOPIC}")
    connections = await connect(found[1], FILLING_CONNECTIONS)
    requests = [send_request(TOPIC, queue, b"x" * size) for queue in range(QUEUES)]
    turn = 0

    def next_request() -> Request:
        nonlocal turn
        turn = (turn + 1) % QUEUES
        return requests[turn]

    pump = Pump(connections, next_request, FILLING_UNDER_WAY)
    missing = count
    while missing:  # a busy Java broker refuses some (code 2): they are sent again
        before = sum(pump.refused.values())
        await pump.send(missing)
        missing = sum(pump.refused.values()) - before
    for connection in connections:
        connection.close()


def drain(options: argparse.Namespace, namesrv: str, scratch: Path, group: str) -> dict[str, Any]:
    """Consume the backlog and return the client's report."""
    driver = Driver(options.client, scratch, namesrv)
    events = driver.run(
        "bench-drain",
        deadline_s=DEADLINE_S + 60.0,
        topic=TOPIC,
        group=group,
        count=options.messages,
        warmup=options.warmup,
        threads=options.threads,
        deadline=DEADLINE_S,
    )
    return next(event for event in events if event["event"] == "drained")


def main() -> int:
    """Fill both stores, run the rounds and print the table; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=whole(1), default=1_000_000)
    parser.add_argument("--warmup", type=whole(0), default=200_000, help="of these so many are not counted")
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    parser.add_argument("--threads", type=whole(1), default=20, help="of the consumer")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--server", default="5.3.3", help="version of the Java broker")
    parser.add_argument("--client", default="5.3.3", help="version of the Java client")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    parser.add_argument("--quick", action="store_true", help="100,000 messages, 20,000 of them not counted, one round")
    options = parser.parse_args()
    if options.quick:
        options.messages, options.warmup, options.rounds = 100_000, 20_000, 1
    if options.warmup >= options.messages:
        parser.error(f"--warmup {options.warmup}: of {options.messages} messages none would count")
    rates = Rates()
    with tempfile.TemporaryDirectory(prefix="gantrymq-drain-", dir=options.store) as folder:
        root = Path(folder)
        for name in NAMES:
            with server(
                name, "ASYNC_FLUSH", root / f"fill-{name}", version=options.server, store=root / name
            ) as namesrv:
                create_topic(namesrv, TOPIC, queues=QUEUES)
                with asyncio.Runner(loop_factory=new_loop) as runner:
                    runner.run(fill(namesrv, options.messages, options.size))
            print(f"{name}: {options.messages:,} messages stored", flush=True)
        for number in range(1, options.rounds + 1):
            for name in NAMES:
                scratch = root / f"round-{number}-{name}"
                with server(name, "ASYNC_FLUSH", scratch, version=options.server, store=root / name) as namesrv:
                    report = drain(options, namesrv, scratch / "client", f"drain-{number}")
                rates.add("push", name, report["messagesPerSecond"])
                print(
                    f"round {number}, {name:8}: {report['messagesPerSecond']:9,.0f} messages/s, "
                    f"{report['messages']:,} in {report['seconds']:.1f} s",
                    flush=True,
                )
    return 0 if rates.show(f"{options.threads} threads, messages/s", {"push": GOAL}) else 1


if __name__ == "__main__":
    sys.exit(main())
