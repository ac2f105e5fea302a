"""Each order is booked once, however often its message comes: the booking and the record of it are one transaction."""

import asyncio
import contextlib
import json
import sqlite3

from gantrymq.client import Client, ReceivedMessage, SqliteRecords, idempotent

DATABASE = "shop.db"
store = SqliteRecords(DATABASE)
once = idempotent(store, "booking")


@once
def book(message: ReceivedMessage, connection: sqlite3.Connection) -> None:
    order = json.loads(message.body)
    connection.execute("INSERT INTO bookings VALUES (?, ?)", (order["id"], order["amount"]))
    print(f"order {order['id']} is booked", flush=True)


async def main() -> None:
    with contextlib.closing(sqlite3.connect(DATABASE)) as database:
        database.execute("CREATE TABLE IF NOT EXISTS bookings (order_id INTEGER, amount INTEGER)")
    async with Client() as client:
        consumer = client.consumer("booking", "Orders", consume_from="first")
        await consumer.run(book)


with store, contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
