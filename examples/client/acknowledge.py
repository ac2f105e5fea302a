"""Messages are gathered and acknowledged once they are written together."""

import asyncio

from gantrymq.client import Client


async def main() -> None:
    async with Client() as client:
        consumer = client.consumer("archive", "Orders", auto_ack=False, consume_from="first")
        gathered = []
        async for message in consumer:
            gathered.append(message)
            if len(gathered) == 10:
                break
        print(b"\n".join(message.body for message in gathered).decode())
        for message in gathered:
            consumer.ack(message)


asyncio.run(main())
