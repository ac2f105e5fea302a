"""A producer that records its messages, the number of attempts, and the answers."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import attrs

from gantrymq.client import Client, Producer, SendResult
from gantrymq.client.message import Message
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.world import World
from simulation_rig.plan import TAGS, ProducerPlan

BODY_BYTES = (0, 0, 10, 300, 3000)
REFUSALS = frozenset({2, 14})  # busy, or on its way down
STALE = "is outside topic"  # a new topic's route from a name server that had just lost the topic


@attrs.define
class Sent:
    """One message."""

    number: int  # of its producer, in order
    producer: int
    topic: str
    tag: str
    body: bytes
    oneway: bool
    tries: int = 0
    place: tuple[int, int] | None = None  # queue and queue offset it was acknowledged with


class Sending:
    """One producer's work."""

    def __init__(self, number: int, plan: ProducerPlan, topics: list[str], seed: int) -> None:
        self.sent: list[Sent] = []
        self.bugs: list[str] = []
        self._number = number
        self._tries = 0  # attempts of the present sends
        self._plan = plan
        self._topics = topics
        self._random = random.Random(f"{seed}/producer {number}")

    async def run(self, world: World, namesrv: str) -> None:
        """Send everything, then close."""
        plan = self._plan
        async with Client(namesrv, world=world) as client:
            producer = client.producer(
                f"PG{self._number}", retries=plan.retries, default_topic_queues=2, batching=plan.gathers
            )
            self._count_attempts(producer)
            for _ in range(plan.sends):
                await self._send(producer)
                await world.clock.sleep(self._random.uniform(0, plan.pause_s))

    def _count_attempts(self, producer: Producer) -> None:
        sender = producer._modes.sender
        attempt = sender._attempt

        async def counted(*args: Any) -> SendResult:
            self._tries += 1
            return await attempt(*args)

        sender._attempt = counted

    async def _send(self, producer: Producer) -> None:
        chance, topic = self._random.random(), self._random.choice(self._topics)
        oneway = chance < self._plan.oneways
        count = self._random.randint(2, 5) if not oneway and chance < self._plan.oneways + self._plan.batches else 1
        sent = [self._make(topic, oneway) for _ in range(count)]
        hasty = self._random.random() < self._plan.hasty
        messages = [Message(each.topic, each.body, tags=each.tag, wait_stored=not hasty) for each in sent]
        self._tries = 0
        timeout_s = self._plan.timeout_s
        results: list[SendResult | BaseException] = []
        if oneway:
            self._tries = 1
            (failed,) = await asyncio.gather(
                producer.send_oneway(messages[0], timeout_s=timeout_s), return_exceptions=True
            )
            results = [failed] if failed is not None else []
        elif count > 1 and not self._plan.gathers:
            (whole,) = await asyncio.gather(producer.send_batch(messages, timeout_s=timeout_s), return_exceptions=True)
            results = [whole] if isinstance(whole, BaseException) else list(whole.each())
        else:
            sends = (producer.send(message, timeout_s=timeout_s) for message in messages)
            results = await asyncio.gather(*sends, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                self._failed(result)
        for index, each in enumerate(sent):
            each.tries = self._tries
            result = results[index] if index < len(results) else None
            if isinstance(result, SendResult):
                each.place = (result.queue.queue_id, result.queue_offset)

    def _failed(self, error: BaseException) -> None:
        """Errors of the client are expected, with refusals of good messages among them."""
        if not isinstance(error, ClientError):
            raise error
        refusal = error if isinstance(error, BrokerRefused) else error.__cause__
        if isinstance(refusal, BrokerRefused):
            self._judge(refusal)

    def _judge(self, error: BrokerRefused) -> None:
        """Any other refusal of a good message is a bug."""
        if error.response_code not in REFUSALS and STALE not in str(error):
            self.bugs.append(f"producer {self._number}: refused with {error.response_code}: {error}")

    def _make(self, topic: str, oneway: bool) -> Sent:
        number = len(self.sent)
        body = f"{self._number}/{number}/".encode() + self._random.randbytes(self._random.choice(BODY_BYTES))
        sent = Sent(number, self._number, topic, self._random.choice(TAGS), body, oneway)
        self.sent.append(sent)
        return sent
