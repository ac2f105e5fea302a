"""Everything that a topic holds now, read without a group; then one queue of it from an offset on."""

import asyncio

from gantrymq.client import Client


async def main() -> None:
    async with Client() as client:
        reader = client.reader("Orders", start="first")
        async for message in reader:
            print(f"{message.queue_id}/{message.queue_offset}: {message.body.decode()}")

        queue, end = next((queue, end) for queue, end in reader.positions.items() if end)
        async for message in reader.read(queue, end - 1):
            print(f"the last one of queue {queue.queue_id}: {message.body.decode()}")


asyncio.run(main())
