"""A group whose members join, leave and die, each in its own process; all share one record of consumed messages."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import attrs

from gantrymq.client import Client, ReceivedMessage, ReconsumeLater
from gantrymq.world import World
from gantrymq_testing.simulated import ProcessKilled, SimulatedLoop, SimulatedProcess
from simulation_rig.consuming import Place
from simulation_rig.oracle import Log
from simulation_rig.plan import GroupPlan

FIRST_NUMBER = 500  # process ids of members
SLOW_S = 0.2  # time that a message may take
CLOSE_S = 30.0


@attrs.define
class Member:
    """One of the group."""

    process: SimulatedProcess
    client: Client
    task: asyncio.Task[None]


class Sharing:
    """The group; `run` adds and removes members until `settle`, then one member consumes the rest."""

    def __init__(self, plan: GroupPlan, topics: list[str], seed: int, world: World) -> None:
        self.group = "SHARED"
        self.bugs: list[str] = []
        self.counts: Counter[Place] = Counter()  # how often each message was consumed, at its place
        self.elsewhere: Counter[bytes] = Counter()  # the same for messages that came through the retry topic
        self.joined = self.left = self.died = 0
        self.processes: list[SimulatedProcess] = []
        self._plan = plan
        self._topics = topics
        self._world = world
        self._random = random.Random(f"{seed}/sharing")
        self._members: list[Member] = []
        self._failures: Counter[bytes] = Counter()
        self._settled = asyncio.Event()
        self._ended = asyncio.Event()
        self._reached: dict[tuple[str, int], int] = {}  # the next offset expected of each queue

    async def run(self, namesrv: str) -> None:
        """Add and remove members until `end`."""
        self._join(namesrv)
        for _ in range(self._plan.moves):
            await self._world.clock.sleep(self._random.uniform(0, self._plan.pause_s))
            if self._settled.is_set():
                break
            await self._move(namesrv)
        await self._settled.wait()
        if not self._members:
            self._join(namesrv)
        await self._ended.wait()
        for member in list(self._members):
            await self._leave(member)

    def settle(self) -> None:
        """Stop killing members."""
        self._settled.set()

    def end(self) -> None:
        """Everybody leaves."""
        self._ended.set()

    def consumed(self, log: Log) -> bool:
        """Whether all of *log* was consumed."""
        return not any(True for _ in self._missing(log))

    def judge(self, log: Log) -> Iterator[str]:
        """Problems found, as sentences."""
        yield from self.bugs
        missing = sorted(self._missing(log))
        if missing:
            yield f"{self.group} never consumed {missing[:10]}"
        for place in self.counts:
            if place not in log:
                yield f"{self.group} consumed {place}, where nothing is"

    def _missing(self, log: Log) -> Iterator[Place]:
        for place, seen in log.items():
            if not self.counts[place] and not self.elsewhere[seen.body]:
                yield place

    def _join(self, namesrv: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        number = len(self.processes)
        process = SimulatedProcess(self._world, loop, f"10.0.3.{number % 250 + 1}", FIRST_NUMBER + number)
        self.processes.append(process)
        client = Client(namesrv, world=process.world)
        self._members.append(Member(process, client, process.run(self._consume(process.world, client))))
        self.joined += 1

    async def _move(self, namesrv: str) -> None:
        chance = self._random.random()
        if len(self._members) < self._plan.most and (chance < 0.5 or not self._members):
            self._join(namesrv)
        elif self._members and chance < 0.8:
            self.left += 1
            await self._leave(self._random.choice(self._members))
        elif self._members:
            self.died += 1
            member = self._random.choice(self._members)
            self._members.remove(member)
            member.process.kill()

    async def _leave(self, member: Member) -> None:
        self._members.remove(member)
        if not member.client.is_started:  # it gave up before it began
            member.task.cancel()
        closing = member.process.run(member.client.close(CLOSE_S))
        await asyncio.wait([closing, member.task])
        for task in (closing, member.task):
            if (
                not task.cancelled()
                and (error := task.exception()) is not None
                and not isinstance(error, ProcessKilled)
            ):
                self.bugs.append(f"a member of {self.group} ended with {error!r}")

    async def _consume(self, world: World, client: Client) -> None:
        async with client:
            consumer = client.consumer(
                self.group,
                dict.fromkeys(self._topics, "*"),
                orderly=self._plan.orderly,
                consume_from="first",
                pull_batch=self._plan.pull_batch,
            )
            if self._plan.by_loop:
                async for message in consumer:
                    await self._take(world, message)
            else:

                async def handle(message: ReceivedMessage) -> None:
                    await self._take(world, message)

                await consumer.run(handle, concurrency=self._plan.concurrency)

    async def _take(self, world: World, message: ReceivedMessage) -> None:
        await world.clock.sleep(self._random.uniform(0, SLOW_S) if self._random.random() < 0.2 else 0.0)
        if self._failures[message.body] < 2 and self._random.random() < self._plan.failing:
            self._failures[message.body] += 1
            raise ReconsumeLater(1)
        if message.reconsume_times and not self._plan.orderly:
            self.elsewhere[message.body] += 1
            return
        place = (message.topic, message.queue_id, message.queue_offset)
        self.counts[place] += 1
        if self._plan.orderly:
            self._in_order(place)

    def _in_order(self, place: Place) -> None:
        """Check that a message delivered for the first time follows all earlier ones."""
        topic, queue, offset = place
        due = self._reached.get((topic, queue), 0)
        if offset > due:
            self.bugs.append(f"{self.group}: {place} was consumed before offset {due} of its queue")
        self._reached[topic, queue] = max(due, offset + 1)
