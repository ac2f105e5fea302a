"""The cost of the metrics plugin per message in the pipeline; `bench_scrape.py` measures scrapes.

    python benchmarks/bench_metrics.py [--messages N] [--rounds N]

The pipeline runs over a store that does nothing, without gates, with batches of 1, 8 and 64 messages; rounds with and
without the listener alternate, and the medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from arguments import whole

from gantrymq.broker.sending.pipeline import Pipeline
from gantrymq.interfaces import PutResult, PutStatus, StoreMessage
from gantrymq.world.real import real_world
from gantrymq_metrics.send_times import SendTimes


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


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=whole(1), default=50_000)
    parser.add_argument("--rounds", type=whole(1), default=7)
    options = parser.parse_args()
    for batch in (1, 8, 64):
        without, with_it = [], []
        for _ in range(options.rounds):
            without.append(asyncio.run(pipeline_us(options.messages, batch, False)))
            with_it.append(asyncio.run(pipeline_us(options.messages, batch, True)))
        plain, measured = statistics.median(without), statistics.median(with_it)
        print(f"batches of {batch:2}: {plain:6.3f} us a message, with metrics {measured:6.3f}, {measured - plain:+.3f}")


if __name__ == "__main__":
    main()
