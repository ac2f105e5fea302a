"""Our client with our broker against redis-py with Redis, nats-py with NATS and aiokafka with Kafka, in one run.

    python benchmarks/bench_client_brokers.py                 the goals: all cells, three rounds, some ten minutes
    python benchmarks/bench_client_brokers.py --quick         one short round
    python benchmarks/bench_client_brokers.py --peers redis --flush ASYNC_FLUSH --cells consume

Messages have 1 KB. A send counts once the server has answered it. Sends are measured with 1, 16 and 256 in flight, and
in batches of 64 with four in flight. Consumption is that of a backlog, to the last acknowledgement, by messages and by
batches, with the default settings of the server. `peer_servers.py` has the flush settings of each server,
`peer_clients.py` the settings of each client. Servers run in turn, never two at once, and each round begins with
another one, so a ratio compares two rates of the same minutes; the table has the medians. Each server is warmed up
first: a JVM needs it. CPU is user and system time of the server's process and of this one, which is the client; on a
machine with other work it is more reliable than rates. "batching" is our client with a producer that gathers the sends
of one turn of the event loop (`Batching(max_wait_ms=0)`), as aiokafka's does by default; the goals are for the producer
without batching.

The others need the packages of `requirements-peers.txt`, `redis-server`, `nats-server`, Java and Maven (Kafka's jars
are downloaded once). Missing ones are skipped with a message.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path

import attrs
from arguments import FLUSH_MODES, existing_folder, seconds, whole
from load_client import new_loop
from peer_clients import CLIENTS, PeerClient
from peer_servers import SERVERS, Missing, Running, processor_s

from gantrymq import speedups

OURS = "gantrymq"
BATCHING = "batching"  # ours with a producer that gathers sends, as aiokafka's does by default
PACKAGES = {"redis": "redis", "nats": "nats-py", "kafka": "aiokafka"}
IN_FLIGHT = {"1": 1, "16": 16, "256": 256}
BATCH, BATCHES_IN_FLIGHT = 64, 4
MOST_IN_FLIGHT = max(IN_FLIGHT.values())
CELLS = (*IN_FLIGHT, "batches", "consume", "consume-batches")
NAMES = {
    **{name: f"{name} under way" for name in IN_FLIGHT},
    "batches": f"batches of {BATCH}, {BATCHES_IN_FLIGHT} under way",
    "consume": "consumed one by one",
    "consume-batches": "consumed in batches",
}
GOALS = {"SYNC_FLUSH": 2.0, "ASYNC_FLUSH": 1.0}  # ours over each of the others
CONSUMED_GOAL = 150_000  # messages/s
FILL_UNDER_WAY = 8


@attrs.frozen
class Found:
    """One cell of one round."""

    rate: float  # messages/s
    client_us: float  # CPU of this process, a message
    server_us: float


Key = tuple[str, str, str]  # flush mode, cell, which client


async def measured(work: Callable[[], Awaitable[float]], pid: int) -> tuple[float, float, float]:
    """Return the result of *work*, and the CPU seconds of this process and of *pid* meanwhile."""
    gc.collect()
    ours, theirs = time.process_time(), processor_s(pid)
    result = await work()
    return result, time.process_time() - ours, processor_s(pid) - theirs


async def sends(send: Callable[[], Awaitable[None]], each: int, under_way: int, for_s: float, pid: int) -> Found:
    """Keep *under_way* sends of *each* messages in flight; the first fifth of the time is not counted."""
    counting, done = False, 0
    ends = time.perf_counter() + for_s / 5

    async def run() -> None:
        nonlocal done
        while True:  # at least one, even if this process was not scheduled for long
            await send()
            if counting:
                done += 1
            if time.perf_counter() >= ends:
                return

    async def work() -> float:
        await asyncio.gather(*(run() for _ in range(under_way)))
        return time.perf_counter()

    await work()
    counting, began = True, time.perf_counter()
    ends = began + for_s
    ended, client_s, server_s = await measured(work, pid)
    count = done * each
    return Found(count / (ended - began), client_s / count * 1e6, server_s / count * 1e6)


async def consumption(client: PeerClient, count: int, cell: str, number: int, pid: int) -> Found:
    """Consume the backlog by a new group."""
    took_s, client_s, server_s = await measured(
        lambda: client.consume(f"{cell}-{number}", count, batches=cell == "consume-batches"), pid
    )
    return Found(count / took_s, client_s / count * 1e6, server_s / count * 1e6)


async def fill(client: PeerClient, bodies: list[bytes], count: int) -> None:
    """Store a backlog of *count* messages in full batches."""
    left = count

    async def run() -> None:
        nonlocal left
        while left > 0:
            left -= len(bodies)
            await client.send_batch(bodies)

    await asyncio.gather(*(run() for _ in range(FILL_UNDER_WAY)))


async def one_server(options: argparse.Namespace, name: str, flush: str, server: Running) -> dict[Key, Found]:
    """All cells of a server that was started for them."""
    found: dict[Key, Found] = {}
    body = b"x" * options.size
    bodies = [body] * BATCH
    async with CLIENTS[name](server.address, MOST_IN_FLIGHT) as client:
        await sends(lambda: client.send(body), 1, MOST_IN_FLIGHT, options.warmup, server.pid)
        consuming = [cell for cell in options.cells if cell.startswith("consume")] if flush == "ASYNC_FLUSH" else []
        if consuming:
            await fill(client, bodies, options.messages)
            for number, cell in enumerate(("consume", *consuming)):  # the first one is not counted
                once = await consumption(client, options.messages, cell, number, server.pid)
                if number:
                    found[flush, cell, name] = once
        for cell in options.cells:
            if cell in IN_FLIGHT:
                once = await sends(lambda: client.send(body), 1, IN_FLIGHT[cell], options.seconds, server.pid)
                found[flush, cell, name] = once
            elif cell == "batches":
                found[flush, cell, name] = await sends(
                    lambda: client.send_batch(bodies), BATCH, BATCHES_IN_FLIGHT, options.seconds, server.pid
                )
    if name == OURS:
        async with CLIENTS[BATCHING](server.address, MOST_IN_FLIGHT) as client:
            for cell in [each for each in options.cells if each in IN_FLIGHT]:
                once = await sends(lambda: client.send(body), 1, IN_FLIGHT[cell], options.seconds, server.pid)
                found[flush, cell, BATCHING] = once
    return found


def one_turn(options: argparse.Namespace, name: str, flush: str) -> dict[Key, Found]:
    """Start a server, measure its cells, stop it. Raises Missing if it cannot be run."""
    if name != OURS:
        try:
            metadata.version(PACKAGES[name])
        except metadata.PackageNotFoundError:
            raise Missing(f"there is no {PACKAGES[name]}; see benchmarks/requirements-peers.txt") from None
    with (
        tempfile.TemporaryDirectory(prefix="gantrymq-peers-", dir=options.store) as folder,
        SERVERS[name](flush, Path(folder)) as server,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        return runner.run(one_server(options, name, flush, server))


class Table:
    """Results of each server, by cell and round."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, dict[int, Found]]] = defaultdict(lambda: defaultdict(dict))

    def add(self, number: int, found: dict[Key, Found]) -> None:
        """Record the results of one turn."""
        for (flush, cell, name), each in found.items():
            self._found[flush, cell][name][number] = each
            cpu = f"CPU us a message: client {each.client_us:.1f}, server {each.server_us:.1f}"
            what = f"{flush:11} {name:8} {NAMES[cell]:29}"
            print(f"round {number}, {what} {each.rate:9,.0f} messages/s, {cpu}", flush=True)

    def show(self) -> bool:
        """Print medians; return whether every goal is met."""
        good = True
        print(f"\n{'':52}{'messages':>9}{'CPU us a message':>20}{'its CPU':>9}{'our rate':>9}")
        print(f"{'':52}{'a second':>9}{'client':>12} +{'server':>6}{'/ ours':>9}{'/ its':>8} goal")
        for flush, cell in sorted(self._found, key=lambda key: (FLUSH_MODES.index(key[0]), CELLS.index(key[1]))):
            names = self._found[flush, cell]
            for name, rounds in names.items():
                rate, client, server = (
                    statistics.median(getattr(each, field) for each in rounds.values())
                    for field in ("rate", "client_us", "server_us")
                )
                words, met = self._verdict(flush, cell, name, rate)
                good = good and met
                what = f"{flush} {NAMES[cell]}" if name == next(iter(names)) else ""
                print(f"{what:43}{name:9}{rate:9,.0f}{client:12.1f} +{server:6.1f}{words}")
        return good

    def _verdict(self, flush: str, cell: str, name: str, rate: float) -> tuple[str, bool]:
        if name == OURS and cell.startswith("consume"):
            met = rate >= CONSUMED_GOAL
            return f"{'':9}{'goal':>8} {CONSUMED_GOAL:,}/s {'good' if met else 'BELOW THE GOAL'}", met
        pairs = self._pairs(flush, cell, OURS, name)
        if name in (OURS, BATCHING) or not pairs:
            return "", True
        goal = 1.0 if cell.startswith("consume") else GOALS[flush]
        ratio = statistics.median(one.rate / other.rate for one, other in pairs)
        cpu = statistics.median(
            (other.client_us + other.server_us) / (one.client_us + one.server_us) for one, other in pairs
        )
        words = f"{cpu:9.2f}{ratio:8.2f} {goal:4.1f} {'good' if ratio >= goal else 'BELOW THE GOAL'}"
        if batched := self._pairs(flush, cell, BATCHING, name):
            words += f", batching {statistics.median(one.rate / other.rate for one, other in batched):.2f}"
        return words, ratio >= goal

    def _pairs(self, flush: str, cell: str, one: str, other: str) -> list[tuple[Found, Found]]:
        """Results of two clients in the same round."""
        ones, others = self._found[flush, cell].get(one, {}), self._found[flush, cell].get(other, {})
        return [(ones[number], others[number]) for number in ones if number in others]


