"""Sends per second of our client: one by one, gathered automatically, and in batches made by the application.

    python benchmarks/bench_batching.py                        both flush modes; 1, 16, 256 and 4096 sending tasks
    python benchmarks/bench_batching.py --flush ASYNC_FLUSH --tasks 256 --wait-ms 0 1 10

Each task awaits one send after the other; "gathered" is ``batching=Batching(max_wait_ms=...)``. In "send_batch" one
task sends as many messages at once as the row has tasks, 1,000 at most. The rounds of a row alternate, and each figure
is the median of its rounds. Client and broker share the machine: with few cores, compare the CPU time of the client per
send.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from arguments import FLUSH_MODES, existing_folder, seconds, whole
from load_client import BrokerProcess, new_loop

from gantrymq.client import Batching, Client, Message, Producer
from gantrymq.model.topic import TopicConfig

TOPIC = "Batching"
MOST_IN_BATCH = 1000

Way = tuple[str, Producer, bool]  # name, producer, whether the application makes batches


async def sent(way: Way, tasks: int, body: bytes, lasts_s: float) -> tuple[float, float]:
    """Send for *lasts_s* seconds; messages a second, and microseconds of the client's CPU for each."""
    _, producer, in_batches = way
    end, count = time.perf_counter() + lasts_s, 0

    async def one_by_one() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await producer.send(Message(TOPIC, body))
            count += 1

    async def batches() -> None:
        nonlocal count
        size = min(tasks, MOST_IN_BATCH)
        while time.perf_counter() < end:
            await producer.send_batch([Message(TOPIC, body) for _ in range(size)])
            count += size

    work: list[Callable[[], Awaitable[None]]] = [batches] if in_batches else [one_by_one] * tasks
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(each() for each in work))
    return count / (time.perf_counter() - began), (time.process_time() - cpu) / max(count, 1) * 1e6


async def rounds(options: argparse.Namespace, namesrv: str, flush: str) -> None:
    """All rows of one flush mode."""
    body = b"x" * options.size
    async with Client(namesrv) as client, client.admin as admin:
        await admin.create_topic_in(TopicConfig(TOPIC, options.queues, options.queues))
        ways: list[Way] = [("one by one", client.producer("one_by_one"), False)]
        for wait_ms in options.wait_ms:
            producer = client.producer(f"gathered_{wait_ms}", batching=Batching(max_wait_ms=wait_ms))
            ways.append((f"gathered, {wait_ms} ms", producer, False))
        ways.append(("send_batch", client.producer("batches"), True))
        for way in ways:
            await sent(way, 16, body, options.warmup)
        for tasks in options.tasks:
            figures: dict[str, list[tuple[float, float]]] = {name: [] for name, *_ in ways}
            for _ in range(options.rounds):
                for way in ways:
                    figures[way[0]].append(await sent(way, tasks, body, options.seconds))
            for name, found in figures.items():
                rate, cpu_us = (statistics.median(each) for each in zip(*found, strict=True))
                print(f"{flush:12} {tasks:6} {name:16} {rate:10,.0f} {cpu_us:13.1f}", flush=True)


def main() -> None:
    """Run each flush mode and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flush", nargs="+", choices=FLUSH_MODES, default=list(FLUSH_MODES))
    parser.add_argument("--tasks", type=whole(1), nargs="+", default=[1, 16, 256, 4096])
    parser.add_argument("--wait-ms", type=whole(0), nargs="+", default=[0, 10], help="of the gathering producers")
    parser.add_argument("--queues", type=whole(1), default=8)
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--warmup", type=seconds(0), default=1.0, help="seconds of each way before counting")
    parser.add_argument("--seconds", type=seconds(0.1), default=3.0, help="of a round")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    options = parser.parse_args()
    print(f"bodies of {options.size} bytes, {options.queues} queues")
    print(f"{'flush':12} {'tasks':>6} {'way':16} {'messages/s':>10} {'client us/msg':>13}")
    for flush in options.flush:
        with (
            tempfile.TemporaryDirectory(dir=options.store) as scratch,
            BrokerProcess({"flushDiskType": flush}, scratch=Path(scratch)) as broker,
            asyncio.Runner(loop_factory=new_loop) as runner,
        ):
            runner.run(rounds(options, str(broker.ready["namesrv"]), flush))


if __name__ == "__main__":
    main()
