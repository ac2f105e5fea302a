"""Sends the messages of one Arrow batch and waits until all of them are stored.

Messages without an order are sent in batches to all queues in turn, with many concurrent requests. Messages with an
order go to the queue that it selects, one request at a time for each queue, because brokers process concurrent requests
in any order. A request that fails is sent again before later ones, so a message may be stored twice, and the first
copies of all messages of one order are in that order.

Source: apache/rocketmq client/.../producer/selector/SelectMessageQueueByHash.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gantrymq.client import Message, Producer, SendFailed
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost
from gantrymq.plugin.client import NOT_READY
from gantrymq.plugin.model import MessageQueue, string_hash
from gantrymq.plugin.world import Clock
from gantrymq_spark.sink.options import SinkOptions
from gantrymq_spark.sink.rows import Outbound, Source

_FIRST_PAUSE_S: Final = 0.2
_MAX_PAUSE_S: Final = 5.0
_RECORD_BYTES: Final = 100  # maximum overhead of a message in a batch besides body and properties
_MAX_REQUESTS: Final = 32  # concurrent requests without an order
_AWAY = (ConnectFailed, ConnectionLost, CallTimeout)


class Sender:
    """Sends messages with a started producer."""

    def __init__(self, producer: Producer, clock: Clock, options: SinkOptions) -> None:
        self._producer = producer
        self._clock = clock
        self._options = options
        self._free = asyncio.Semaphore(_MAX_REQUESTS)

    async def send(self, messages: Iterable[Outbound]) -> int:
        """Send messages and return how many were stored.

        Raises:
            ClientError: there is no route, a broker refused, or it did not respond for longer than the option
                brokerWait.
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
            await self._send_with_retries(request, queue)

    async def _one(self, request: list[Message]) -> None:
        async with self._free:
            await self._send_with_retries(request, None)

    async def _send_with_retries(self, request: list[Message], queue: MessageQueue | None) -> None:
        """Send *request*, with retries while no broker responds, for at most the time of option brokerWait."""
        deadline_s = self._clock.monotonic() + self._options.wait_ms / 1000
        pause_s = _FIRST_PAUSE_S
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
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)


def _away(problem: Exception) -> bool:
    """Return whether a retry may help: no answer, or a broker is starting or stopping."""
    cause = problem.__cause__ if isinstance(problem, SendFailed) else problem
    return isinstance(cause, _AWAY) or (isinstance(cause, BrokerRefused) and cause.response_code in NOT_READY)


def choose_queue(order: str | Source, queues: Sequence[MessageQueue]) -> MessageQueue:
    """Return the queue for an order.

    For a sharding key it is the queue that Java's SelectMessageQueueByHash selects; for a source queue, the queue with
    its broker and number, else one with its number, else one by the hash of its name.

    Args:
        order: of the message.
        queues: of its topic, in the order of routes; at least one.
    """
    if isinstance(order, Source):
        same = [queue for queue in queues if queue.queue_id == order.queue_id]
        home = [queue for queue in same if queue.broker_name == order.broker_name]
        queues = home or same or queues
        order = f"{order.topic}/{order.broker_name}/{order.queue_id}"
    return queues[abs(string_hash(order)) % len(queues)]


def requests(line: Sequence[Outbound], options: SinkOptions) -> Iterator[list[Message]]:
    """Divide messages of one topic into requests, in order.

    Args:
        line: the messages.
        options: limits of messages and bytes of one request. A single message may exceed them.
    """
    found: list[Message] = []
    size = 0
    for each in line:
        length = len(each.message.body) + _RECORD_BYTES + _properties_bytes(each.message)
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
    """Return the maximum size of the properties, without those that the client adds."""
    texts = [*message.properties, *message.properties.values(), message.tags or "", message.keys or ""]
    return sum(2 + (len(text) if text.isascii() else 3 * len(text)) for text in map(str, texts))
