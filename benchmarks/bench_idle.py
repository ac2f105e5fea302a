"""The cost of idle consumers: the broker's CPU while they are parked in long polls.

    python benchmarks/bench_idle.py                     200 consumers, 60 s; the goal is under 1 % of one core
    python benchmarks/bench_idle.py --consumers 1000 --seconds 30

Each consumer is a raw connection of this process that behaves as a push consumer of the Java client does by default: a
pull of its queue held for 15 s, repeated; a heartbeat every 30 s, a request for its group's members every 20 s, an
offset commit every 5 s. Their start times are spread evenly. A group has as many members as the topic has queues.
The figure is user and system time of all the broker's threads, from /proc; name server included, because it is in the
same process.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable

from arguments import FLUSH_MODES, existing_folder, seconds, whole
from load_client import (
    BrokerProcess,
    Connection,
    commit_request,
    connect,
    create_topic_request,
    heartbeat_request,
    members_request,
    new_loop,
    pull_request,
    raise_descriptor_limit,
    verdict,
)
from load_rig.connection import Answer

TOPIC = "IdleTopic"
GOAL_PERCENT = 1.0
HOLD_MS = 15_000
HEARTBEAT_S = 30.0
MEMBERS_S = 20.0
COMMIT_S = 5.0
PULL_NOT_FOUND = 19


class Consumer:
    """One parked consumer."""

    def __init__(self, connection: Connection, number: int, queues: int) -> None:
        self.polls = 0
        self._connection = connection
        group, queue = f"idle-{number // queues}", number % queues
        self.heartbeat = heartbeat_request(f"127.0.0.1@{number}", TOPIC, group)
        self._members = members_request(group)
        self._commit = commit_request(TOPIC, queue, 0, group)
        self._pull = pull_request(TOPIC, queue, 0, group, hold_ms=HOLD_MS)

    def begin(self, spread: float) -> None:
        """Poll, and do the rest periodically, the first time after the share *spread* of each period."""
        self._connection.ask(self._pull, self._again)
        loop = asyncio.get_running_loop()
        for action, period_s in ((self._beat, HEARTBEAT_S), (self._look, MEMBERS_S), (self._save, COMMIT_S)):
            loop.call_later(period_s * spread, self._every, action, period_s)

    def _again(self, connection: Connection, answer: Answer) -> None:
        if answer.code != PULL_NOT_FOUND:
            raise SystemExit(f"a pull was answered with {answer.header!r}")
        self.polls += 1
        connection.ask(self._pull, self._again)

    def _every(self, action: Callable[[], None], period_s: float) -> None:
        action()
        asyncio.get_running_loop().call_later(period_s, self._every, action, period_s)

    def _beat(self) -> None:
        self._connection.ask(self.heartbeat, _good)

    def _look(self) -> None:
        self._connection.ask(self._members, _good)

    def _save(self) -> None:
        self._connection.tell(self._commit)


def _good(connection: Connection, answer: Answer) -> None:
    if answer.code:
        raise SystemExit(f"the broker refused: {answer.header!r}")


async def measure(options: argparse.Namespace, broker: BrokerProcess) -> float:
    """Park the consumers and return the broker's CPU in percent of one core."""
    idle = await cpu_percent(broker, options.settle)
    connections = await connect(broker.address, options.consumers)
    answer = await connections[0].call(create_topic_request(TOPIC, options.queues))
    _good(connections[0], answer)
    consumers = [Consumer(connection, number, options.queues) for number, connection in enumerate(connections)]
    for connection, consumer in zip(connections, consumers, strict=True):
        _good(connection, await connection.call(consumer.heartbeat))
    for number, consumer in enumerate(consumers):
        consumer.begin(number / len(consumers))
        await asyncio.sleep(options.settle / len(consumers))
    polls, asked = sum(c.polls for c in consumers), sum(c.asked for c in connections)
    percent = await cpu_percent(broker, options.seconds)
    polls, asked = sum(c.polls for c in consumers) - polls, sum(c.asked for c in connections) - asked
    lost = sum(connection.lost for connection in connections)
    if lost:
        raise SystemExit(f"{lost} connections were closed by the broker")
    print(f"consumers parked          {len(consumers):8}     in {-(-len(consumers) // options.queues)} groups")
    print(f"polls that ended          {polls / options.seconds:8.1f} /s")
    print(f"all requests              {asked / options.seconds:8.1f} /s  and the commits, which nobody answers")
    print(f"CPU without consumers     {idle:8.2f} %")
    print(f"CPU with them parked      {percent:8.2f} %  {verdict(percent, GOAL_PERCENT)} (goal {GOAL_PERCENT:g} %)")
    return percent


async def cpu_percent(broker: BrokerProcess, seconds: float) -> float:
    """The broker's CPU during the given seconds from now."""
    cpu, began = broker.cpu_s(), time.perf_counter()
    await asyncio.sleep(seconds)
    return (broker.cpu_s() - cpu) / (time.perf_counter() - began) * 100


def main() -> int:
    """Measure and print; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consumers", type=whole(1), default=200)
    parser.add_argument("--queues", type=whole(1), default=8)
    parser.add_argument("--seconds", type=seconds(0.1), default=60.0, help="seconds that count")
    parser.add_argument("--settle", type=seconds(0), default=16.0, help="seconds over which the polls begin")
    parser.add_argument("--flush", choices=FLUSH_MODES, default="ASYNC_FLUSH")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the store is made")
    options = parser.parse_args()
    raise_descriptor_limit(options.consumers + 100)
    settings = {"flushDiskType": options.flush}
    with BrokerProcess(settings, scratch=options.store) as broker, asyncio.Runner(loop_factory=new_loop) as runner:
        percent = runner.run(measure(options, broker))
    return 0 if percent < GOAL_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
