"""Scrapes and health checks of a broker with thousands of topics and groups: time, size, longest step of its loop.

    python benchmarks/bench_scrape.py                            5,000 topics of 8 queues, 2,000 groups
    python benchmarks/bench_scrape.py --topics 500 --groups 200  a tenth of it

`gantrymq start` with the store in memory, or with the one on disk (`--set store=mmap`); steps are those of its loop
(`loop_watch.py`). Every queue has two messages. Every topic is read by some groups (`--readers`), which pulled both
messages from every queue and committed one, so that every group has a lag in every queue. One more topic has many
queues (`--wide`), and every group committed an offset in one of them. The first scrape reads the oldest messages and is
not counted; the row has the medians of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from arguments import existing_folder, whole
from load_client import (
    BrokerProcess,
    Pump,
    Request,
    connect,
    pull_request,
    raise_descriptor_limit,
    send_request,
    verdict,
)
from loop_watch import LONG_MS, LoopWatch, Steps, idle_log
from many_queues import group_name, topic_name

from gantrymq.formats.config import GROUPS, TOPICS, GroupsFile, TopicsFile, pretty, save
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.world.real import real_world

ROUNDS: Final = 5
UNDER_WAY: Final = 64
SETTLE_S: Final = 0.3
WIDE: Final = "Wide"
GOAL_S: Final = 5.0  # half of Prometheus's default time limit


def write_tables(root: Path, options: argparse.Namespace) -> None:
    """Write the broker's tables of topics and groups."""
    files, folder = real_world().files, root / "config"
    names = [topic_name(number) for number in range(options.topics)]
    topics = {name: TopicConfig(name, options.queues, options.queues) for name in names}
    topics[WIDE] = TopicConfig(WIDE, options.wide, options.wide)
    groups = {name: GroupConfig(name) for name in map(group_name, range(options.groups))}
    save(files, folder / TOPICS, TopicsFile(topics).to_text())
    save(files, folder / GROUPS, pretty(GroupsFile(groups).to_json()))


def sends(options: argparse.Namespace) -> Iterator[Request]:
    """Two messages for every queue."""
    for _ in range(2):
        for queue_id in range(options.queues):
            for number in range(options.topics):
                yield send_request(topic_name(number), queue_id, b"x" * 100)
        for queue_id in range(options.wide):
            yield send_request(WIDE, queue_id, b"x" * 100)


def reads(options: argparse.Namespace) -> Iterator[Request]:
    """The pulls and commits of all groups."""
    for number in range(options.topics):
        for reader in range(options.readers):
            group = group_name((number * options.readers + reader) % options.groups)
            for queue_id in range(options.queues):
                yield pull_request(topic_name(number), queue_id, 0, group)
                yield _commit(topic_name(number), queue_id, group)
    for number in range(options.groups):
        yield _commit(WIDE, number % options.wide, group_name(number))


def _commit(topic: str, queue_id: int, group: str) -> Request:
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": "1"}
    return Request(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


async def get(port: int, path: str) -> bytes:
    """Return the body of a page."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
    found = await reader.read(-1)
    writer.close()
    head, _, body = found.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise SystemExit(f"{path}: {head[:80]!r}")
    return body


async def measure(options: argparse.Namespace, broker: BrokerProcess, port: int, watch: LoopWatch, idle: Path) -> bool:
    """Fill the broker, print a row for each page, return whether the goals are met."""
    connections = await connect(broker.address, 8)
    for requests in (sends(options), reads(options)):
        listed = list(requests)
        pump = Pump(connections, iter(listed).__next__, min(UNDER_WAY, len(listed)))
        await pump.send(len(listed))
        if pump.refused:
            raise SystemExit(f"the broker refused {pump.refused.total()} of {len(listed)} requests")
    good = True
    print(f"{'page':12}{'size':>12}{'lines':>10}{'time':>10}{'step':>10}{'CPU of it':>10}")
    for path in ("/metrics", "/healthz"):
        times, steps, body = list[float](), list[Steps](), b""
        for _ in range(ROUNDS + 1):
            began = time.monotonic()
            body = await get(port, path)
            times.append(time.monotonic() - began)
            await asyncio.sleep(SETTLE_S)
            steps.append(watch.between(began, time.monotonic(), idle))
        took, longest = statistics.median(times[1:]), statistics.median(each.longest_ms for each in steps[1:])
        cpu = max(each.longest_cpu_ms for each in steps[1:])
        lines, idle_ms = body.count(b"\n"), max(each.idle_ms for each in steps)
        print(
            f"{path:12}{len(body) / 1e6:9.3f} MB{lines:10,}{took * 1000:7.0f} ms{longest:7.1f} ms{cpu:7.1f} ms"
            f"  first {times[0] * 1000:.0f} ms, {steps[0].longest_ms:.1f} ms; idle process {idle_ms:.1f} ms"
            f"  step {verdict(longest, LONG_MS)}, time {verdict(took, GOAL_S)}",
            flush=True,
        )
        good = good and longest < LONG_MS and took < GOAL_S
    print(f"memory of the broker's process after it: {broker.resident_bytes() / 1e6:.0f} MB")
    for connection in connections:
        connection.close()
    return good


def main() -> int:
    """Measure and print; return 0 if no step was too long and no scrape too slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=whole(1), default=5000)
    parser.add_argument("--queues", type=whole(1), default=8, help="of each topic")
    parser.add_argument("--groups", type=whole(1), default=2000)
    parser.add_argument("--readers", type=whole(0), default=2, help="groups of each topic")
    parser.add_argument("--wide", type=whole(1), default=4096, help="queues of one more topic")
    parser.add_argument("--set", dest="pairs", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the broker's files are made")
    options = parser.parse_args()
    raise_descriptor_limit(200)
    print(f"load of this machine {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="gantrymq-scrape-", dir=options.store) as name:
        folder = Path(name)
        write_tables(folder / "store", options)
        watch, idle = LoopWatch(folder / "steps"), folder / "idle"
        settings = {"store": "memory", "metricsPromExporterPort": str(port)}
        settings |= dict(pair.split("=", 1) for pair in options.pairs)
        with (
            idle_log(idle),
            BrokerProcess(settings, store=folder / "store", python=watch.python, scratch=folder) as broker,
            asyncio.Runner() as runner,
        ):
            return 0 if runner.run(measure(options, broker, port, watch, idle)) else 1


if __name__ == "__main__":
    sys.exit(main())
