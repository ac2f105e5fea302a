"""Sends per second of a machine with one broker and with several (`gantrymq start --brokers N`), 1 KB bodies.

    python benchmarks/bench_brokers.py                       1 to as many brokers as processors, both flush modes
    python benchmarks/bench_brokers.py --brokers 1 4 8

The load is one process that writes prebuilt blocks of requests and only counts the answers, some 1 us a send, because a
client library would cost more than the brokers. It shares the machine with them: "load" is its use of processors,
"others" that of all other processes, which should be near 0. Rounds alternate between the numbers of brokers; the table
has medians, and the rate compared with the first number.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self, cast

from arguments import FLUSH_MODES, existing_folder, seconds, whole
from load_client import FIRST_OPAQUE, BrokerProcess, connect, cpu_s, create_topic_request, new_loop, send_request

TOPIC = "BrokersLoad"
QUEUES = 8
LENGTH = struct.Struct(">i")
ACCEPTED = b'"code":0'


class Blocks(asyncio.Protocol):
    """A connection that sends a block of requests whenever the previous one has been answered."""

    def __init__(self, block: bytes, requests: int) -> None:
        self._block, self._requests = block, requests
        self._transport: asyncio.Transport | None = None
        self._kept = b""
        self._left = 0
        self.answers = 0
        self.refused = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        data, at = self._kept + data, 0
        first = at
        while len(data) - at >= LENGTH.size:
            end = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
            if end > len(data):
                break
            first, at = at, end
            self._left -= 1
            self.answers += 1
        if at and ACCEPTED not in data[first:at]:  # one answer of each read
            self.refused = data[first:at]
        self._kept = data[at:]
        if not self._left:
            self._send()

    def _send(self) -> None:
        assert self._transport is not None
        self._left = self._requests
        self._transport.write(self._block)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()


class Found(NamedTuple):
    rate: float
    broker_us: float  # CPU of all brokers per send
    load: float  # processors used by the load
    others: float  # processors used by everything else


async def load(options: argparse.Namespace, addresses: Sequence[str], pids: Sequence[int]) -> Found:
    """Send to all brokers for a while."""
    for address in addresses:
        (connection,) = await connect(address, 1)
        answer = await connection.call(create_topic_request(TOPIC, QUEUES))
        if answer.code:
            raise SystemExit(f"the broker refused the topic: {answer.header!r}")
        connection.close()
    requests = [send_request(TOPIC, number % QUEUES, b"x" * options.size) for number in range(options.block)]
    block = b"".join(request.frame(opaque) for opaque, request in enumerate(requests, FIRST_OPAQUE))
    senders = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        for _ in range(options.connections):
            made = asyncio.get_running_loop().create_connection(lambda: Blocks(block, options.block), host, int(port))
            senders.append((await made)[1])
    await asyncio.sleep(options.warmup)
    before = Moment.now(senders, pids)
    await asyncio.sleep(options.seconds)
    spent = Moment.now(senders, pids).since(before)
    for sender in senders:
        sender.close()
        if sender.refused:
            raise SystemExit(f"a broker refused sends: {sender.refused!r}")
    return Found(
        spent.answers / spent.time,
        spent.brokers / max(spent.answers, 1) * 1e6,
        spent.load / spent.time,
        (spent.machine - spent.brokers - spent.load) / spent.time,
    )


class Moment(NamedTuple):
    """Sums so far: answers, and seconds of CPU of the brokers, of the load and of the whole machine."""

    answers: float
    brokers: float
    load: float
    machine: float
    time: float

    @classmethod
    def now(cls, senders: Sequence[Blocks], pids: Sequence[int]) -> Self:
        own = resource.getrusage(resource.RUSAGE_SELF)
        answers = sum(each.answers for each in senders)
        return cls(answers, sum(map(cpu_s, pids)), own.ru_utime + own.ru_stime, _machine_s(), time.perf_counter())

    def since(self, before: Self) -> Self:
        return type(self)(*(now - then for now, then in zip(self, before, strict=True)))


def _machine_s() -> float:
    """Seconds of CPU of all processes so far. Source: proc(5), stat: user, nice, system; irq, softirq."""
    fields = Path("/proc/stat").read_text().split(maxsplit=8)[1:8]
    return sum(int(fields[place]) for place in (0, 1, 2, 5, 6)) / os.sysconf("SC_CLK_TCK")


def one_round(options: argparse.Namespace, flush: str, count: int) -> Found:
    """Start *count* brokers and measure them."""
    settings = {"flushDiskType": flush, "metricsPromExporterPort": "0"}
    words = ("--brokers", str(count))
    with (
        BrokerProcess(settings, scratch=options.store, options=words) as process,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        brokers = process.ready["brokers"]
        return runner.run(load(options, [each["broker"] for each in brokers], [each["pid"] for each in brokers]))


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = os.cpu_count() or 1
    parser.add_argument("--brokers", type=whole(1), nargs="+", default=list(range(1, cores + 1)))
    parser.add_argument("--flush", nargs="+", choices=FLUSH_MODES, default=list(FLUSH_MODES))
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--connections", type=whole(1), default=2, help="for each broker")
    parser.add_argument("--block", type=whole(1), default=64, help="requests in flight on a connection")
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    parser.add_argument("--warmup", type=seconds(0), default=1.0, help="seconds before counting")
    parser.add_argument("--seconds", type=seconds(0.1), default=5.0, help="seconds that count")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    options = parser.parse_args()
    print(f"{cores} processors, load {os.getloadavg()[0]:.1f} before it begins; bodies of {options.size} bytes")
    found: dict[tuple[str, int], list[Found]] = {}
    for number in range(options.rounds):
        for flush in options.flush:
            for count in sorted(options.brokers, reverse=bool(number % 2)):
                each = one_round(options, flush, count)
                found.setdefault((flush, count), []).append(each)
                what = f"round {number + 1}, {flush}, {count} brokers"
                print(f"{what}: {each.rate:9,.0f} sends/s, others {each.others:.2f}", flush=True)
    print(f"\n{'flush':12} {'brokers':>7} {'sends/s':>9} {'of first':>8} {'CPU us/send':>11} {'load':>6} {'others':>6}")
    for (flush, count), rounds in sorted(found.items()):
        rate, cost, share, others = (statistics.median(column) for column in zip(*rounds, strict=True))
        first = statistics.median(each.rate for each in found[flush, options.brokers[0]])
        ratio = rate / max(first, 1)
        print(f"{flush:12} {count:7} {rate:9,.0f} {ratio:8.2f} {cost:11.1f} {share:6.2f} {others:6.2f}")


if __name__ == "__main__":
    main()
