"""Scripted lives of one broker on one machine: for tests with a fixed sequence of events.

    story = Story(world, start)
    await story.live(work, end="kill")              a process that is killed; its page cache survives
    await story.live(more_work, end="power")        the next process; then everything unsynced is lost
    await story.live(story.judge)                   checks everything acknowledged

The kernel writes nothing on its own here: unsynced data is lost completely in a power cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

import attrs

from crash_rig.lives import Life
from crash_rig.oracle import content_of
from crash_rig.runs import START_MS
from crash_rig.starts import Start
from gantrymq.errors import GantryError
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit, StoreMessage
from gantrymq.model import properties
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.world import World
from gantrymq_storage_faults import FaultPlan, Machine
from gantrymq_testing.simulated import simulate

QUIET = FaultPlan(lose=1.0, tear=0.0, write_back=0.0)
# The defaults.
NORMAL = {
    "flushIntervalCommitLog": 500,
    "flushCommitLogThoroughInterval": 10_000,
    "flushIntervalConsumeQueue": 1000,
    "flushConsumeQueueThoroughInterval": 60_000,
    "flushConsumerOffsetInterval": 5000,
}

Work = Callable[[Life], Awaitable[object]]


class Story:
    """The acknowledged messages and the machine."""

    def __init__(self, world: World, start: Start, **settings: Any) -> None:
        """*settings* hold for every life."""
        self.world = world
        self.machine = Machine(start.disk(world.clock.now_ms))
        self.kept: dict[Queue, dict[int, bytes]] = defaultdict(dict)  # bodies by queue offset
        self.refused: list[str] = []
        self.said: list[str] = []
        self._start = start
        self._settings = NORMAL | settings
        self._sent = 0

    async def live(self, work: Work, *, end: str = "stop", plan: FaultPlan = QUIET, **settings: Any) -> Life:
        """One process: start, do *work*, and end by "stop", "kill" or "power"."""
        life = Life(self.world, self.machine, self._start, plan, self._settings | settings)

        async def all_of_it(life: Life) -> None:
            await work(life)
            if end != "stop":
                life.kill()

        await life.run(all_of_it)
        self.said += life.said
        if end == "power":
            self.machine.power_cut(QUIET)
        return life

    async def send(self, life: Life, queue: Queue, count: int = 1, *, size: int = 400, pause_s: float = 0.0) -> None:
        """Send messages one by one; acknowledged ones are recorded, the others are `refused`."""
        if life.broker.topics.get(queue.topic) is None:
            life.broker.topics.put(TopicConfig(queue.topic, read_queues=4, write_queues=4))
        for _ in range(count):
            await self.put(life, self.message(queue, size))
            if pause_s:
                await life.world.clock.sleep(pause_s)

    async def put(self, life: Life, message: StoreMessage) -> None:
        """Send one message."""
        try:
            result = await life.broker.messages.put(message)
        except GantryError as error:
            self.refused.append(str(error))
            return
        kept = self.kept[Queue(message.topic, message.queue_id)]
        assert result.queue_offset not in kept, f"{message.topic}/{message.queue_id}: {result.queue_offset} is taken"
        kept[result.queue_offset] = bytes(message.body)

    def message(self, queue: Queue, size: int = 400) -> StoreMessage:
        """Return a message with its own key."""
        self._sent += 1
        key = f"{self._sent:08d}"
        text = properties.encode({properties.KEYS: key})
        return StoreMessage(queue.topic, queue.queue_id, key.encode().ljust(size, b"."), text)

    async def judge(self, life: Life) -> None:
        """Check that all acknowledged messages exist once at their offset, and the next one follows them."""
        content = await content_of(life.broker.store)
        for queue, kept in self.kept.items():
            bodies = list(content.get(queue, {}).values())
            assert len(set(bodies)) == len(bodies), f"{queue} has a message twice"
            wrong = [at for at, body in kept.items() if await self.at(life, queue, at) != (at, body)]
            bounds = life.broker.store.bounds(queue)
            assert not wrong, f"{queue}: {wrong} of {len(kept)} are gone or elsewhere, it is {bounds}; {self.said}"
            assert bounds.max_offset > max(kept, default=-1)
        await self.go_on(life)

    @staticmethod
    async def at(life: Life, queue: Queue, queue_offset: int) -> tuple[int, bytes]:
        """The message that a consumer gets at *queue_offset*: its own queue offset, and its body."""
        result = await life.broker.messages.get(queue, queue_offset, GetLimit(1))
        records = [record for buffer in result.buffers for record in iter_records(buffer)]
        return (records[0].queue_offset, bytes(records[0].body)) if records else (-1, b"")

    async def go_on(self, life: Life) -> None:
        """One message more for each queue, at an offset that was not given out before."""
        for queue, kept in list(self.kept.items()):
            newest = max(kept, default=-1)
            await self.send(life, queue)
            assert max(kept) > newest, f"{queue}: given {set(kept)} although {newest} was given out"

    async def found_by_key(self, life: Life, queue: Queue, body: bytes) -> list[bytes]:
        """Return the result of a query by the key of *body*."""
        found = life.broker.store.query(queue.topic, body[:8].decode(), 0, 1 << 50, 8)
        if isawaitable(found):
            found = await found
        return [bytes(record.body) for raw in found.records for record in iter_records(raw)]


def tell(start: Start, tale: Callable[[Story], Awaitable[None]], **settings: Any) -> None:
    """Run a story in a simulated world; queues and index have small files."""

    async def main(world: World) -> None:
        await tale(Story(world, attrs.evolve(start, content=dict(start.content)), **settings))

    simulate(1, main, start_ms=START_MS)
