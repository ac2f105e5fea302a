"""The cost of the metrics plugin per message in the pipeline, and the cost of a scrape.

    python benchmarks/bench_metrics.py [--messages N] [--topics N] [--rounds N]

The pipeline runs over a store that does nothing, without gates, with batches of 1, 8 and 64 messages; rounds with and
without the listener alternate, and the medians are compared. The scrape is of a broker with N topics, each with traffic
and a group.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from arguments import whole

from gantrymq.broker.sending.pipeline import Pipeline
from gantrymq.interfaces import (
    BrokerMetrics,
    MidnightCounts,
    OnlineGroup,
    PutResult,
    PutStatus,
    StoreMessage,
    StoreState,
    Throughput,
)
from gantrymq.world import DiskUsage
from gantrymq.world.real import real_world
from gantrymq_metrics.exposition import families, render
from gantrymq_metrics.send_times import SendTimes
from gantrymq_metrics.snapshot import ConsumerLag, MetricsSnapshot


class NothingStore:
    """Accepts every message and keeps none."""

    def __init__(self) -> None:
        self.end = 0

    def put(self, messages: Sequence[StoreMessage]) -> list[PutResult]:
        """Report a size of a hundred bytes for each message."""
        results = []
        for _ in messages:
            results.append(PutResult(PutStatus.OK, 0, self.end, 100, 0))
            self.end += 100
        return results

    def publish(self, up_to: int) -> tuple[()]:
        """Make nothing visible."""
        return ()


async def pipeline_us(messages: int, batch: int, measured: bool) -> float:
    """Microseconds a message through the pipeline."""
    pipeline = Pipeline(NothingStore(), [], real_world().clock, 5.0)  # type: ignore[arg-type]
    if measured:
        pipeline.on_acknowledged(SendTimes().acknowledged)
    made = [StoreMessage("Bench", 0, b"", b"")] * batch
    began = time.perf_counter()
    loop = asyncio.get_running_loop()
    for _ in range(messages // batch):
        answer = loop.create_future()
        pipeline.submit(made, lambda results, error, answer=answer: answer.set_result(results))
        await answer
    took = time.perf_counter() - began
    await pipeline.close()
    return took / (messages // batch * batch) * 1e6


def moment_of(topics: int) -> MetricsSnapshot:
    """A broker with *topics* topics, one group on each."""
    names = [f"Topic{number:05}" for number in range(topics)]
    flow = Throughput(1000, 100_000, 10.0, 1000.0)
    figures = BrokerMetrics(
        cluster="DefaultCluster",
        broker="broker-a",
        address="127.0.0.1:10911",
        puts=dict.fromkeys(names, flow),
        gets={(name, f"group-{name}"): flow for name in names},
        put=flow,
        got=flow,
        put_at_midnight=MidnightCounts(),
        got_at_midnight=MidnightCounts(),
        put_failed=0,
        pulls_found=1,
        pulls_missed=1,
        pulls_held=topics,
        connections=topics,
        groups=topics,
        producers={"producers": 10},
        consumers={f"group-{name}": OnlineGroup(2, "CLUSTERING") for name in names},
        committed={},
        unwritten={},
        parked={},
        plugin_errors={},
        name_servers={"127.0.0.1:9876": None},
    )
    return MetricsSnapshot(
        figures=figures,
        state=StoreState(0, 10**9, 10**9, 10**9),
        ends=dict.fromkeys(names, 1000),
        lags=tuple(ConsumerLag(name, f"group-{name}", 900, 100, 0, 1500) for name in names),
        disk=DiskUsage(10**12, 10**11, 10**11),
        topics=topics,
        permission=6,
        send_times=SendTimes().histogram(),
        is_own_topic=lambda _name: False,
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=whole(1), default=50_000)
    parser.add_argument("--topics", type=whole(1), default=1000)
    parser.add_argument("--rounds", type=whole(1), default=7)
    options = parser.parse_args()
    for batch in (1, 8, 64):
        without, with_it = [], []
        for _ in range(options.rounds):
            without.append(asyncio.run(pipeline_us(options.messages, batch, False)))
            with_it.append(asyncio.run(pipeline_us(options.messages, batch, True)))
        plain, measured = statistics.median(without), statistics.median(with_it)
        print(f"batches of {batch:2}: {plain:6.3f} us a message, with metrics {measured:6.3f}, {measured - plain:+.3f}")
    moment = moment_of(options.topics)
    times, longest, lines = [], 0.0, 0
    for _ in range(options.rounds):
        began = before = time.perf_counter()
        lines = 0
        for family in families(moment):
            lines += render(family).count(b"\n")
            now = time.perf_counter()
            longest, before = max(longest, now - before), now
        times.append(time.perf_counter() - began)
    took = statistics.median(times)
    print(
        f"scrape of {options.topics} topics: {lines} lines, {took * 1e3:.1f} ms, {took / lines * 1e6:.1f} us a line, "
        f"the longest family {longest * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
