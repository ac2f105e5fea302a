"""The newest messages of a topic."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from gantrymq.client import Client, Reader
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.queue_reading import read
from gantrymq.plugin.model import MessageQueue

_GROUP = "TOOLS_CONSUMER"  # exists on every broker, even if groups are not created automatically


async def newest(namesrv: str, topic: str, most: int) -> list[ReceivedMessage]:
    """Return at most *most* messages from the ends of all queues.

    Raises:
        ClientError: no such topic, or a broker that does not answer.
    """
    async with Client(namesrv) as client, client.reader(group=_GROUP) as consumer:
        queues = await consumer.queues(topic)
        of_each = -(-most // len(queues))
        found = await asyncio.gather(*(_newest_of(consumer, queue, of_each) for queue in queues))
    return [message for messages in found for message in messages][:most]


async def _newest_of(consumer: Reader, queue: MessageQueue, most: int) -> list[ReceivedMessage]:
    first, end = await asyncio.gather(consumer.min_offset(queue), consumer.max_offset(queue))
    start = max(first, end - most)
    if start >= end:
        return []
    found = []
    async with aclosing(read(consumer, queue, start)) as messages:
        async for message in messages:
            found.append(message)
            if message.queue_offset >= end - 1:
                break
    return found
