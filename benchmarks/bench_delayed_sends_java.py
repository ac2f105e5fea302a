"""Delayed sends a second through the official Java client: GantryMQ beside a Java broker, in one run on one machine.

    python benchmarks/bench_delayed_sends_java.py              the goals: 64 threads and 1, both flush modes, 3 rounds
    python benchmarks/bench_delayed_sends_java.py --quick --flush ASYNC_FLUSH --threads 64

Each message asks for delay level 18, two hours, so that none is due while it is measured; `bench_delay_burst.py` shows
what comes when they are. A round ends with a look that they wait in the queue of that level.

Each round starts the two servers in turn, never both at once; each takes the same load (1 KB bodies, our small load
program on `rocketmq-client`), whose warm-up is not counted: a JVM needs some 20 s of it. The figures are medians over
the rounds, the ratio is ours over Java's. Needs Java and Maven (the jars are fetched once, see tests/interop).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from arguments import FLUSH_MODES, whole
from servers_in_turn import NAMES, Driver, Rates, create_topic, server

from gantrymq.client import Admin
from gantrymq.model.names import SCHEDULE_TOPIC

TOPIC = "DelayedLoad"
QUEUES = 8
LEVEL = 18
LOAD_DEADLINE_S = 300.0
GOALS = {(flush, threads): 1.0 for flush in FLUSH_MODES for threads in (64, 1)}


def measure(options: argparse.Namespace, namesrv: str, scratch: Path, threads: int) -> dict[str, Any]:
    """Run one load and return its report."""
    driver = Driver(options.client, scratch, namesrv)
    events = driver.run(
        "bench-send",
        deadline_s=LOAD_DEADLINE_S,
        topic=TOPIC,
        threads=threads,
        warmup=options.warmup,
        seconds=options.seconds,
        size=1024,
        delay_level=LEVEL,
    )
    report = next(event for event in events if event["event"] == "load")
    if report["errors"]:
        raise SystemExit(f"{report['errors']} sends failed, the first with: {report['firstError']}")
    waiting, seen = asyncio.run(_stored(namesrv))
    if waiting < report["sends"] or seen:
        raise SystemExit(f"of {report['sends']} delayed messages {waiting} wait, and {seen} can be seen already")
    return report


async def _stored(namesrv: str) -> tuple[int, int]:
    """Messages of the level's queue, and of the topic's own queues."""
    async with Admin(namesrv) as admin:
        (broker,) = await admin.masters()
        levels, own = [await admin.topic_stats(broker, topic) for topic in (SCHEDULE_TOPIC, TOPIC)]
    waiting = sum(each.max_offset for queue, each in levels.items() if queue.queue_id == LEVEL - 1)
    return waiting, sum(each.max_offset for each in own.values())


def main() -> int:
    """Run the rounds and print the table; 0 when the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--warmup", type=whole(0), default=25, help="seconds before counting")
    parser.add_argument("--seconds", type=whole(1), default=10, help="seconds that count")
    parser.add_argument("--threads", type=whole(1), nargs="+", default=[64, 1])
    parser.add_argument("--flush", nargs="+", choices=FLUSH_MODES, default=list(FLUSH_MODES))
    parser.add_argument("--server", default="5.3.3", help="version of the Java broker")
    parser.add_argument("--client", default="5.3.3", help="version of the Java client")
    parser.add_argument("--quick", action="store_true", help="one round, 10 s of warm-up, 5 s that count")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.warmup, options.seconds = 1, 10, 5
    rates = Rates()
    for flush in options.flush:
        for threads in options.threads:
            for number in range(1, options.rounds + 1):
                for name in NAMES:
                    report = one_round(options, name, flush, threads)
                    rates.add(_label(flush, threads), name, report["sendsPerSecond"])
                    print(
                        f"{flush} {threads:3} threads, round {number}, {name:8}: "
                        f"{report['sendsPerSecond']:9,.0f} sends/s, p50 {report['p50Ms']:.2f} ms, "
                        f"p99 {report['p99Ms']:.2f} ms",
                        flush=True,
                    )
    goals = {_label(flush, threads): goal for (flush, threads), goal in GOALS.items()}
    return 0 if rates.show("sends/s", goals) else 1


def one_round(options: argparse.Namespace, name: str, flush: str, threads: int) -> dict[str, Any]:
    """Start a server on an empty store, load it, stop it."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with server(name, flush, scratch, version=options.server) as namesrv:
            create_topic(namesrv, TOPIC, queues=QUEUES)
            return measure(options, namesrv, scratch / "load", threads)


def _label(flush: str, threads: int) -> str:
    return f"{flush}, {threads} threads"


if __name__ == "__main__":
    sys.exit(main())
