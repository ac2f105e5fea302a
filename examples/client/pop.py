"""Orders are popped from whatever queue they lie in and acknowledged together; a broken one comes again in a minute."""

import asyncio

from gantrymq.client import Client


async def main() -> None:
    async with Client() as client:
        consumer = client.pop_consumer("packing", "Orders", consume_from="first", invisible_s=30)
        while messages := await consumer.pop(poll_s=2):
            done = []
            for message in messages:
                if message.body_problem:
                    await consumer.nack(message, delay_s=60)
                else:
                    print(message.body.decode())
                    done.append(message)
            await consumer.ack(*done)


asyncio.run(main())
