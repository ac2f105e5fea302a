"""Collect messages, write them together, and acknowledge them then."""

import asyncio
import contextlib

from gantrymq.client import Client, Message


async def main() -> None:
    async with Client() as client:
        producer = client.producer("writers")
        for number in range(10):
            await producer.send(Message("Letters", f"letter {number}".encode()))

        consumer = client.consumer("letters_archive", "Letters", auto_ack=False, consume_from="first")
        gathered = []
        async for message in consumer:
            gathered.append(message)
            if len(gathered) == 10:
                break
        print(b"\n".join(message.body for message in gathered).decode())
        for message in gathered:
            consumer.ack(message)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
