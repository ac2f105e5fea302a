"""Pay an order in the database and announce it in a message: both, or neither."""

import asyncio
import contextlib
import sqlite3

from gantrymq.client import Client, Message, ReceivedMessage, TransactionProducer, TransactionState

database = sqlite3.connect("payments.db")
database.execute("CREATE TABLE IF NOT EXISTS payments (transaction_id TEXT PRIMARY KEY, order_id INTEGER)")


def check(message: ReceivedMessage) -> TransactionState:
    """Answer a broker's check of the outcome of a message, from the database."""
    found = database.execute("SELECT 1 FROM payments WHERE transaction_id = ?", (message.message_id,)).fetchone()
    return TransactionState.COMMIT if found else TransactionState.UNKNOWN


async def pay(producer: TransactionProducer, order: int, money: int) -> None:
    async with producer.transaction(Message("Payments", f"order {order} is paid".encode())) as transaction:
        with database:  # commits at its end, and rolls back after an exception, as the message does
            database.execute("INSERT INTO payments VALUES (?, ?)", (transaction.id, order))
            if money < 10:
                raise ValueError(f"order {order} lacks {10 - money}")


async def main() -> None:
    async with Client() as client:
        producer = client.transaction_producer("cashiers", check)
        for order, money in ((1, 10), (2, 3), (3, 25)):
            with contextlib.suppress(ValueError):
                await pay(producer, order, money)

        announced = 0
        async for message in client.consumer("shipping", "Payments", consume_from="first"):
            print(message.body.decode())
            announced += 1
            if announced == 2:
                break


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
