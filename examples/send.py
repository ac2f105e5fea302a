"""Send messages, one after the other and many at once."""

import asyncio

from gantrymq.client import Producer
from gantrymq.model.message import Message


async def main() -> None:
    async with Producer("my_producers") as producer:  # at $NAMESRV_ADDR, or 127.0.0.1:9876
        result = await producer.send(Message("TopicTest", b"hello", tags="TagA"))
        print(f"hello is stored: queue {result.queue.queue_id}, offset {result.queue_offset}")

        messages = [Message("TopicTest", f"number {n}".encode(), tags="TagB") for n in range(1000)]
        results = await asyncio.gather(*(producer.send(message) for message in messages))
        print(f"{sum(result.ok for result in results)} more are stored")


asyncio.run(main())
