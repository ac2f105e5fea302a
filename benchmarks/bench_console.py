"""Pages of the web console at thousands of topics, queues and groups: time, size, and what they cost the broker.

    python benchmarks/bench_console.py                            5,000 topics of 8 queues, 2,000 groups, 100 tabs
    python benchmarks/bench_console.py --only /groups --tabs 0    pages that begin so, without the tabs

`gantrymq start` with the store in memory, and `gantrymq console` in a process of its own; steps are those of the
broker's loop (`loop_watch.py`). Every queue has two messages. Every topic is read by one group (`--readers`), which
pulled both messages from every queue and committed one, which makes 40,000 offsets, each with a lag. One more topic is
read by all groups. Some clients (`--clients`) are members of one group and producers of another.

Each page is asked for by a new console first (cold: connections, templates and all lists), then again and again over
some seconds, longer than lists are kept (warm). CPU times are those of one warm request, refreshes of lists included,
the broker's without what it uses when idle; other load does not change them much, but it delays responses. The step is
the CPU time of the longest one.

Then tabs stay open, while some messages are sent: each asks for its page as the script of the page does, every 5 s or
as seldom as the console says. All of them show the home page, or one page each in turn. Without `--history` the console
samples nothing, so that the figures are those of pages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from arguments import existing_folder, seconds, whole
from bench_scrape import WIDE, reads, sends, write_tables
from load_client import (
    BrokerProcess,
    Connection,
    Pump,
    Request,
    connect,
    cpu_s,
    memory_bytes,
    percentile,
    raise_descriptor_limit,
    send_request,
)
from loop_watch import LONG_MS, LoopWatch, idle_log
from many_queues import topic_name

from gantrymq.remoting.codes import RequestCode

UNDER_WAY: Final = 64
SETTLE_S: Final = 0.3
ONLINE: Final = "many-group-0"
KEY: Final = "order-4711"
TABS_S: Final = 5.0  # a page asks for its new state after so long, or as the console says
PATIENCE_S: Final = 30.0
HEARTBEAT_S: Final = 30.0
SEND_S: Final = 0.1  # between two messages while tabs are open

# The goals: issue 34 and the limits of the console.
COLD_MS: Final = 1000.0
WARM_MS: Final = 100.0
PAGE_KB: Final = 40.0
CONSOLE_PERCENT: Final = 1.0
BROKER_PERCENT: Final = 3.0


def pages() -> Iterator[str]:
    """The addresses that are measured; BROKER stands for the broker's name."""
    one, topic, group = topic_name(7), f"/topics/{topic_name(7)}", f"/groups/{ONLINE}"
    yield from ("/", "/topics", "/topics?sort=messages", "/topics?filter=0049", "/topics?rows=200")
    yield from ("/groups", "/groups?sort=name", "/groups?sort=lag&start=1000", "/groups?rows=200")
    yield from (topic, f"{topic}/groups", f"{topic}/producers", f"{topic}/settings", f"{topic}/messages")
    yield from (f"{topic}/messages?key={KEY}", f"{topic}/send", f"/topics/{WIDE}", f"/topics/{WIDE}/groups")
    yield from (group, f"{group}/queues", f"{group}/members", f"{group}/settings")
    yield from (f"{group}/offsets", f"{group}/dlq", f"/history?kind=group&name={ONLINE}")
    yield from ("/clients", "/search?q=many-group-19", f"/search?q={one}", f"/search?q={KEY}&topic={one}")
    yield from ("/brokers", "/brokers/BROKER", "/brokers/BROKER/settings", "/nameservers", "/nameservers/settings")
    yield from ("/delayed", "/transactions", "/audit", "/about", "/account")