def main() -> int:
    """Run the rounds and print the table; return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--seconds", type=seconds(0.1), default=2.0, help="of each cell of sends")
    parser.add_argument("--warmup", type=seconds(0.1), default=4.0, help="of each server, before its cells")
    parser.add_argument("--messages", type=whole(1000), default=200_000, help="of the backlog")
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    parser.add_argument("--peers", nargs="*", choices=list(PACKAGES), default=list(PACKAGES), help="beside ours")
    parser.add_argument("--flush", nargs="+", choices=FLUSH_MODES, default=list(FLUSH_MODES))
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the servers' folders are made")
    parser.add_argument("--quick", action="store_true", help="one round, half a second a cell, 20,000 messages")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.warmup, options.seconds, options.messages = 1, 1.0, 0.5, 20_000
    names, missing, table = [OURS, *options.peers], set[tuple[str, str]](), Table()
    clients = ", ".join(f"{each} {metadata.version(each)}" for each in _installed(options.peers))
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, {clients}")
    print(f"GantryMQ with {speedups.description}; load {os.getloadavg()[0]:.1f} before it begins\n")
    for number in range(1, options.rounds + 1):
        first = (number - 1) % len(names)
        for flush in options.flush:
            for name in (*names[first:], *names[:first]):
                if (name, flush) in missing:
                    continue
                try:
                    table.add(number, one_turn(options, name, flush))
                except Missing as problem:
                    missing.add((name, flush))
                    print(f"{name} is left out with {flush}: {problem}", flush=True)
    return 0 if table.show() else 1


def _installed(peers: list[str]) -> list[str]:
    found = [PACKAGES[name] for name in peers]
    known = {each.name for each in metadata.distributions()}
    return [name for name in found if name in known]


if __name__ == "__main__":
    sys.exit(main())
