"""Read all messages of a topic without a group; then one queue, starting at an offset."""

import asyncio
import contextlib

from gantrymq.client import Client, Message


async def main() -> None:
    async with Client() as client:
        producer = client.producer("note_takers")
        for number in range(6):
            await producer.send(Message("Notes", f"note {number}".encode()))

        reader = client.reader("Notes", start="first")
        async for message in reader:
            print(f"{message.queue_id}/{message.queue_offset}: {message.body.decode()}")

        queue, end = next((queue, end) for queue, end in reader.positions.items() if end)
        async for message in reader.read(queue, end - 1):
            print(f"the last message of queue {queue.queue_id}: {message.body.decode()}")


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
