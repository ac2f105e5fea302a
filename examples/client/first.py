import asyncio
import contextlib

from gantrymq.client import Client, Message


async def main() -> None:
    async with Client() as client:
        consumer = client.consumer("my_consumers", "Hello", consume_from="first")
        await client.producer("my_producers").send(Message("Hello", b"hello"))
        async for message in consumer:
            print(message.body.decode(), flush=True)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
