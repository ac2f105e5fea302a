"""Everything that a topic holds, read queue by queue without a group's progress."""

import asyncio

from gantrymq.client import Client, PullStatus


async def main() -> None:
    async with Client() as client:
        reader = client.reader("lookers")
        for queue in await reader.queues("Orders"):
            offset = await reader.min_offset(queue)
            while (result := await reader.pull(queue, offset)).status is not PullStatus.NO_NEW_MSG:
                for message in result.messages:
                    print(f"{message.queue_id}/{message.queue_offset}: {message.body.decode()}")
                offset = result.next_offset


asyncio.run(main())
