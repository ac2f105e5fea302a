"""Handle twenty orders at a time: retry in 10 seconds if a service is unavailable, and dead-letter an invalid order."""

import asyncio
import contextlib
import json

from gantrymq.client import Client, Message, ReceivedMessage, ReconsumeLater


async def handle(message: ReceivedMessage) -> None:
    try:
        order = json.loads(message.body)
    except ValueError as error:
        raise ReconsumeLater(-1) from error  # negative: a dead letter at once, in %DLQ%billing
    if order["service"] == "down" and message.reconsume_times == 0:
        raise ReconsumeLater(3)  # the third of the broker's delays: 10 s
    print(f"order {order['id']}, try {message.reconsume_times + 1}", flush=True)


async def main() -> None:
    async with Client() as client:
        producer = client.producer("order_desk")
        for number in (1, 2, 3, 4):
            order = {"id": number, "service": "down" if number == 3 else "up"}
            await producer.send(Message("Orders", json.dumps(order).encode()))

        consumer = client.consumer("billing", "Orders", consume_from="first")
        await consumer.run(handle, concurrency=20)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
