"""Create and inspect a topic, skip the waiting messages of a group, and find a message by its key."""

import asyncio
import contextlib
from datetime import datetime

from gantrymq.client import Client, GroupConfig, Message, TopicConfig


async def main() -> None:
    async with Client() as client:
        admin = client.admin
        (broker,) = await admin.create_topic_in(TopicConfig("Invoices", read_queues=2, write_queues=2))
        await admin.create_group_in(GroupConfig("archive", retry_max_times=3))
        await client.wait_ready("Invoices")

        producer = client.producer("shop")
        for number in range(6):
            await producer.send(Message("Invoices", f"invoice {number}".encode(), keys=f"number{number}"))

        for queue, stats in (await admin.topic_status("Invoices")).items():
            stored = datetime.fromtimestamp(stats.updated_ms / 1000)
            print(f"queue {queue.queue_id}: {stats.count} messages, the last at {stored:%H:%M}")

        reset = await admin.skip_messages("archive", "Invoices")
        print(f"archive skips {reset.skipped} messages")
        progress = await admin.group_progress(broker, "archive", "Invoices")
        lags = [each.lag for each in progress.values() if each.lag is not None]  # None: members keep their offsets
        print(f"archive has a lag of {sum(lags)}")

        for message in await admin.query_message("Invoices", "number3"):
            print(f"found {message.body.decode()} by its key")


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
