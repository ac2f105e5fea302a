"""The modes of `bench_replication.py` besides sends: lag, copy and CPU."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
import statistics
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path

from arguments import FLUSH_MODES, existing_folder, seconds, whole
from filled_store import fill
from load_client import Pump, connect, cpu_s, create_topic_request, new_loop, percentile, send_request
from replica_servers import Copied, Servers, copied, followed, servers
from servers_in_turn import NAMES, Driver, create_topic

from gantrymq.remoting.client import RemotingClient
from gantrymq.world.real import real_world

__all__ = ["MODES"]

TOPIC = "ReplicatedLoad"
QUEUES = 8
SIZE = 1024  # bytes of a body
LAG_GOAL_MS = 200.0
COPY_GOAL = 300.0  # MB/s, or what cp reaches
CPU_GOAL = 1.3
SAMPLE_S = 0.005
LIMIT_S = 600.0
RECORD_BYTES = 1300  # of SIZE and the properties, about


def _parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--flush", choices=FLUSH_MODES, default="ASYNC_FLUSH")
    parser.add_argument("--server", default="5.3.3", help="version of the Java broker")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    return parser


# --- lag --------------------------------------------------------------------------------------------------------------


def lag(words: Sequence[str]) -> int:
    """How long ago the master had what its slave acknowledges, while the official Java client sends."""
    parser = _parser(lag.__doc__ or "")
    parser.add_argument("--threads", type=whole(1), default=64)
    parser.add_argument("--warmup", type=whole(0), default=15)
    parser.add_argument("--seconds", type=whole(1), default=10)
    options = parser.parse_args(words)
    good = True
    print(f"{'':8} {'sends/s':>9} {'lag p50':>8} {'p99':>8} {'max ms':>8}")
    for name in NAMES:
        with (
            tempfile.TemporaryDirectory(dir=options.store) as folder,
            servers(name, Path(folder), {"flushDiskType": options.flush}, version=options.server) as running,
        ):
            create_topic(running.namesrv, TOPIC, queues=QUEUES)
            rate, samples = asyncio.run(_sample(running, options, Path(folder)))
        found = sorted(1000 * each for each in lags(samples))
        p99 = percentile(found, 0.99)
        good = good and (name == "java" or p99 < LAG_GOAL_MS)
        print(f"{name:8} {rate:9,.0f} {percentile(found, 0.5):8.1f} {p99:8.1f} {found[-1]:8.1f}", flush=True)
    print(f"goal of GantryMQ: p99 below {LAG_GOAL_MS:g} ms; load average {os.getloadavg()[0]:.1f}")
    return 0 if good else 1


async def _sample(running: Servers, options: argparse.Namespace, scratch: Path) -> tuple[float, list[Copied]]:
    """Load the master, and sample it in the seconds that count."""
    client, samples, reports = RemotingClient(real_world()), list[Copied](), list[dict[str, float]]()
    await followed(client, running.master_address, LIMIT_S)

    def load() -> None:
        size = {"topic": TOPIC, "threads": options.threads, "size": SIZE}
        times = {"warmup": options.warmup, "seconds": options.seconds}
        driver = Driver("5.3.3", scratch / "load", running.namesrv)
        events = driver.run("bench-send", deadline_s=LIMIT_S, **size, **times)
        reports.extend(event for event in events if event["event"] == "load")

    thread = threading.Thread(target=load)
    thread.start()
    before = await copied(client, running.master_address)
    await followed(client, running.master_address, LIMIT_S, least=before.end + 1)  # the client has started
    await asyncio.sleep(options.warmup)
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        samples.append(await copied(client, running.master_address))
        await asyncio.sleep(SAMPLE_S)
    await asyncio.to_thread(thread.join)
    await client.close()
    return reports[0]["sendsPerSecond"], samples


def lags(samples: Sequence[Copied]) -> list[float]:
    """Seconds since the master's log ended where the slave's does, for each sample; the first ones are left out.

    Between two samples the log is taken to grow evenly.
    """
    found, ends = [], [each.end for each in samples]
    for sample in samples:
        after = bisect_left(ends, sample.acked)  # the first sample with an end at or after it
        if after == 0:
            continue
        low, high = samples[after - 1], samples[min(after, len(samples) - 1)]
        share = (sample.acked - low.end) / (high.end - low.end) if high.end > low.end else 1.0
        found.append(max(0.0, sample.at - (low.at + share * (high.at - low.at))))
    return found


# --- copy -------------------------------------------------------------------------------------------------------------


def copy(words: Sequence[str]) -> int:
    """The copy of a whole log by a new slave of GantryMQ, and cp of the same files before and after."""
    parser = _parser(copy.__doc__ or "")
    parser.add_argument("--gb", type=seconds(0.01), default=5.0, help="size of the log, 10^9 bytes")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(dir=options.store) as folder:
        scratch = Path(folder)
        records = int(options.gb * 1e9 / RECORD_BYTES)
        asyncio.run(fill(real_world(), scratch / "master" / "store", records, body_bytes=SIZE))
        log = scratch / "master" / "store" / "commitlog"
        rates = [_cp(log, scratch / "cp")]
        settings = {"flushDiskType": options.flush, "mappedFileSizeCommitLog": str(1 << 30)}
        with servers("gantrymq", scratch, settings, version=options.server, with_slave=False) as running:
            rate, size = asyncio.run(_copy(running))
        rates.append(_cp(log, scratch / "cp"))
    print(f"{size / 1e6:,.0f} MB; cp with fsync before and after: {rates[0]:,.0f} and {rates[1]:,.0f} MB/s")
    goal = min(COPY_GOAL, *rates)
    print(f"a new slave: {rate:,.0f} MB/s, goal {goal:,.0f}; load average {os.getloadavg()[0]:.1f}")
    return 0 if rate >= goal else 1


async def _copy(running: Servers) -> tuple[float, int]:
    client = RemotingClient(real_world())
    await asyncio.to_thread(running.add_slave)
    began = time.monotonic()  # the slave was registered then, and connected at most a moment earlier
    cpu = [cpu_s(each.pid) for each in running.processes[1:]]
    start = max(0, (await copied(client, running.master_address)).acked)
    found = await followed(client, running.master_address, LIMIT_S)
    took = time.monotonic() - began
    used = [cpu_s(each.pid) - before for each, before in zip(running.processes[1:], cpu, strict=True)]
    await client.close()
    print(
        f"copied {(found.end - start) / 1e6:,.0f} MB in {took:.1f} s; CPU master {used[0]:.1f} s, slave {used[1]:.1f} s"
    )
    return (found.end - start) / took / 1e6, found.end


def _cp(log: Path, target: Path) -> float:
    """Copy the files of *log*, sync them, remove the copy; return MB per second."""
    began, size = time.monotonic(), 0
    target.mkdir()
    for file in sorted(log.iterdir()):
        shutil.copyfile(file, target / file.name)
        with (target / file.name).open("rb") as written:
            os.fdatasync(written.fileno())
        size += file.stat().st_size
    took = time.monotonic() - began
    shutil.rmtree(target)
    return size / took / 1e6


# --- CPU --------------------------------------------------------------------------------------------------------------


def cpu(words: Sequence[str]) -> int:
    """CPU of a master of GantryMQ per send from a load in Python, alone and with a slave, in turn."""
    parser = _parser(cpu.__doc__ or "")
    parser.add_argument("--under-way", type=whole(1), default=64, help="sends without an answer yet")
    parser.add_argument("--rounds", type=whole(1), default=5)
    parser.add_argument("--seconds", type=seconds(0.1), default=3.0)
    options = parser.parse_args(words)
    found: dict[str, list[float]] = {"alone": [], "slave": []}
    with tempfile.TemporaryDirectory(dir=options.store) as folder:
        common = {"flushDiskType": options.flush, "mappedFileSizeCommitLog": str(1 << 28)}
        alone = servers("gantrymq", Path(folder) / "1", common, version=options.server, with_slave=False)
        pair = servers("gantrymq", Path(folder) / "2", common, version=options.server)
        with alone as first, pair as second:
            for number in range(options.rounds + 1):
                for kind, running in (("alone", first), ("slave", second)):
                    with asyncio.Runner(loop_factory=new_loop) as runner:
                        used, rate = runner.run(_load(running, options.under_way, options.seconds))
                    if number:  # the first round warms up
                        found[kind].append(used)
                        print(f"round {number}, {kind}: {used:6.2f} us/send, {rate:8,.0f} sends/s", flush=True)
    medians = {kind: statistics.median(each) for kind, each in found.items()}
    ratio = medians["slave"] / medians["alone"]
    print(
        f"CPU of the master: {medians['alone']:.2f} us/send alone, {medians['slave']:.2f} with a slave: {ratio:.2f}, "
        f"goal {CPU_GOAL:g}; load average {os.getloadavg()[0]:.1f}"
    )
    return 0 if ratio <= CPU_GOAL else 1


async def _load(running: Servers, under_way: int, duration_s: float) -> tuple[float, float]:
    """Send for a while. Return the master's CPU us per send, and sends per second."""
    connections = await connect(running.master_address, 1)
    await connections[0].call(create_topic_request(TOPIC, QUEUES))
    requests = [send_request(TOPIC, queue, b"x" * SIZE) for queue in range(QUEUES)]
    pump = Pump(connections, itertools.cycle(requests).__next__, under_way)
    pump.start()
    await asyncio.sleep(0.5)
    before, used, began = pump.answers, cpu_s(running.master.pid), time.monotonic()
    await asyncio.sleep(duration_s)
    sent, used, took = pump.answers - before, cpu_s(running.master.pid) - used, time.monotonic() - began
    await pump.stop()
    for connection in connections:
        connection.close()
    if pump.refused:
        raise SystemExit(f"the broker refused sends: {dict(pump.refused)}")
    return used / max(sent, 1) * 1e6, sent / took


MODES: dict[str, Callable[[Sequence[str]], int]] = {"lag": lag, "copy": copy, "cpu": cpu}