class ConsoleProcess:
    """`gantrymq console` on a free port without log-in; ready when the constructor returns."""

    def __init__(self, namesrv: str, folder: Path, python: Sequence[str] = (), more: Sequence[str] = ()) -> None:
        """Start it; *python* are options of the interpreter, *more* of the command."""
        program = Path(sys.executable).parent / "gantrymq"
        options = ("--listen", "127.0.0.1:0", "--no-login", "--state", str(folder), "--output", "json", *more)
        self._child = subprocess.Popen(
            [sys.executable, *python, str(program), "console", "-n", namesrv, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self.pid = self._child.pid
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"gantrymq console ended with {self._child.wait()}")
        found = re.search(r":(\d+)/", json.loads(line)["console"])
        assert found is not None
        self.port = int(found[1])

    def cpu_s(self) -> float:
        """Seconds of CPU of all its threads so far, user and system."""
        return cpu_s(self.pid)

    async def settled(self) -> None:
        """Wait until all templates are compiled, and the history has its first sample."""
        used = -1.0
        while self.cpu_s() - used > SETTLE_S / 10:
            used = self.cpu_s()
            await asyncio.sleep(SETTLE_S)

    def private_bytes(self) -> int:
        """Resident memory without pages of files."""
        return memory_bytes(self.pid, "RssAnon")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.send_signal(signal.SIGTERM)
        self._child.wait(PATIENCE_S)
        assert self._child.stdout is not None
        self._child.stdout.close()


class Response(NamedTuple):
    """What a browser got."""

    status: int
    tag: str
    body: bytes
    took_ms: float
    due_s: float  # after which a page asks again


class Browser:
    """One connection that is kept; a new one if the console closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, tag: str = "") -> Response:
        """Return the response to one request, with the ETag *tag* of the last one."""
        began = time.monotonic()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        known = f"If-None-Match: {tag}\r\n" if tag else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{known}\r\n".encode())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except (asyncio.IncompleteReadError, ConnectionError):  # the console closed it while it was not used
            self.close()
            return await self.get(path, tag)
        size = re.search(r"content-length: (\d+)", head)
        body = await reader.readexactly(int(size[1])) if size is not None else b""
        found = re.search(r'etag: ("\S*")', head)
        took_ms = (time.monotonic() - began) * 1000
        due = re.search(r"gantrymq-refresh: ([\d.]+)", head)
        due_s = float(due[1]) if due is not None else TABS_S
        return Response(int(head.split()[1]), found[1] if found is not None else "", body, took_ms, due_s)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Bench:
    """The measurements at one broker."""

    def __init__(self, options: argparse.Namespace, broker: BrokerProcess, folder: Path) -> None:
        self._options = options
        self._broker = broker
        self._folder = folder
        self._watch = LoopWatch(folder / "steps")
        self._idle = folder / "idle"
        self._idle_share = 0.0  # CPU of the broker without requests, in cores
        self._over: list[str] = []

    async def run(self) -> bool:
        """Fill the broker, measure, print; return whether all goals are met."""
        kept = await self._fill()
        beating = asyncio.ensure_future(self._beat(kept[-self._options.clients :]))
        await asyncio.sleep(self._options.settle)
        self._idle_share = await self._broker_share(self._options.idle)
        with self._console() as console:
            found = await Browser(console.port).get("/api/v1/brokers")
        shown = [each.replace("BROKER", json.loads(found.body)["data"]["brokers"][0]["name"]) for each in pages()]
        print(f"broker when idle: {self._idle_share * 100:.2f} % of a core")
        print(
            f"{'page':40}{'size':>8}{'cold':>10}{'warm p50':>9}{'p95':>9}{'CPU: console':>15}{'broker':>10}{'step':>9}"
        )
        for path in shown:
            if path.startswith(self._options.only):
                await self._page(path)
        if self._options.tabs:
            await self._tabs("home", ["/"], kept)
            await self._tabs("one page each", [each for each in shown if _lives(each)], kept)
        beating.cancel()
        for connection in kept:
            connection.close()
        for each in self._over:
            print(f"ABOVE THE GOAL: {each}")
        return not self._over

    async def _page(self, path: str) -> None:
        with self._console() as console:
            browser = Browser(console.port)
            began = time.monotonic()
            cold = await browser.get(path)
            await console.settled()
            cpu, broker, times = console.cpu_s(), self._broker.cpu_s(), list[float]()
            warm_began = time.monotonic()
            for _ in range(self._options.requests):
                found = await browser.get(path)
                times.append(found.took_ms)
                await asyncio.sleep(self._options.seconds / self._options.requests)
            ended = time.monotonic()
            spent_s = self._broker.cpu_s() - broker - self._idle_share * (ended - warm_began)
            own_ms = (console.cpu_s() - cpu) * 1000 / len(times)
            browser.close()
        steps = self._watch.between(began, ended, self._idle)
        p95, size_kb = percentile(sorted(times), 0.95), len(found.body) / 1000
        print(
            f"{path:40}{size_kb:5.0f} kB{cold.took_ms:7.0f} ms{statistics.median(times):6.0f} ms{p95:6.0f} ms"
            f"{own_ms:12.1f} ms{max(0.0, spent_s) * 1000 / len(times):7.1f} ms{steps.longest_cpu_ms:6.1f} ms"
            f"  idle process {steps.idle_ms:.0f} ms" + ("" if found.status == 200 else f"  STATUS {found.status}"),
            flush=True,
        )
        self._check(f"{path}: cold ms", cold.took_ms, COLD_MS)
        self._check(f"{path}: warm p95 ms", p95, WARM_MS)
        self._check(f"{path}: broker's step, CPU ms", steps.longest_cpu_ms, LONG_MS)
        if "rows=" not in path:
            self._check(f"{path}: kB", size_kb, PAGE_KB)
        self._check(f"{path}: status", found.status, 201)

    async def _tabs(self, name: str, shown: Sequence[str], kept: list[Connection]) -> None:
        """Keep tabs open on *shown* in turn, while some messages are sent."""
        with self._console() as console:
            await console.settled()
            at_start = console.private_bytes()
            responses: list[Response] = []
            until = time.monotonic() + self._options.tab_warm_up + self._options.tab_seconds

            async def tab(number: int) -> None:
                path, browser, tag = shown[number % len(shown)], Browser(console.port), ""
                path += ("&" if "?" in path else "?") + "part=live"
                await asyncio.sleep(TABS_S * number / self._options.tabs)
                while time.monotonic() < until:
                    found = await browser.get(path, tag)
                    tag = found.tag
                    responses.append(found)
                    await asyncio.sleep(math.ceil(found.due_s))  # the script looks once a second
                browser.close()

            async def send() -> None:
                for number in count():
                    await _all(kept[:1], [send_request(topic_name(number % self._options.topics), 0, b"x" * 100)])
                    await asyncio.sleep(SEND_S)

            sending = asyncio.ensure_future(send())
            tabs = [asyncio.ensure_future(tab(number)) for number in range(self._options.tabs)]
            await asyncio.sleep(self._options.tab_warm_up)  # all are open, and the console has set their pace
            responses.clear()
            began, cpu, broker = time.monotonic(), console.cpu_s(), self._broker.cpu_s()
            await asyncio.sleep(self._options.tab_seconds)
            took_s = time.monotonic() - began
            percent = (console.cpu_s() - cpu) / took_s * 100
            broker_percent = ((self._broker.cpu_s() - broker) / took_s - self._idle_share) * 100
            times = sorted(each.took_ms for each in responses)
            unchanged = sum(each.status == 304 for each in responses)
            steps = self._watch.between(began, time.monotonic(), self._idle)
            at_end = console.private_bytes()
            await asyncio.gather(*tabs)
            sending.cancel()
        print(
            f"{self._options.tabs} tabs, {name}: console {percent:.2f} %, broker {broker_percent:.2f} % of a core; "
            f"{len(times) / took_s:.1f} requests/s, every "
            f"{statistics.median(each.due_s for each in responses):.0f} s, {unchanged / len(times):.0%} unchanged, p50 "
            f"{statistics.median(times):.1f} ms, p95 {percentile(times, 0.95):.1f} ms; broker's longest step "
            f"{steps.longest_ms:.1f} ms, CPU {steps.longest_cpu_ms:.1f} ms, idle process {steps.idle_ms:.1f} ms; "
            f"console's memory {at_start / 1e6:.0f} MB at start, {at_end / 1e6:.0f} MB now",
            flush=True,
        )
        wrong = [each.status for each in responses if each.status not in (200, 304)]
        self._check(f"tabs, {name}: failed responses", len(wrong), 1)
        self._check(f"tabs, {name}: console's CPU %", percent, CONSOLE_PERCENT)
        self._check(f"tabs, {name}: broker's CPU %", broker_percent, BROKER_PERCENT)
        self._check(f"tabs, {name}: broker's step, CPU ms", steps.longest_cpu_ms, LONG_MS)

    def _check(self, what: str, value: float, goal: float) -> None:
        if value >= goal:
            self._over.append(f"{what} {value:.1f}, goal {goal:g}")

    def _console(self) -> ConsoleProcess:
        profile = ("-m", "cProfile", "-o", self._options.profile) if self._options.profile else ()
        history = ("--no-history",) * (not self._options.history)
        return ConsoleProcess(str(self._broker.ready["namesrv"]), self._folder / "console", profile, history)

    async def _broker_share(self, seconds: float) -> float:
        cpu, began = self._broker.cpu_s(), time.monotonic()
        await asyncio.sleep(seconds)
        return (self._broker.cpu_s() - cpu) / (time.monotonic() - began)

    async def _fill(self) -> list[Connection]:
        connections = await fill(self._broker.address, self._options)
        keyed = [send_request(topic_name(7), 0, b"{}", more_properties=f"KEYS\x01{KEY}\x02") for _ in range(10)]
        await _all(connections, keyed)
        return [*connections, *await connect(self._broker.address, self._options.clients)]

    async def _beat(self, clients: list[Connection]) -> None:
        while True:
            for number, connection in enumerate(clients):
                await _all([connection], [_heartbeat(number)])
            await asyncio.sleep(HEARTBEAT_S)


async def fill(address: str, options: argparse.Namespace) -> list[Connection]:
    """Send to every queue and let groups read, on connections that stay open."""
    connections = await connect(address, 8)
    for requests in (sends(options), reads(options)):
        await _all(connections, list(requests))
    return connections


def _heartbeat(number: int) -> Request:
    subscription = {"topic": WIDE, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {"groupName": ONLINE, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    body: dict[str, Any] = {
        "clientID": f"127.0.0.1@{number}",
        "consumerDataSet": [{**consumer, "subscriptionDataSet": [subscription]}],
        "producerDataSet": [{"groupName": "many-producers"}],
    }
    return Request(RequestCode.HEART_BEAT, {}, json.dumps(body).encode())


def _lives(path: str) -> bool:
    """Whether the page refreshes itself."""
    return not re.search(r"settings|messages|send|plan|offsets|search|about|account|history", path)


async def _all(connections: list[Connection], requests: list[Request]) -> None:
    """Send all requests and wait for the answers; a refusal ends the program."""
    pump = Pump(connections, iter(requests).__next__, min(UNDER_WAY, len(requests)))
    await pump.send(len(requests))
    if pump.refused:
        raise SystemExit(f"the broker refused {pump.refused.total()} of {len(requests)} requests")


def main() -> int:
    """Measure and print; return 0 if all goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=whole(1), default=5000)
    parser.add_argument("--queues", type=whole(1), default=8, help="of each topic")
    parser.add_argument("--groups", type=whole(1), default=2000)
    parser.add_argument("--readers", type=whole(0), default=1, help="groups of each topic")
    parser.add_argument("--wide", type=whole(1), default=8, help="queues of the topic that all groups read")
    parser.add_argument("--clients", type=whole(1), default=100)
    parser.add_argument("--requests", type=whole(1), default=20, help="warm requests for each page")
    parser.add_argument("--seconds", type=whole(1), default=6, help="in which they are sent")
    parser.add_argument("--only", default="/", metavar="PATH", help="only pages whose address begins so")
    parser.add_argument("--settle", type=seconds(0), default=10.0, help="seconds after which the filled broker is idle")
    parser.add_argument("--idle", type=seconds(0.1), default=5.0, help="seconds of the idle broker that are measured")
    parser.add_argument("--tabs", type=whole(0), default=100)
    parser.add_argument("--tab-seconds", type=whole(1), default=30)
    parser.add_argument("--history", action="store_true", help="let the console sample and keep its history")
    parser.add_argument("--tab-warm-up", type=seconds(TABS_S), default=30.0, help="seconds with tabs before that")
    parser.add_argument("--profile", metavar="FILE", help="where cProfile writes its figures of the last console")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the broker's files are made")
    options = parser.parse_args()
    raise_descriptor_limit(options.clients + options.tabs + 200)
    print(f"load of this machine {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="gantrymq-console-", dir=options.store) as name:
        folder = Path(name)
        write_tables(folder / "store", options)
        python = LoopWatch(folder / "steps").python
        with (
            idle_log(folder / "idle"),
            BrokerProcess({"store": "memory"}, store=folder / "store", python=python, scratch=folder) as broker,
            asyncio.Runner() as runner,
        ):
            return 0 if runner.run(Bench(options, broker, folder).run()) else 1


if __name__ == "__main__":
    sys.exit(main())
