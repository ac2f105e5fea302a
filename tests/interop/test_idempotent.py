"""Idempotent consumption of messages of Java's client, also through Java's brokers: effects happen once."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Driver, GantryServer, create_topic
from polling import wait_until

from gantrymq.client import Client, Message, ReceivedMessage, SqliteRecords, idempotent

pytestmark = pytest.mark.interop

DEADLINE_S = 90.0
COUNT = 30


@pytest.fixture(params=["5.3.3", *(pytest.param(version, marks=pytest.mark.long) for version in ("4.9.7", "ours"))])
def namesrv(request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]], ours: GantryServer) -> str:
    return ours.namesrv if request.param == "ours" else java_servers(request.param)[0]


def effects(database: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(database)) as file:
        return [row[0] for row in file.execute("SELECT body FROM done ORDER BY body")]


@pytest.mark.parametrize("mode", ["sync", pytest.param("batch", marks=pytest.mark.long)])
def test_messages_that_fail_before_and_after_their_commit(namesrv: str, topic: str, tmp_path: Path, mode: str) -> None:
    """Every third message fails in its transaction, every third after its commit; both are redelivered."""
    create_topic(namesrv, topic, 2)
    sent = sorted(str(event["body"]) for event in Driver("5.3.3", tmp_path, namesrv).produce(topic, COUNT, mode=mode))
    number = {body: place for place, body in enumerate(sent)}
    database = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(database)) as file:
        file.execute("CREATE TABLE done (body TEXT)")
    given: list[tuple[int, int]] = []

    async def work() -> None:
        with SqliteRecords(database) as store:
            once = idempotent(store, f"{topic}-group")

            @once
            def done(message: ReceivedMessage, connection: sqlite3.Connection) -> None:
                connection.execute("INSERT INTO done VALUES (?)", (message.body.decode(),))
                if number[message.body.decode()] % 3 == 1 and message.reconsume_times == 0:
                    raise RuntimeError("before the commit")

            async def handle(message: ReceivedMessage) -> None:
                given.append((number[message.body.decode()], message.reconsume_times))
                await done(message)
                if number[message.body.decode()] % 3 == 2 and message.reconsume_times == 0:
                    raise RuntimeError("after the commit")

            async with Client(namesrv) as client:
                consumer = client.consumer(f"{topic}-group", topic, consume_from="first")
                run = asyncio.create_task(consumer.run(handle))
                expected = COUNT + 2 * COUNT // 3
                await asyncio.to_thread(
                    wait_until, lambda: len(given) >= expected, "deliveries", DEADLINE_S, lambda: str(sorted(given))
                )
                await consumer.close()
                await run
            assert (once.consumed, once.duplicates) == (COUNT, COUNT // 3)

    asyncio.run(work())
    assert effects(database) == sent


def test_a_message_that_is_stored_twice_with_one_id(namesrv: str, topic: str, tmp_path: Path) -> None:
    """The duplicate of a send whose response was lost; the first copy fails at first."""
    create_topic(namesrv, topic, 2)
    database = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(database)) as file:
        file.execute("CREATE TABLE done (body TEXT)")

    async def work() -> None:
        with SqliteRecords(database) as store:
            once, failed = idempotent(store, f"{topic}-group"), set[bytes]()

            @once
            def done(message: ReceivedMessage, connection: sqlite3.Connection) -> None:
                connection.execute("INSERT INTO done VALUES (?)", (message.body.decode(),))
                if message.body not in failed:
                    failed.add(message.body)
                    raise RuntimeError("the first delivery of either copy")

            async with Client(namesrv) as client:
                producer = client.producer(f"{topic}-producers")
                for number in range(COUNT):
                    body = f"{number:02}".encode()
                    first = await producer.send(Message(topic, body))
                    await producer.send(Message(topic, body, system_properties={"UNIQ_KEY": first.message_id}))
                consumer = client.consumer(f"{topic}-group", topic, consume_from="first")
                run = asyncio.create_task(consumer.run(done))
                await asyncio.to_thread(
                    wait_until,
                    lambda: once.consumed + once.duplicates >= 2 * COUNT,
                    "deliveries",
                    DEADLINE_S,
                    lambda: f"{once.consumed} consumed, {once.duplicates} duplicates",
                )
                await consumer.close()
                await run
            assert (once.consumed, once.duplicates) == (COUNT, COUNT)

    asyncio.run(work())
    assert effects(database) == [f"{number:02}" for number in range(COUNT)]
