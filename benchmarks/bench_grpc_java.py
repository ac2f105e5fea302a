"""Sends and receives of the official Java client for gRPC: GantryMQ and Java's proxy in local mode on one machine.

    python benchmarks/bench_grpc_java.py            1, 64 and 256 operations in flight, 3 rounds
    python benchmarks/bench_grpc_java.py --quick    a tenth of the messages, one round

The servers run in turn, never both at once, each on a new store with asynchronous flush. One client sends 1 KB bodies
with a number of sends in flight, then new groups receive them: a receive asks for 16 messages, and acknowledges each
before the next receive begins. The first operations are not counted, while the JVMs warm up. A duration of a receive
includes its acknowledgements. CPU is that of the server's whole process, resident memory that at the end of the round.
The figures are medians over the rounds. Needs Java and Maven (the jars are downloaded once, see tests/interop).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from arguments import whole
from servers_in_turn import DEFAULT_SIZES, NAMES, GantryServer, JavaNameServer, JavaProxy, SdkLoad, create_topic

VERSION: Final = "5.3.3"
SDK: Final = "5.0.8"
TOPIC: Final = "GrpcLoad"
QUEUES: Final = 8
MOST: Final = 16
IN_FLIGHT: Final = {1: 4_000, 64: 40_000, 256: 40_000}  # operations in flight: messages
FASTER: Final = 3.0  # goal: our rate over Java's
SOONER: Final = 0.5  # goal: our p99 over Java's
GOAL_US: Final = 250  # CPU of a send with 64 in flight
FLUSH: Final = {"flushDiskType": "ASYNC_FLUSH"}


class Server(NamedTuple):
    """A running server."""

    namesrv: str
    endpoint: str
    pid: int

    def cpu_s(self) -> float:
        """Return the processor time of the process and of its threads so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        """Return the resident memory of the process."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def running(name: str, scratch: Path) -> Iterator[Server]:
    """A server with a new store."""
    if name == "gantrymq":
        settings = {**FLUSH, "listeners": "sdk=grpc://127.0.0.1:0"}
        with GantryServer.both(scratch, settings=settings) as ours:
            yield Server(ours.namesrv, str(ours.ready["listeners"]["sdk"]), ours.pid)
        return
    settings = {**FLUSH, **DEFAULT_SIZES, "timerWheelEnable": "true"}
    with (
        JavaNameServer(VERSION, scratch / "namesrv") as namesrv,
        JavaProxy(VERSION, scratch / "proxy", namesrv.address, settings=settings) as proxy,
    ):
        yield Server(namesrv.address, proxy.endpoint, proxy.pid)


class Figures:
    """Results by measurement, unit and server."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(self, what: str, unit: str, name: str, value: float) -> None:
        """Note one round."""
        self._found[what, unit, name].append(value)

    def show(self) -> bool:
        """Print medians and ratios, ours over Java's; return whether every goal is met."""
        print(f"\n{'':26} {'':12} {'java':>10} {'gantrymq':>10} {'ratio':>6}   goal")
        good = True
        for what, unit in dict.fromkeys(key[:2] for key in self._found):
            theirs, ours = (statistics.median(self._found[what, unit, name]) for name in NAMES)
            goal, met = _goal(what, unit, theirs, ours)
            good = good and met
            words = f"{goal}, {'met' if met else 'MISSED'}" if goal else "-"
            print(f"{what:26} {unit:12} {theirs:10,.0f} {ours:10,.0f} {ours / theirs:6.2f}   {words}")
        return good


def _goal(what: str, unit: str, theirs: float, ours: float) -> tuple[str, bool]:
    """Return the words of a goal and whether it is met; no words without a goal."""
    if unit == "messages/s":
        return f"at least {FASTER}", ours >= FASTER * theirs
    if unit == "p99 us":
        return f"at most {SOONER}", ours <= SOONER * theirs
    if unit == "CPU us" and what == "send, 64 in flight":
        return f"at most {GOAL_US} us", ours <= GOAL_US
    return "", True


def measure(server: Server, name: str, load: SdkLoad, share: float, figures: Figures) -> None:
    """Run all measurements of a round at a server."""
    sent = 0
    for in_flight, messages in IN_FLIGHT.items():
        count = int(messages * share)
        report, cpu_s = load.measure(f"send {count} {count // 4} {in_flight} 1024", server.cpu_s)
        _add(figures, f"send, {in_flight} in flight", name, report, cpu_s)
        sent += count
    for in_flight, messages in IN_FLIGHT.items():
        count = min(int(messages * share), sent - MOST * in_flight)
        words = f"receive group{in_flight}x {count} {count // 4} {in_flight} {MOST}"
        report, cpu_s = load.measure(words, server.cpu_s)
        _add(figures, f"receive, {in_flight} in flight", name, report, cpu_s)
    figures.add("server", "resident MB", name, server.resident_mb())


def _add(figures: Figures, what: str, name: str, report: dict[str, float], cpu_s: float) -> None:
    assert report["failed"] == 0, (what, name, report)
    figures.add(what, "messages/s", name, report["perSecond"])
    figures.add(what, "p50 us", name, report["p50Us"])
    figures.add(what, "p99 us", name, report["p99Us"])
    figures.add(what, "CPU us", name, cpu_s / report["messages"] * 1e6)
    print(
        f"{name:8} {what:26} {report['perSecond']:8,.0f} messages/s, p50 {report['p50Us'] / 1e3:7.2f} ms, p99 "
        f"{report['p99Us'] / 1e3:7.2f} ms, {cpu_s / report['messages'] * 1e6:5.0f} us CPU each",
        flush=True,
    )


def main() -> int:
    """Run the rounds and print the table; return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, one round")
    options = parser.parse_args()
    rounds, share = (1, 0.1) if options.quick else (options.rounds, 1.0)
    print(f"load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="gantrymq-grpc-") as folder:
        for number in range(1, rounds + 1):
            for name in NAMES:
                scratch = Path(folder) / f"round-{number}-{name}"
                with running(name, scratch) as server:
                    create_topic(server.namesrv, TOPIC, queues=QUEUES)
                    with SdkLoad(SDK, scratch / "client", server.endpoint, TOPIC) as load:
                        measure(server, name, load, share, figures)
    return 0 if figures.show() else 1


if __name__ == "__main__":
    sys.exit(main())
