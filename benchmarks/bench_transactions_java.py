"""Transactional sends per second through the official Java client: GantryMQ and a Java broker, in one run.

    python benchmarks/bench_transactions_java.py              the goals: 64 threads and 1, both flush modes, 3 rounds
    python benchmarks/bench_transactions_java.py --quick --flush ASYNC_FLUSH --threads 64

A transactional send is a half message, its answer, and the commit, which is oneway. "behind" is the number of half
messages without a committed message at the end of the last send.

Each round starts the two servers in turn, never both at once; each gets the same load (1 KB bodies, our small load
program on `rocketmq-client`). Its warm-up is not counted: a JVM needs some 20 s of it. The figures are medians over
the rounds, the ratio is ours over Java's. Needs Java and Maven (the jars are downloaded once, see tests/interop).
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from send_rounds import FLUSH_MODES, THREADS, SendRounds

from gantrymq.client import Client
from gantrymq.model.names import HALF_TOPIC

TOPIC = "TransactionLoad"
GOALS = {(flush, threads): 1.5 for flush in FLUSH_MODES for threads in THREADS}


def behind(_report: dict[str, Any], namesrv: str) -> str:
    """The number of sends that are not committed yet."""
    return f", {asyncio.run(_undecided(namesrv))} behind"


async def _undecided(namesrv: str) -> int:
    async with Client(namesrv) as client, client.admin as admin:
        (broker,) = await admin.masters()
        halves, committed = [
            sum(each.max_offset for each in (await admin.topic_stats(broker, topic)).values())
            for topic in (HALF_TOPIC, TOPIC)
        ]
    return halves - committed


if __name__ == "__main__":
    sys.exit(SendRounds(__doc__, TOPIC, GOALS, flags=("--transactional",), after=behind).main())
