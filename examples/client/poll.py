"""Poll entries, write them together, and commit them once they are written."""

import asyncio
import contextlib

from gantrymq.client import Client, Message


async def main() -> None:
    async with Client() as client:
        producer = client.producer("clerks")
        for number in range(6):
            await producer.send(Message("Entries", f"entry {number}".encode()))

        consumer = client.lite_pull("ledger", "Entries", auto_commit=False, consume_from="first")
        await consumer.wait_assigned()
        while messages := await consumer.poll(timeout_s=2, max_count=100):
            print("\n".join(message.body.decode() for message in messages))
            await consumer.commit()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
