"""Print what is in a topic, and what arrives, until Ctrl-C; the next run goes on where this one stopped."""

import asyncio
import contextlib

from gantrymq.client import Reader
from gantrymq.model.queue import MessageQueue


async def follow(consumer: Reader, queue: MessageQueue) -> None:
    offset = await consumer.committed(queue)
    if offset is None:
        offset = await consumer.min_offset(queue)
    while True:
        result = await consumer.pull(queue, offset, expression="TagA || TagB", suspend_ms=15_000)
        for message in result.messages:
            print(f"queue {queue.queue_id}, offset {message.queue_offset}: {message.body.decode()}", flush=True)
        if result.next_offset != offset:
            offset = result.next_offset
            await consumer.commit(queue, offset)


async def main() -> None:
    async with Reader("my_readers") as consumer:  # at $NAMESRV_ADDR, or 127.0.0.1:9876
        queues = await consumer.queues("TopicTest")
        await asyncio.gather(*(follow(consumer, queue) for queue in queues))


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
