"""A consumer in a separate process: python consume_once.py NAMESRV DATABASE PLACE NUMBER

It processes and prints each message once; at the NUMBER-th new one it blocks until killed, either ``inside`` the
transaction or ``behind`` (after) it, before the message is acknowledged.
"""

import asyncio
import sys

from gantrymq.client import Client, SqliteRecords, idempotent


async def main(namesrv: str, database: str, place: str, number: int) -> None:
    once = idempotent(SqliteRecords(database), "billing")
    count = 0
    async with Client(namesrv) as client:
        async for message in client.consumer("billing", "Orders", consume_from="first"):
            async with once.attempt(message) as connection:
                if connection is None:
                    print("duplicate", flush=True)
                    continue
                count += 1
                await connection.execute("INSERT INTO done VALUES (?)", (int(message.body),))
                if place == "inside" and count == number:
                    await stay(place)
            if place == "behind" and count == number:
                await stay(place)
            print("new", flush=True)


async def stay(place: str) -> None:
    print(place, flush=True)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
