"""Latency of sends without a consumer, with a consumer of a warm backlog and with one of a cold backlog.

    python benchmarks/bench_cold_backlog.py                                   1 GB of backlog, synchronous flush
    python benchmarks/bench_cold_backlog.py --flush ASYNC_FLUSH --mb 2000
    python benchmarks/bench_cold_backlog.py --set dataReadAheadEnable=false   and so on, to compare
    python benchmarks/bench_cold_backlog.py --set accessMessageInMemoryMaxRatio=0     as if it were larger than memory

The benchmark shows whether reading a cold backlog stalls senders. A store of 1 KB messages is created and closed, and a
broker is started on it. Then sends of 1 KB go to another topic at a fixed pace; a send is timed from the moment it was
due, so the whole wait of a stalled send counts. Each round has three phases:

    nobody   no consumer
    warm     a consumer pulls the backlog, four queues at once, as fast as it is answered; its pages are in memory
    cold     the same after posix_fadvise(DONTNEED) removed the log and the queues from the page cache

The cost of "warm" is CPU of the one event loop; the additional cost of "cold" is waiting for the disk. The goal is p99
with the cold reader at most FACTOR times that without a consumer. "Cached" is the part of the log in the page cache
after the phase. The consumer is a process of its own; load, broker and consumer share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arguments import FLUSH_MODES, existing_folder, seconds, whole
from filled_store import TOPIC, fill
from load_client import (
    Answer,
    BrokerProcess,
    Connection,
    connect,
    create_topic_request,
    new_loop,
    percentile,
    pull_request,
    send_request,
)
from page_cache import cached_bytes, drop_cache, read_log

from gantrymq.world.real import real_world

FACTOR = 3.0
BACKLOG_QUEUES = 4
PATIENCE_S = 60.0
PHASES = ("nobody", "warm", "cold")
RECORD_BYTES = 1260  # about: a body of 1 KB with head, names and properties


async def send(address: str, pace: int, seconds: float) -> list[float]:
    """Send *pace* messages a second; return the seconds from the due time of each to its answer, ascending.

    Raises:
        SystemExit: the broker refused a send, or an answer did not come.
    """
    connections = await connect(address, 8)
    requests = [send_request("ColdBeside", queue, b"x" * 1024) for queue in range(8)]
    loop, refused, total = asyncio.get_running_loop(), 0, int(pace * seconds)
    times: list[float] = []
    complete = asyncio.Event()
    began = loop.time()
    for number in range(total):
        due = began + number / pace
        if (ahead := due - loop.time()) > 0:
            await asyncio.sleep(ahead)

        def done(_: Connection, answer: Answer, due: float = due) -> None:
            nonlocal refused
            times.append(loop.time() - due)
            refused += answer.code != 0
            if len(times) == total:
                complete.set()

        connections[number % 8].ask(requests[number % 8], done)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(complete.wait(), PATIENCE_S)
    for connection in connections:
        connection.close()
    if refused or len(times) < total:
        raise SystemExit(f"{refused} sends were refused, {total - len(times)} have no answer")
    return sorted(times)


async def read(address: str, seconds: float) -> dict[str, float]:
    """Pull the backlog for *seconds*, or to its end; return the amount read."""
    connections = await connect(address, BACKLOG_QUEUES)
    await connections[0].call(create_topic_request(TOPIC, BACKLOG_QUEUES))  # the store alone creates no topic
    found = {"messages_bytes": 0.0, "seconds": 0.0}
    began = time.perf_counter()

    async def one(queue: int) -> None:
        offset = 0
        while time.perf_counter() - began < seconds:
            answer = await connections[queue].call(pull_request(TOPIC, queue, offset, "cold"))
            found["messages_bytes"] += answer.body_bytes
            if answer.next_offset <= offset:
                break
            offset = answer.next_offset

    await asyncio.gather(*(one(queue) for queue in range(BACKLOG_QUEUES)))
    found["seconds"] = time.perf_counter() - began
    return found


def phase(name: str, options: argparse.Namespace, broker: BrokerProcess) -> tuple[list[float], float]:
    """Send through one phase; times of the sends, and MB a second of the consumer."""
    if name == "cold":
        drop_cache(broker.store)
    elif name == "warm":
        read_log(broker.store, options.mb * 1_000_000)
    reader = None
    if name != "nobody":
        words = ["--read-from", broker.address, "--seconds", str(options.seconds)]
        reader = subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        times = runner.run(send(broker.address, options.pace, options.seconds))
    if reader is None:
        return times, 0.0
    out, _ = reader.communicate(timeout=options.seconds + 60)
    found = json.loads(out)
    if found["seconds"] < options.seconds / 2:
        print(f"the backlog was read in {found['seconds']:.1f} s of {options.seconds:g}: give it more --mb")
    return times, found["messages_bytes"] / found["seconds"] / 1e6


def report(options: argparse.Namespace, root: Path) -> int:
    """Run all rounds and print the table; return 0 if the goal is met."""
    settings = {"flushDiskType": options.flush, **dict(pair.split("=", 1) for pair in options.pairs)}
    p99s: dict[str, list[float]] = {name: [] for name in PHASES}
    print(f"{options.flush}, {options.pace} sends a second, {' '.join(options.pairs)}")
    print(f"{'beside':8} {'p50 ms':>8} {'p99 ms':>8} {'p99.9':>8} {'max ms':>8} {'read MB/s':>10} {'cached MB':>10}")
    with BrokerProcess(settings, store=root) as broker:
        phase("nobody", argparse.Namespace(**{**vars(options), "seconds": 2.0}), broker)  # warm-up, not counted
        for _ in range(options.rounds):
            for name in PHASES:
                times, rate = phase(name, options, broker)
                p50, p99, p999, most = (percentile(times, share) * 1e3 for share in (0.5, 0.99, 0.999, 1.0))
                p99s[name].append(p99)
                cached = cached_bytes(root) / 1e6
                print(f"{name:8} {p50:8.2f} {p99:8.2f} {p999:8.2f} {most:8.2f} {rate:10.1f} {cached:10.0f}", flush=True)
    nobody, warm, cold = (statistics.median(p99s[name]) for name in PHASES)
    print(f"load of this machine {os.getloadavg()[0]:.1f} over the last minute, {os.cpu_count()} cores")
    good = cold <= FACTOR * nobody
    print(f"medians of p99: nobody {nobody:.2f}, warm {warm:.2f}, cold {cold:.2f} ms")
    words = "good" if good else "ABOVE THE GOAL"
    print(f"cold over warm {cold / warm:.2f}, cold over nobody {cold / nobody:.2f} (goal {FACTOR:g}), {words}")
    return 0 if good else 1


def main() -> int:
    """Create the backlog, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=whole(1), default=1000, help="size of the backlog")
    parser.add_argument("--flush", default="SYNC_FLUSH", choices=FLUSH_MODES)
    parser.add_argument("--pace", type=whole(1), default=300, help="sends a second")
    parser.add_argument("--seconds", type=seconds(1), default=10.0, help="of each phase")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--set", dest="pairs", action="append", default=[], metavar="KEY=VALUE", help="of the broker")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the store is made")
    parser.add_argument("--read-from", help=argparse.SUPPRESS)  # the consumer's own process
    options = parser.parse_args()
    if options.read_from:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            print(json.dumps(runner.run(read(options.read_from, options.seconds))))
        return 0
    with tempfile.TemporaryDirectory(prefix="gantrymq-cold-", dir=options.store) as folder:
        root = Path(folder) / "store"
        messages = options.mb * 1_000_000 // RECORD_BYTES
        asyncio.run(fill(real_world(), root, messages, body_bytes=1024, queues=BACKLOG_QUEUES))
        return report(options, root)


if __name__ == "__main__":
    sys.exit(main())
