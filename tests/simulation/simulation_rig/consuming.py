"""A consumer that follows every queue, records the messages it sees, and reports errors at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import attrs

from gantrymq.client import Client, PullResult, PullStatus, Reader
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.model.queue import MessageQueue
from gantrymq.world import World
from simulation_rig.plan import ConsumerPlan

RETRY_S = 0.3
TRANSIENT = frozenset({2, 14, 17})  # busy, shutting down, a topic that does not exist yet

Place = tuple[str, int, int]  # topic, queue, queue offset


@attrs.frozen
class Seen:
    """A message as a consumer received it."""

    body: bytes
    tag: str
    log_offset: int


class Following:
    """One consumer's work; cancel `run` to end it."""

    def __init__(
        self, number: int, plan: ConsumerPlan, topics: list[str], seed: int, flushed: Callable[[], int | None]
    ) -> None:
        """*flushed*: how far the log is synced to disk; None if that is irrelevant or unknown."""
        self.group = f"CG{number}"
        self.seen: dict[Place, Seen] = {}
        self.at: dict[tuple[str, int], int] = {}  # the next offset to pull
        self.bugs: list[str] = []
        self._plan = plan
        self._topics = topics
        self._flushed = flushed
        self._random = random.Random(f"{seed}/consumer {number}")

    async def run(self, world: World, namesrv: str) -> None:
        """Follow until cancelled."""
        async with Client(namesrv, world=world) as client, client.reader(group=self.group) as consumer:
            readers = [asyncio.ensure_future(self._topic(world, consumer, topic)) for topic in self._topics]
            try:
                await asyncio.gather(*readers)
            finally:
                for reader in readers:
                    reader.cancel()
                await asyncio.wait(readers)

    async def _topic(self, world: World, consumer: Reader, topic: str) -> None:
        readers: dict[MessageQueue, asyncio.Future[None]] = {}
        try:
            while True:
                try:
                    for queue in await consumer.queues(topic):
                        if queue not in readers:
                            readers[queue] = asyncio.ensure_future(self._queue(world, consumer, queue))
                except ClientError as error:
                    self._judge(error)
                await world.clock.sleep(RETRY_S if not readers else 10 * RETRY_S)
                for reader in readers.values():
                    if reader.done():
                        reader.result()
        finally:
            for reader in readers.values():
                reader.cancel()
            if readers:
                await asyncio.wait(readers.values())

    async def _queue(self, world: World, consumer: Reader, queue: MessageQueue) -> None:
        plan, key = self._plan, (queue.topic, queue.queue_id)
        while True:
            offset = self.at.setdefault(key, 0)
            try:
                found = await consumer.pull(
                    queue,
                    offset,
                    max_count=plan.max_count,
                    expression=plan.expression,
                    suspend_ms=plan.suspend_ms,
                )
                self._take(queue, offset, found)
                chance = self._random.random()
                if found.status is PullStatus.FOUND and chance < 0.3:
                    await consumer.commit(queue, found.next_offset)
                elif chance > 1 - plan.resumes:
                    self.at[key] = await consumer.committed(queue) or 0
            except ClientError as error:
                self._judge(error)
                await world.clock.sleep(RETRY_S)
            else:
                if found.status is PullStatus.NO_NEW_MSG:
                    await world.clock.sleep(self._random.uniform(0, RETRY_S))

    def _take(self, queue: MessageQueue, offset: int, found: PullResult) -> None:
        if found.status is PullStatus.OFFSET_ILLEGAL and offset > 0:
            self.bugs.append(f"{self.group}: {queue} no longer has the offset {offset}: {found}")
        expected = offset
        for message in found.messages:
            if message.queue_offset < expected:
                self.bugs.append(f"{self.group}: {queue} gave {message.queue_offset} where {expected} was due")
            expected = message.queue_offset + 1
            self._look_at(queue, message)
        if found.messages and found.next_offset < expected:
            self.bugs.append(f"{self.group}: {queue} wants to go on at {found.next_offset}, not {expected}")
        self.at[queue.topic, queue.queue_id] = found.next_offset

    def _look_at(self, queue: MessageQueue, message: ReceivedMessage) -> None:
        place = (queue.topic, queue.queue_id, message.queue_offset)
        seen = Seen(bytes(message.body), message.tags or "", message.log_offset)
        if self.seen.setdefault(place, seen) != seen:
            self.bugs.append(f"{self.group}: {place} was {self.seen[place]} and is {seen}")
        flushed = self._flushed()
        if flushed is not None and message.log_offset + message.store_size > flushed:
            self.bugs.append(
                f"{self.group}: {place} ends at {message.log_offset + message.store_size}, synced {flushed}"
            )

    def _judge(self, error: ClientError) -> None:
        if isinstance(error, BrokerRefused) and error.response_code not in TRANSIENT:
            self.bugs.append(f"{self.group}: refused with {error.response_code}: {error}")
