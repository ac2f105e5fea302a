"""GantryMQ and a Java broker, one at a time, under the official Java client; shared by the `*_java` benchmarks."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from gantrymq import speedups

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))

import harness
from harness import Driver, GantryServer, JavaNameServer, create_topic, route_of
from harness.pops import Pops
from harness.sdks import SdkLoad

__all__ = [
    "BARE",
    "DEFAULT_SIZES",
    "NAMES",
    "Driver",
    "GantryServer",
    "JavaBroker",
    "JavaNameServer",
    "JavaProxy",
    "Pops",
    "Rates",
    "SdkLoad",
    "bare_server",
    "create_topic",
    "route_of",
    "server",
]

NAMES = ("java", "gantrymq")
BARE = "bare"  # see bare_server.py
DEFAULT_SIZES = {  # RocketMQ's own sizes; the harness has small ones
    "mappedFileSizeCommitLog": "1073741824",
    "mappedFileSizeConsumeQueue": "6000000",
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}


class JavaBroker(harness.JavaBroker):
    """With all of Java's compilers, which tests leave out for a quicker start."""

    tuning = ()


class JavaProxy(harness.JavaProxy):
    """With all of Java's compilers."""

    tuning = ()


def server(
    name: str, flush: str, scratch: Path, *, version: str, store: Path | None = None
) -> AbstractContextManager[str]:
    """A running name server and broker; yields the name server's address.

    Args:
        name: one of NAMES.
        flush: ASYNC_FLUSH or SYNC_FLUSH.
        scratch: folder for configuration and logs, and for the store unless *store* is given.
        version: of the Java broker.
        store: the store's folder; an existing one is opened.
    """
    return _java(flush, scratch, version, store) if name == "java" else _gantry(flush, scratch, store)


@contextmanager
def _gantry(flush: str, scratch: Path, store: Path | None) -> Iterator[str]:
    running = GantryServer.both(scratch, store=store, settings={"flushDiskType": flush})
    try:
        yield running.namesrv
    finally:
        running.stop()


@contextmanager
def _java(flush: str, scratch: Path, version: str, store: Path | None) -> Iterator[str]:
    name_server = JavaNameServer(version, scratch / "namesrv")
    try:
        settings = {"flushDiskType": flush, **DEFAULT_SIZES}
        broker = JavaBroker(version, scratch / "broker", name_server.address, store=store, settings=settings)
        try:
            yield name_server.address
        finally:
            broker.stop()
    finally:
        name_server.stop()


@contextmanager
def bare_server(scratch: Path, topic: str) -> Iterator[str]:
    """`bare_server.py`, which has *topic* only; yields its address, which is also its name server's."""
    program = Path(__file__).resolve().parent / "bare_server.py"
    with subprocess.Popen(
        [sys.executable, program, scratch, topic], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        yield running.stdout.readline().strip()
        running.communicate()  # closes its standard input, which ends it


class Rates:
    """Results of each server, by measurement and round."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, what: str, name: str, rate: float) -> None:
        """Note one round."""
        self._found[what, name].append(rate)

    def show(self, heading: str, goals: dict[str, float], others: Mapping[str, str] | None = None) -> bool:
        """Print medians and ratios, ours over Java's; return whether every goal is met.

        Args:
            heading: of the first column.
            goals: the required ratio for each measurement; one without a goal is printed without a verdict.
            others: what else was measured, and words for it.
        """
        rounds = max(len(each) for each in self._found.values())
        print(f"\nGantryMQ with {speedups.description}")
        print(f"{heading:28} {'java':>10} {'gantrymq':>10} {'ratio':>6} {'goal':>5}   medians of {rounds}")
        good = True
        for what in dict.fromkeys(what for what, _ in self._found):
            theirs, ours = (statistics.median(self._found[what, name]) for name in NAMES)
            ratio, goal = ours / theirs, goals.get(what)
            words = "    -" if goal is None else f"{goal:5.2f}   {'good' if ratio >= goal else 'BELOW THE GOAL'}"
            print(f"{what:28} {theirs:10,.0f} {ours:10,.0f} {ratio:6.2f} {words}")
            good = good and (goal is None or ratio >= goal)
            for name, words in (others or {}).items():
                if more := self._found.get((what, name)):
                    rate = statistics.median(more)
                    print(f"{'  ' + words:28} {theirs:10,.0f} {rate:10,.0f} {rate / theirs:6.2f}")
        return good
