"""Delayed sends per second through the official Java client: GantryMQ and a Java broker, in one run on one machine.

    python benchmarks/bench_delayed_sends_java.py              the goals: 64 threads and 1, both flush modes, 3 rounds
    python benchmarks/bench_delayed_sends_java.py --quick --flush ASYNC_FLUSH --threads 64

Each message has delay level 18, two hours, so that none is due during the measurement; `bench_delay_burst.py` measures
their delivery. A round ends with a check that they wait in the queue of that level.

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
from gantrymq.model.names import SCHEDULE_TOPIC

TOPIC = "DelayedLoad"
LEVEL = 18
GOALS = {(flush, threads): 1.0 for flush in FLUSH_MODES for threads in THREADS}


def look(report: dict[str, Any], namesrv: str) -> str:
    """Check that all messages wait. Raises SystemExit if some do not."""
    waiting, seen = asyncio.run(_stored(namesrv))
    if waiting < report["sends"] or seen:
        raise SystemExit(f"of {report['sends']} delayed messages {waiting} wait, and {seen} can be seen already")
    return ""


async def _stored(namesrv: str) -> tuple[int, int]:
    """Messages of the level's queue, and of the topic's own queues."""
    async with Client(namesrv) as client, client.admin as admin:
        (broker,) = await admin.masters()
        levels, own = [await admin.topic_stats(broker, topic) for topic in (SCHEDULE_TOPIC, TOPIC)]
    waiting = sum(each.max_offset for queue, each in levels.items() if queue.queue_id == LEVEL - 1)
    return waiting, sum(each.max_offset for each in own.values())


if __name__ == "__main__":
    sys.exit(SendRounds(__doc__, TOPIC, GOALS, options={"delay_level": LEVEL}, after=look).main())
