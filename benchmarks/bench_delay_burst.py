"""A burst of delayed messages: its duration, its order, and its effect on other sends.

    python benchmarks/bench_delay_burst.py                          100,000 messages due within one second, 1 KB each
    python benchmarks/bench_delay_burst.py --pending 10000000 --size 100     with that many more that are not due
    python benchmarks/bench_delay_burst.py --timed                  messages with their own time instead of a level

A store is created in which messages of one delay level are due in the same second, some seconds ahead, and a broker is
started on it. Meanwhile sends of 1 KB go to another topic at a fixed pace, each timed from the moment it was due.
Afterwards the store is read to find when each message was delivered, and whether every queue has them in order of time.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import attrs
from arguments import FLUSH_MODES, existing_folder, seconds, whole
from bench_cold_backlog import send
from filled_store import new_store, put, unique_key
from load_client import BrokerProcess, connect, create_topic_request, new_loop, percentile, verdict
from loop_watch import LONG_MS, LoopWatch, idle_log

from gantrymq.formats.record import iter_records
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.interfaces import GetLimit, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world
from gantrymq_schedule.levels.table import LevelTable
from gantrymq_schedule.timer.messages import timer_queue_message

TOPIC = "DelayBurst"
LEVEL, LONG_LEVEL = 17, 18  # an hour, two hours
QUEUES = 4
LEAVE_S = 3.0
HOUR_MS = 3600 * 1000
BEFORE_S, AFTER_S = 2.0, 6.0


class SetClock:
    """A wall clock that can be set; everything else is the real clock's."""

    def __init__(self, clock) -> None:
        self._clock = clock
        self.now = clock.now_ms()

    def now_ms(self) -> int:
        return self.now

    def __getattr__(self, name):
        return getattr(self._clock, name)


async def fill(root: Path, options: argparse.Namespace, due_ms: int) -> None:
    """Create the store: messages due within the second from *due_ms* on, and later pending ones."""
    world = real_world()
    clock = SetClock(world.clock)
    store = new_store(attrs.evolve(world, clock=clock), root)
    await store.start()
    delays_ms = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    table, body = LevelTable(delays_ms), b"x" * options.size

    def message(number: int, level: int) -> StoreMessage:
        own = {"UNIQ_KEY": unique_key(number).decode(), "TAGS": "TagA", "WAIT": "true", "DELAY": str(level)}
        made = StoreMessage(TOPIC, number % QUEUES, body, b"", 0, born_timestamp=number)
        if options.timed:
            del own["DELAY"]
            later_ms = 0 if level == LEVEL else HOUR_MS + number % 3600 * 1000
            return timer_queue_message(made, own, due_ms - 1000 + later_ms)
        return table.move(made, own)

    for part in range(100):
        clock.now = due_ms - delays_ms[LEVEL - 1] + part * 10
        numbers = range(options.messages * part // 100, options.messages * (part + 1) // 100)
        await put(store, [message(number, LEVEL) for number in numbers])
    for first in range(0, options.pending, 1000):
        await put(store, [message(options.messages + first + each, LONG_LEVEL) for each in range(1000)])
    await store.stop()
    await world.workers.close()


async def left(root: Path) -> list[tuple[int, int, int]]:
    """Of each message that left: its queue, its number and when it was stored, in the order of the queues."""
    world = real_world()
    store = new_store(world, root)
    await store.start()
    found = []
    for queue in range(QUEUES):
        offset, end = store.bounds(Queue(TOPIC, queue))
        while offset < end:
            result = store.get(Queue(TOPIC, queue), offset, GetLimit(), None)
            result = result if isinstance(result, tuple) else await result
            for buffer in result.buffers:
                found += [(queue, record.born_timestamp, record.store_timestamp) for record in iter_records(buffer)]
            offset = result.next_offset
    await store.stop()
    await world.workers.close()
    return found


def main() -> int:
    """Create the store, run the burst, read the store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timed", action="store_true", help="each has the time itself, one slot of the wheel")
    parser.add_argument("--messages", type=whole(1), default=100_000)
    parser.add_argument("--pending", type=whole(0), default=0, help="messages that are not due")
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    parser.add_argument("--flush", default="SYNC_FLUSH", choices=FLUSH_MODES)
    parser.add_argument("--pace", type=whole(1), default=300, help="sends a second beside them")
    parser.add_argument("--lead", type=seconds(1), default=10.0, help="seconds for making the store and starting")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the store is made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gantrymq-burst-", dir=options.store) as folder:
        root, log, idle = Path(folder) / "store", Path(folder) / "steps", Path(folder) / "idle"
        due_ms = int(time.time() + options.lead) * 1000
        asyncio.run(fill(root, options, due_ms))
        watch = LoopWatch(log)
        with (
            idle_log(idle),
            BrokerProcess({"flushDiskType": options.flush}, store=root, python=watch.python) as broker,
            asyncio.Runner(loop_factory=new_loop) as runner,
        ):
            memory = broker.resident_bytes() / 1024**2
            runner.run(make_topic(broker.address))
            wait_s = due_ms / 1000 - time.time() - BEFORE_S
            if wait_s < 0:
                raise SystemExit(f"the messages were due {-wait_s:.1f} s too soon; give it more --lead")
            time.sleep(wait_s)
            before = runner.run(send(broker.address, options.pace, BEFORE_S))
            began = time.monotonic()
            beside = runner.run(send(broker.address, options.pace, AFTER_S))
            steps = watch.between(began, time.monotonic(), idle)
            most_memory = broker.peak_bytes() / 1024**2
        found = asyncio.run(left(root))
    took_s = (max(time_ms for *_, time_ms in found) - due_ms) / 1000
    early = sum(time_ms < due_ms for *_, time_ms in found)
    ordered = all(a[:2] < b[:2] for a, b in pairwise(found))
    complete = len(found) == len({number for _, number, _ in found}) == options.messages
    print(f"{options.messages:,} messages due in one second, {options.pending:,} pending, {options.flush}")
    print(f"left {took_s:.2f} s after the first was due (goal {LEAVE_S:g}), {verdict(took_s, LEAVE_S)}")
    print(f"{'each once' if complete else 'NOT EACH ONCE'}, {early} early, {'in' if ordered else 'NOT IN'} order")
    print(f"memory of the broker after its start {memory:.1f} MB, at most {most_memory:.1f} MB")
    for name, times in (("before", before), ("beside", beside)):
        p50, p99, most = (percentile(times, share) * 1e3 for share in (0.5, 0.99, 1.0))
        print(f"sends {name}: p50 {p50:.2f}, p99 {p99:.2f}, at most {most:.2f} ms")
    print(f"longest step of the loop {steps.longest_ms:.1f} ms ({steps.said}), {verdict(steps.longest_ms, LONG_MS)}")
    return 0 if complete and ordered and not early and took_s < LEAVE_S else 1


async def make_topic(address: str) -> None:
    """The topic that the messages go to."""
    (connection,) = await connect(address, 1)
    await connection.call(create_topic_request(TOPIC, QUEUES))
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
