"""Sends a second through the official Java client: GantryMQ beside a Java broker, in one run on one machine.

    python benchmarks/bench_send_java.py                      the goals: 64 threads and 1, both flush modes, 3 rounds
    python benchmarks/bench_send_java.py --quick --flush ASYNC_FLUSH --threads 64

Each round starts the two servers in turn, never both at once; each takes the same load (1 KB bodies, our small load
program on `rocketmq-client`), whose warm-up is not counted: a JVM needs some 20 s of it. The figures are medians over
the rounds, the ratio is ours over Java's. Needs Java and Maven (the jars are fetched once, see tests/interop).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))

from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic

TOPIC = "SendLoad"
QUEUES = 8
LOG_FILE_BYTES = "1073741824"  # RocketMQ's default
LOAD_DEADLINE_S = 300.0


@contextmanager
def gantry(flush: str, scratch: Path) -> Iterator[str]:
    """A GantryMQ server with an empty store; gives its name server's address."""
    server = GantryServer.both(scratch, settings={"flushDiskType": flush})
    try:
        yield server.namesrv
    finally:
        server.stop()


@contextmanager
def java(flush: str, scratch: Path, version: str) -> Iterator[str]:
    """A Java name server and broker with an empty store; gives the name server's address."""
    name_server = JavaNameServer(version, scratch / "namesrv")
    try:
        settings = {
            "flushDiskType": flush,
            "mappedFileSizeCommitLog": LOG_FILE_BYTES,
            "mappedFileSizeConsumeQueue": "6000000",
            "maxHashSlotNum": "5000000",
            "maxIndexNum": "20000000",
        }
        broker = JavaBroker(version, scratch / "broker", name_server.address, settings=settings)
        try:
            yield name_server.address
        finally:
            broker.stop()
    finally:
        name_server.stop()


def measure(client: str, namesrv: str, scratch: Path, threads: int, warmup_s: int, seconds: int) -> dict[str, Any]:
    """Run one load and return its report."""
    create_topic(namesrv, TOPIC, queues=QUEUES)
    driver = Driver(client, scratch, namesrv)
    events = driver.run(
        "bench-send",
        deadline_s=LOAD_DEADLINE_S,
        topic=TOPIC,
        threads=threads,
        warmup=warmup_s,
        seconds=seconds,
        size=1024,
    )
    report = next(event for event in events if event["event"] == "load")
    if report["errors"]:
        raise SystemExit(f"{report['errors']} sends failed, the first with: {report['firstError']}")
    return report


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=25, help="seconds before counting")
    parser.add_argument("--seconds", type=int, default=10, help="seconds that count")
    parser.add_argument("--threads", type=int, nargs="+", default=[64, 1])
    parser.add_argument("--flush", nargs="+", default=["ASYNC_FLUSH", "SYNC_FLUSH"])
    parser.add_argument("--server", default="5.3.3", help="version of the Java broker")
    parser.add_argument("--client", default="5.3.3", help="version of the Java client")
    parser.add_argument("--quick", action="store_true", help="one round, 10 s of warm-up, 5 s that count")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.warmup, options.seconds = 1, 10, 5
    rates: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for flush in options.flush:
        for threads in options.threads:
            for round_number in range(options.rounds):
                for name in ("java", "gantrymq"):
                    with tempfile.TemporaryDirectory() as folder:
                        scratch = Path(folder)
                        server = java(flush, scratch, options.server) if name == "java" else gantry(flush, scratch)
                        with server as namesrv:
                            report = measure(
                                options.client, namesrv, scratch / "load", threads, options.warmup, options.seconds
                            )
                    rates[flush, threads, name].append(report["sendsPerSecond"])
                    print(
                        f"{flush} {threads:3} threads, round {round_number + 1}, {name:8}: "
                        f"{report['sendsPerSecond']:9,.0f} sends/s, p50 {report['p50Ms']:.2f} ms, "
                        f"p99 {report['p99Ms']:.2f} ms",
                        flush=True,
                    )
    print(f"\n{'flush':12} {'threads':>7} {'java':>10} {'gantrymq':>10} {'ratio':>6}   medians of {options.rounds}")
    for flush in options.flush:
        for threads in options.threads:
            ours = statistics.median(rates[flush, threads, "gantrymq"])
            theirs = statistics.median(rates[flush, threads, "java"])
            print(f"{flush:12} {threads:7} {theirs:10,.0f} {ours:10,.0f} {ours / theirs:6.2f}")


if __name__ == "__main__":
    main()
