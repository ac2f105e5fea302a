"""The messages of one customer go to one queue, and come from it in the order in which they were sent."""

import asyncio
import zlib

from gantrymq.client import Client, Message


async def main() -> None:
    async with Client() as client:
        producer = client.producer("shop")
        queues = await producer.queues("Orders")
        for step in ("created", "paid", "shipped"):
            for customer in ("ann", "bob"):
                queue = queues[zlib.crc32(customer.encode()) % len(queues)]
                await producer.send(Message("Orders", f"{customer}: {step}".encode()), queue)

        consumer = client.consumer("steps", "Orders", orderly=True, consume_from="first")
        steps = 0
        async for message in consumer:
            print(message.body.decode())
            steps += 1
            if steps == 6:
                break


asyncio.run(main())
