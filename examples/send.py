"""Send messages, one after the other and many at once."""

import asyncio

from gantrymq.client import Client, Message


async def main() -> None:
    async with Client() as client:  # at $NAMESRV_ADDR, or 127.0.0.1:9876
        producer = client.producer("my_producers")
        result = await producer.send(Message("TopicTest", b"hello", tags="TagA"))
        print(f"hello is stored: queue {result.queue.queue_id}, offset {result.queue_offset}")

        messages = [Message("TopicTest", f"number {n}".encode(), tags="TagB") for n in range(1000)]
        results = await asyncio.gather(*(producer.send(message) for message in messages))
        print(f"{sum(result.ok for result in results)} more are stored")


asyncio.run(main())
