"""Orders are polled, written together, and committed once they are written."""

import asyncio

from gantrymq.client import Client


async def main() -> None:
    async with Client() as client:
        consumer = client.lite_pull("ledger", "Orders", auto_commit=False, consume_from="first")
        await consumer.wait_assigned()
        while messages := await consumer.poll(timeout_s=2, max_count=100):
            print("\n".join(message.body.decode() for message in messages))
            await consumer.commit()


asyncio.run(main())
