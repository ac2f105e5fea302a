"""Each order is booked once, although it is sent twice: the booking and the record of it are one transaction."""

import asyncio
import contextlib
import json
import sqlite3

from gantrymq.client import Client, Message, ReceivedMessage, SqliteRecords, idempotent

DATABASE = "shop.db"
store = SqliteRecords(DATABASE)


def order_id(message: ReceivedMessage) -> str:
    return str(json.loads(message.body)["id"])


once = idempotent(store, "booking", key=order_id)


@once
def book(message: ReceivedMessage, connection: sqlite3.Connection) -> None:
    order = json.loads(message.body)
    connection.execute("INSERT INTO bookings VALUES (?, ?)", (order["id"], order["amount"]))
    print(f"order {order['id']} is booked", flush=True)


async def main() -> None:
    with contextlib.closing(sqlite3.connect(DATABASE)) as database:
        database.execute("CREATE TABLE IF NOT EXISTS bookings (order_id INTEGER, amount INTEGER)")
    async with Client() as client:
        producer = client.producer("booking_desk")
        for order in [{"id": number, "amount": 20} for number in range(10)] * 2:  # each order is sent twice
            await producer.send(Message("Bookings", json.dumps(order).encode()))

        consumer = client.consumer("booking", "Bookings", consume_from="first")
        await consumer.run(book)


with store, contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
