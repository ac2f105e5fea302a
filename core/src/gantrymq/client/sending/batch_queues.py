"""Detects topics with batch queues (``queue.type=BatchCQ``, RocketMQ 5.0 and later) by asking their brokers.

    ordinary queues     a batch without an id of its own: each message is a record, and keeps its id
    batch queues        a batch with one: all its messages are one record (an inner batch), each keeps its id inside

On ordinary queues the id of a batch hides the ids of its messages, and consumers and queries cannot find them. Java's
client from 5.0 on always sends a batch id; ours only sends it to batch queues. A route does not contain the queue type,
so one broker is queried. If the broker is older or does not answer, the queues are treated as ordinary, where batches
with and without an id are stored.

Sources: apache/rocketmq broker/.../processor/SendMessageProcessor.java (sendBatchMessage),
client/.../producer/DefaultMQProducer.java (batch).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.errors import BrokerRefused, GantryError
from gantrymq.loose_json import loads
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.topics import GetTopicConfigRequest

__all__ = ["BatchQueueCache"]

logger = logging.getLogger("gantrymq.client")

ASK_TIMEOUT_S: Final = 1.0
KEPT_S: Final = 300.0  # a topic's type never changes, but a topic may be deleted and recreated
GUESS_KEPT_S: Final = 30.0  # for a topic that does not exist yet, or if the broker does not answer


class BatchQueueCache:
    """Queue types of one producer's topics."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._jobs: set[asyncio.Task[None]] = set()
        self._known: dict[str, tuple[bool, float]] = {}  # by topic: the answer and when it expires
        self._asking = asyncio.Lock()  # concurrent batches of a new topic share one request

    def known(self, topic: str) -> bool | None:
        """Return whether *topic* has batch queues according to the cache, or None before `has_batch_queues`."""
        answer, until_s = self._known.get(topic, (None, 0.0))
        now_s = self._instance.world.clock.monotonic()
        if answer is not None and now_s >= until_s:
            self._known[topic] = answer, now_s + GUESS_KEPT_S  # used until the new answer arrives
            job = self._instance.job(self._renew(topic))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
        return answer

    async def has_batch_queues(self, topic: str) -> bool:
        """Return whether *topic*, whose route is known, has batch queues. Never raises."""
        answer = self.known(topic)
        if answer is not None:
            return answer
        async with self._asking:
            if topic not in self._known:
                await self._renew(topic)
        return self._known[topic][0]

    def end(self) -> None:
        """Cancel pending requests."""
        for job in self._jobs:
            job.cancel()

    async def _renew(self, topic: str) -> None:
        answer, kept_s = await self._ask(topic)
        self._known[topic] = answer, self._instance.world.clock.monotonic() + kept_s

    async def _ask(self, topic: str) -> tuple[bool, float]:
        """Query a broker; return the answer and for how many seconds to cache it."""
        routes = self._instance.routes
        masters = (routes.master(queue.broker_name) for queue in routes.queues_known(topic))
        address = next((master for master in masters if master is not None), None)
        if address is None:
            return False, ASK_TIMEOUT_S
        try:
            header = GetTopicConfigRequest(topic=topic, lo=True)
            code = RequestCode.GET_TOPIC_CONFIG
            reply = await self._instance.rpc.call(address, code, header, timeout_s=ASK_TIMEOUT_S)
            return TopicConfig.from_json(loads(reply.payload or b"{}")).has_batch_queues, KEPT_S
        except BrokerRefused:  # it has no such topic yet, or does not know the request
            return False, GUESS_KEPT_S
        except (GantryError, ValueError, TypeError, AttributeError, OverflowError) as problem:
            logger.info("cannot query %s for the queue type of %s: %s", address, topic, problem)
            return False, GUESS_KEPT_S
