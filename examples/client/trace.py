"""Send and consume an order with message trace on; then read its trace."""

import asyncio
import contextlib

from gantrymq.client import Client, Message, decode_trace
from gantrymq.client.tracing.records import Pub, SubAfter


async def main() -> None:
    async with Client(trace=True) as client:
        sent = await client.producer("shop").send(Message("Traced", b"one apple", keys="order-7"))
        consumer = client.consumer("traced_billing", "Traced", consume_from="first", auto_ack=False)
        async for message in consumer:
            consumer.ack(message)
            if message.message_id == sent.message_id:
                break

    async with Client() as client:  # closing the first client has written its trace
        found = [
            record
            async for message in client.reader("RMQ_SYS_TRACE_TOPIC", start="first")
            for record in decode_trace(message.body)
            if record.message_id == sent.message_id
        ]
    for record in found:
        if isinstance(record, Pub):
            print(f"{record.group} sent it, {record.body_length} bytes, in {record.cost_ms} ms")
    for record in found:
        if isinstance(record, SubAfter):
            print(f"{record.group} {'consumed' if record.success else 'failed'} it in {record.cost_ms} ms")


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
