"""Print the messages of a topic, also new ones, until Ctrl-C; the next run continues where this one stopped."""

import asyncio
import contextlib

from gantrymq.client import Client


async def main() -> None:
    async with Client() as client:  # at $NAMESRV_ADDR, or 127.0.0.1:9876
        consumer = client.consumer("my_consumers", "TopicTest", expression="TagA || TagB", consume_from="first")
        async for message in consumer:
            print(f"queue {message.queue_id}, offset {message.queue_offset}: {message.body.decode()}", flush=True)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
