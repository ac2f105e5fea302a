"""The messages of one customer go to one queue, and are received in the order in which they were sent."""

import asyncio
import contextlib

from gantrymq.client import Client, Message, by_key


async def main() -> None:
    async with Client() as client:
        producer = client.producer("shop")
        for step in ("created", "paid", "shipped"):
            for customer in ("ann", "bob"):
                await producer.send(Message("Steps", f"{customer}: {step}".encode()), by_key(customer))

        consumer = client.consumer("steps", "Steps", orderly=True, consume_from="first")
        steps = 0
        async for message in consumer:
            print(message.body.decode())
            steps += 1
            if steps == 6:
                break


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
