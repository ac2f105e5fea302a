"""CPU time per message against the number of topics and of connections: it should not grow with either.

    python benchmarks/bench_flat.py                                      both tables: some ten minutes
    python benchmarks/bench_flat.py --topics 1 100 10000 --connections   topics only, three points

Sends of 1 KB, asynchronous flush, a new broker for each point. Two columns:

- "one": one send in flight. Each message has its own read, append and write, whatever the number of connections,
  so this column shows the cost of a topic or a connection alone; the broker does not busy-poll in between.
- "64": sixty-four in flight, spread evenly over topics and connections, as under load. With few connections many
  messages share a read and a write, and with few topics they share checks. From 100 on each message has its own, so
  only those rows are compared.

CPU is user and system time of all threads of the broker, from /proc. Flat means that the most expensive of the compared
rows costs at most BAND times the cheapest. Topics are created beforehand by a first message to each, sixty-four in
flight, and have one queue; "made ms" is the wall time of that for each. The broker then gets some seconds to create
queue files.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

from load_client import (
    BrokerProcess,
    Connection,
    Pump,
    Request,
    connect,
    new_loop,
    raise_descriptor_limit,
    send_request,
)

BAND = 1.5
UNDER_WAY = 64
SHARED = 100  # connections below which sends share reads, and topics below which they share checks


def in_turn(topics: int, size: int) -> Callable[[], Request]:
    """Sends to one topic after the other."""
    requests = [send_request(f"Flat{number}", 0, b"x" * size, queues=1) for number in range(topics)]
    turn = 0

    def next_request() -> Request:
        nonlocal turn
        turn = (turn + 1) % len(requests)
        return requests[turn]

    return next_request


async def measure(options: argparse.Namespace, broker: BrokerProcess, topics: int, connections: int) -> list[float]:
    """Milliseconds to create a topic; microseconds of the broker's CPU per message, for one in flight, for many."""
    opened = await connect(broker.address, connections)
    next_request = in_turn(topics, options.size)
    began = time.perf_counter()
    await checked(opened, next_request, UNDER_WAY, topics)
    found = [(time.perf_counter() - began) / topics * 1e3]
    await checked(opened, next_request, UNDER_WAY, options.warmup)
    await asyncio.sleep(options.settle)
    for under_way, messages in ((1, options.messages // 5), (UNDER_WAY, options.messages)):
        cpu = broker.cpu_s()
        await checked(opened, next_request, under_way, messages)
        found.append((broker.cpu_s() - cpu) / messages * 1e6)
    for connection in opened:
        connection.close()
    return found


async def checked(connections: list[Connection], next_request: Callable[[], Request], window: int, count: int) -> None:
    """Send *count* messages; a refusal or a lost connection ends the program."""
    pump = Pump(connections, next_request, window)
    await pump.send(count)
    lost = sum(connection.lost for connection in connections)
    if pump.refused or lost:
        raise SystemExit(f"the broker refused {dict(pump.refused)} and closed {lost} connections")


def table(options: argparse.Namespace, name: str, points: list[int]) -> bool:
    """Measure each point of one axis and print the table; return whether both columns are flat."""
    print(f"\n{name:>11} {'CPU us, one':>12} {f'CPU us, {UNDER_WAY}':>12} {'made ms':>8} {'wall s':>8}")
    settings = {
        "flushDiskType": "ASYNC_FLUSH",
        "busyPollMicros": "0",
        **dict(pair.split("=", 1) for pair in options.pairs),
    }
    columns: tuple[list[float], list[float]] = ([], [])
    for point in points:
        topics, connections = (point, options.fixed_connections) if name == "topics" else (1, point)
        began = time.perf_counter()
        with (
            BrokerProcess(settings, scratch=options.store) as broker,
            asyncio.Runner(loop_factory=new_loop) as runner,
        ):
            made, one, many = runner.run(measure(options, broker, topics, connections))
        print(f"{point:11,} {one:12.1f} {many:12.1f} {made:8.2f} {time.perf_counter() - began:8.1f}", flush=True)
        columns[0].append(one)
        if point >= SHARED:
            columns[1].append(many)
    flat = True
    for label, values in zip(("one", str(UNDER_WAY)), columns, strict=True):
        if len(values) > 1:
            ratio = max(values) / max(min(values), 1e-9)
            flat = flat and ratio <= BAND
            verdict = "flat" if ratio <= BAND else "NOT FLAT"
            print(f"{name}, {label}: dearest over cheapest {ratio:.2f}, {verdict} (band {BAND:g})")
    return flat


def main() -> int:
    """Print both tables; return 0 if all columns are flat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, nargs="*", default=[1, 10, 100, 1_000, 10_000])
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 10, 100, 1_000, 2_000])
    parser.add_argument("--fixed-connections", type=int, default=8, help="connections while topics vary")
    parser.add_argument("--messages", type=int, default=200_000, help="with many under way; a fifth of it with one")
    parser.add_argument("--warmup", type=int, default=20_000, help="messages that do not count, after one a topic")
    parser.add_argument("--settle", type=float, default=15.0, help="seconds between the warm-up and counting")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--set", dest="pairs", action="append", default=[], metavar="KEY=VALUE", help="of the broker")
    parser.add_argument("--store", type=Path, metavar="DIR", help="where the stores are made")
    options = parser.parse_args()
    raise_descriptor_limit(max([*options.connections, 0]) + 100)
    flat = True
    if options.topics:
        flat = table(options, "topics", options.topics) and flat
    if options.connections:
        flat = table(options, "connections", options.connections) and flat
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
