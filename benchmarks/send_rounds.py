"""Rounds of sends by the official Java client to each server in turn; shared by the benchmarks of sends."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attrs
from arguments import FLUSH_MODES, whole
from servers_in_turn import BARE, NAMES, Driver, Rates, bare_server, create_topic, server

__all__ = ["FLUSH_MODES", "THREADS", "SendRounds"]

QUEUES = 8
SIZE = 1024  # bytes of a body
LOAD_DEADLINE_S = 300.0
THREADS = (64, 1)


@attrs.frozen
class SendRounds:
    """A benchmark of sends: threads times flush modes times rounds, Java and ours in turn.

    Attributes:
        doc: the benchmark's description, for ``--help``.
        topic: the target of the sends; each round creates it again.
        goals: the required ratio, by flush mode and threads.
        flags: flags of the load program.
        options: options of the load program.
        after: gets the load's report and the name server's address, checks the stored messages, and returns a few words
            for the round's line; raises SystemExit if the check fails.
        may_be_bare: whether there is ``--bare``.
        serve: starts the servers, as `servers_in_turn.server` does.
        others: more names that *serve* knows, with words for the table.
    """

    doc: str
    topic: str
    goals: dict[tuple[str, int], float]
    flags: tuple[str, ...] = ()
    options: dict[str, Any] = attrs.field(factory=dict)
    after: Callable[[dict[str, Any], str], str] | None = None
    may_be_bare: bool = False
    serve: Callable[..., AbstractContextManager[str]] = server
    others: dict[str, str] = attrs.field(factory=dict)

    def main(self) -> int:
        """Run the rounds and print the table; return 0 if the goals are met."""
        options = self._parsed()
        rates = Rates()
        for flush in options.flush:
            for threads in options.threads:
                for number in range(1, options.rounds + 1):
                    for name in (*NAMES, *self.others, BARE) if options.bare else (*NAMES, *self.others):
                        report, seen = self._round(options, name, flush, threads)
                        rates.add(_label(flush, threads), name, report["sendsPerSecond"])
                        print(
                            f"{flush} {threads:3} threads, round {number}, {name:8}: "
                            f"{report['sendsPerSecond']:9,.0f} sends/s, p50 {report['p50Ms']:.2f} ms, "
                            f"p99 {report['p99Ms']:.2f} ms{seen}",
                            flush=True,
                        )
        goals = {_label(flush, threads): goal for (flush, threads), goal in self.goals.items()}
        return 0 if rates.show("sends/s", goals, {BARE: "a bare loop instead", **self.others}) else 1

    def _parsed(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(description=self.doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--rounds", type=whole(1), default=3)
        parser.add_argument("--warmup", type=whole(0), default=25, help="seconds before counting")
        parser.add_argument("--seconds", type=whole(1), default=10, help="seconds that count")
        parser.add_argument("--threads", type=whole(1), nargs="+", default=list(THREADS))
        parser.add_argument("--flush", nargs="+", choices=FLUSH_MODES, default=list(FLUSH_MODES))
        parser.add_argument("--server", default="5.3.3", help="version of the Java broker")
        parser.add_argument("--client", default="5.3.3", help="version of the Java client")
        parser.set_defaults(bare=False)
        if self.may_be_bare:
            parser.add_argument("--bare", action="store_true", help="measure bare_server.py as well")
        parser.add_argument("--quick", action="store_true", help="one round, 10 s of warm-up, 5 s that count")
        options = parser.parse_args()
        if options.quick:
            options.rounds, options.warmup, options.seconds = 1, 10, 5
        return options

    def _round(self, options: argparse.Namespace, name: str, flush: str, threads: int) -> tuple[dict[str, Any], str]:
        """Start a server on an empty store, load it, stop it; return the load's report and the result of `after`."""
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            if name == BARE:
                with bare_server(scratch, self.topic) as address:
                    return self._load(options, address, scratch / "load", threads), ""
            with self.serve(name, flush, scratch, version=options.server) as namesrv:
                create_topic(namesrv, self.topic, queues=QUEUES)
                report = self._load(options, namesrv, scratch / "load", threads)
                return report, self.after(report, namesrv) if self.after else ""

    def _load(self, options: argparse.Namespace, namesrv: str, scratch: Path, threads: int) -> dict[str, Any]:
        driver = Driver(options.client, scratch, namesrv)
        events = driver.run(
            "bench-send",
            *self.flags,
            deadline_s=LOAD_DEADLINE_S,
            topic=self.topic,
            threads=threads,
            warmup=options.warmup,
            seconds=options.seconds,
            size=SIZE,
            **self.options,
        )
        report = next(event for event in events if event["event"] == "load")
        if report["errors"]:
            raise SystemExit(f"{report['errors']} sends failed, the first with: {report['firstError']}")
        return report


def _label(flush: str, threads: int) -> str:
    return f"{flush}, {threads} threads"
