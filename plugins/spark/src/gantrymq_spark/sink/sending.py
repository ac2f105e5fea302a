"""Sends the messages of one Arrow batch and waits until each of them is stored.

Messages without an order go in batches to all queues in turn, many requests under way at once. Those with one go to the
queue that it says, and of each queue one request is under way at a time: brokers may work on two at once, and in any
order. What a broker does not answer is sent again before what is behind it, so a message may be stored twice, and the
first copies of all messages of one order are in that order.

Source: apache/rocketmq client/.../producer/selector/SelectMessageQueueByHash.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gantrymq.client import Producer, SendFailed
from gantrymq.client.message import Message
from gantrymq.client.retries import NOT_READY
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost
from gantrymq.model.java import string_hash
from gantrymq.model.queue import MessageQueue
from gantrymq.world import Clock
from gantrymq_spark.sink.options import SinkOptions
from gantrymq_spark.sink.rows import Outbound, Source

__all__ = ["Sender", "choose_queue", "requests"]

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
RECORD_BYTES: Final = 100  # of a message in a batch, beside its body and properties, at most
MOST_REQUESTS: Final = 32  # under way at once of those without an order
_AWAY = (ConnectFailed, ConnectionLost, CallTimeout)


class Sender:
    """Sends with a producer that was started."""

    def __init__(self, producer: Producer, clock: Clock, options: SinkOptions) -> None:
        self._producer = producer
        self._clock = clock
        self._options = options
        self._free = asyncio.Semaphore(MOST_REQUESTS)

    async def send(self, messages: Iterable[Outbound]) -> int:
        """Send; how many were stored.

        Raises:
            ClientError: there is no route, a broker refused, or it was away for longer than the option brokerWait.
        """
        free: dict[str, list[Outbound]] = {}
        ordered: dict[MessageQueue, list[Outbound]] = {}
        queues: dict[str, Sequence[MessageQueue]] = {}
        count = 0
        for each in messages:
            count += 1
            topic = each.message.topic
            if topic not in queues:
                queues[topic] = await self._producer.queues(topic)
            if each.order is None:
                free.setdefault(topic, []).append(each)
            else:
                ordered.setdefault(choose_queue(each.order, queues[topic]), []).append(each)
        work = [self._one(request) for line in free.values() for request in requests(line, self._options)]
        work += [self._line(queue, line) for queue, line in ordered.items()]
        tasks = [asyncio.ensure_future(each) for each in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return count

    async def _line(self, queue: MessageQueue, line: Sequence[Outbound]) -> None:
        for request in requests(line, self._options):
            await self._patiently(request, queue)

    async def _one(self, request: list[Message]) -> None:
        async with self._free:
            await self._patiently(request, None)

    async def _patiently(self, request: list[Message], queue: MessageQueue | None) -> None:
        """Again and again while nobody answers, for as long as the option brokerWait says."""
        deadline_s = self._clock.monotonic() + self._options.wait_ms / 1000
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                if len(request) == 1:
                    await self._producer.send(request[0], queue)
                else:
                    await self._producer.send_batch(request, queue)
                return
            except (*_AWAY, SendFailed, BrokerRefused) as problem:
                if not _away(problem) or self._clock.monotonic() + pause_s > deadline_s:
                    raise
            await self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _away(problem: Exception) -> bool:
    """Whether another attempt may help: nobody answered, or a broker starts or stops."""
    cause = problem.__cause__ if isinstance(problem, SendFailed) else problem
    return isinstance(cause, _AWAY) or (isinstance(cause, BrokerRefused) and cause.response_code in NOT_READY)


def choose_queue(order: str | Source, queues: Sequence[MessageQueue]) -> MessageQueue:
    """The queue of a sharding key, as Java's SelectMessageQueueByHash has it; of a source queue the one of its broker
    and number, else one of its number, else one by the hash of its name.

    Args:
        order: what the message has.
        queues: of its topic, in the order of routes; at least one.
    """
    if isinstance(order, Source):
        same = [queue for queue in queues if queue.queue_id == order.queue_id]
        home = [queue for queue in same if queue.broker_name == order.broker_name]
        queues = home or same or queues
        order = f"{order.topic}/{order.broker_name}/{order.queue_id}"
    return queues[abs(string_hash(order)) % len(queues)]


def requests(line: Sequence[Outbound], options: SinkOptions) -> Iterator[list[Message]]:
    """Cut messages of one topic into requests, in their order.

    Args:
        line: the messages.
        options: how many messages and bytes one may have. One alone may have more.
    """
    found: list[Message] = []
    size = 0
    for each in line:
        length = len(each.message.body) + RECORD_BYTES + _properties_bytes(each.message)
        if found and (each.alone or size + length > options.batch_bytes or len(found) >= options.batch_messages):
            yield found
            found, size = [], 0
        found.append(each.message)
        size += length
        if each.alone:
            yield found
            found, size = [], 0
    if found:
        yield found


def _properties_bytes(message: Message) -> int:
    """At most, without what the client adds."""
    texts = [*message.properties, *message.properties.values(), message.tags or "", message.keys or ""]
    return sum(2 + (len(text) if text.isascii() else 3 * len(text)) for text in map(str, texts))
