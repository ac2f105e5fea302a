"""Pop parcels from any queue and acknowledge them together; retry an unreadable one after a minute."""

import asyncio
import contextlib

from gantrymq.client import Client, Message


async def main() -> None:
    async with Client() as client:
        producer = client.producer("warehouse")
        for number in range(6):
            await producer.send(Message("Parcels", f"parcel {number}".encode()))

        consumer = client.pop_consumer("packing", "Parcels", consume_from="first", invisible_s=30)
        while messages := await consumer.pop(poll_s=2):
            done = []
            for message in messages:
                if message.body_problem:
                    await consumer.nack(message, delay_s=60)
                else:
                    print(message.body.decode())
                    done.append(message)
            await consumer.ack(*done)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
