"""Send a request and wait for the reply of a consumer of the topic."""

import asyncio
import contextlib

from gantrymq.client import CallTimeout, Client, Message, ReceivedMessage, TopicConfig, reply_to

PRICES = {b"apples": b"12", b"pears": b"15"}


async def main() -> None:
    async with Client() as client:
        await client.admin.create_topic_in(TopicConfig("Prices"))
        replies = client.producer("pricing")

        async def answer(question: ReceivedMessage) -> None:
            if question.body in PRICES:
                await replies.send(reply_to(question, PRICES[question.body]))

        consumer = client.consumer("pricing", "Prices", consume_from="first")
        answering = asyncio.create_task(consumer.run(answer))
        await consumer.wait_assigned()
        shop = client.producer("shop")
        for fruit in (b"apples", b"pears", b"plums"):
            try:
                reply = await shop.request(Message("Prices", fruit), timeout_s=2.0)
                print(f"{fruit.decode()}: {reply.body.decode()}")
            except CallTimeout:
                print(f"{fruit.decode()}: nobody knows")
        answering.cancel()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
