"""The same work with each client: send one message and wait until it is stored, send several at once, consume a
backlog.

| client | one send | a batch | consumption, and its acknowledgement |
|---|---|---|---|
| gantrymq | `send`; the same of a producer with `batching` | `send_batch` | `async for`, automatic commit; `batches` |
| redis-py | XADD, a connection each | a pipeline of XADD | XREADGROUP, XACK of each message; of each read |
| nats-py | `publish` | `publish`, several gathered | pull consumer, `ack` of each message |
| aiokafka | `send_and_wait` | `create_batch`, `send_batch` | `async for`, automatic commit; `getmany` |

Each consumes with a new group from the beginning, and messages acknowledged by commit are committed before the
time measurement ends. Clients are imported when they are used.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Protocol

from peer_servers import PARTITIONS

__all__ = ["CLIENTS", "PeerClient"]

NAME = "Load"
READ = 256  # messages of one read, if the client needs a number


class PeerClient(Protocol):
    """A connected client; the topic exists."""

    async def send(self, body: bytes) -> None:
        """Send one message, and wait until the server acknowledges it."""

    async def send_batch(self, bodies: list[bytes]) -> None:
        """Send several in as few requests as the client can."""

    async def consume(self, group: str, count: int, *, batches: bool) -> float:
        """Consume *count* messages; seconds from the first one to the last acknowledgement."""


class _Gantry:
    def __init__(self, namesrv: str, producer: Any) -> None:
        self._namesrv = namesrv
        self._producer = producer

    async def send(self, body: bytes) -> None:
        from gantrymq.client import Message

        await self._producer.send(Message(NAME, body))

    async def send_batch(self, bodies: list[bytes]) -> None:
        from gantrymq.client import Message

        await self._producer.send_batch([Message(NAME, body) for body in bodies])

    async def consume(self, group: str, count: int, *, batches: bool) -> float:
        from gantrymq.client import Client

        seen, began = 0, 0.0
        async with Client(self._namesrv) as client, client.consumer(group, NAME, consume_from="first") as consumer:
            if batches:
                async for messages in consumer.batches(READ):
                    began = began or time.perf_counter()
                    seen += len(messages)
                    if seen >= count:
                        break
            else:
                async for _ in consumer:
                    began = began or time.perf_counter()
                    seen += 1
                    if seen >= count:
                        break
            await consumer.commit()
            return time.perf_counter() - began


@asynccontextmanager
async def gantrymq(namesrv: str, _: int, *, batching: bool = False) -> AsyncIterator[PeerClient]:
    """Our client; with *batching* its producer gathers the sends of one turn of the event loop."""
    from gantrymq.client import Batching, Client
    from gantrymq.model.topic import TopicConfig

    async with Client(namesrv) as client:
        for each in (await client.admin.clusters()).brokers:
            await client.admin.create_topic(each.master, TopicConfig(NAME, PARTITIONS, PARTITIONS))
        yield _Gantry(namesrv, client.producer("bench", batching=Batching(max_wait_ms=0) if batching else False))


class _Redis:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def send(self, body: bytes) -> None:
        await self._client.xadd(NAME, {b"b": body})

    async def send_batch(self, bodies: list[bytes]) -> None:
        async with self._client.pipeline(transaction=False) as pipe:
            for body in bodies:
                pipe.xadd(NAME, {b"b": body})
            await pipe.execute()

    async def consume(self, group: str, count: int, *, batches: bool) -> float:
        await self._client.xgroup_create(NAME, group, id="0")
        seen, began = 0, 0.0
        while seen < count:
            found = await self._client.xreadgroup(group, "c", {NAME: ">"}, count=READ, block=5000)
            began = began or time.perf_counter()
            for _, entries in found:
                seen += len(entries)
                if batches:
                    await self._client.xack(NAME, group, *(name for name, _ in entries))
                else:
                    for name, _ in entries:
                        await self._client.xack(NAME, group, name)
        return time.perf_counter() - began


@asynccontextmanager
async def redis(address: str, in_flight: int) -> AsyncIterator[PeerClient]:
    """redis-py; streams."""
    from redis.asyncio import BlockingConnectionPool, Redis

    host, _, port = address.rpartition(":")
    pool = BlockingConnectionPool(host=host, port=int(port), max_connections=in_flight + 1, timeout=None)
    client = Redis(connection_pool=pool)
    try:
        yield _Redis(client)
    finally:
        await client.aclose()
        await pool.aclose()


class _Nats:
    def __init__(self, connection: Any, stream: Any) -> None:
        self._connection = connection
        self._stream = stream

    async def send(self, body: bytes) -> None:
        await self._stream.publish(NAME, body)

    async def send_batch(self, bodies: list[bytes]) -> None:
        await asyncio.gather(*(self._stream.publish(NAME, body) for body in bodies))

    async def consume(self, group: str, count: int, *, batches: bool) -> float:
        from nats.js.api import AckPolicy, ConsumerConfig

        policy = AckPolicy.ALL if batches else AckPolicy.EXPLICIT
        config = ConsumerConfig(ack_policy=policy, max_ack_pending=1 << 20)
        reading = await self._stream.pull_subscribe(NAME, group, stream=NAME, config=config)
        seen, began = 0, 0.0
        while seen < count:
            found = await reading.fetch(min(READ, count - seen), timeout=5)
            began = began or time.perf_counter()
            seen += len(found)
            for message in (
                found[-1:] if batches else found
            ):  # the last one acknowledges all before it, or each is acknowledged separately
                await message.ack()
        await self._connection.flush()  # the server has the acknowledgements
        return time.perf_counter() - began


@asynccontextmanager
async def nats(address: str, _: int) -> AsyncIterator[PeerClient]:
    """nats-py; JetStream."""
    from nats import connect

    connection = await connect(f"nats://{address}")
    try:
        stream = connection.jetstream(publish_async_max_pending=1 << 16)
        await stream.add_stream(name=NAME, subjects=[NAME])
        yield _Nats(connection, stream)
    finally:
        await connection.close()


class _Kafka:
    def __init__(self, address: str, producer: Any) -> None:
        self._address = address
        self._producer = producer
        self._turn = 0

    async def send(self, body: bytes) -> None:
        await self._producer.send_and_wait(NAME, body)

    async def send_batch(self, bodies: list[bytes]) -> None:
        batch = self._producer.create_batch()
        for body in bodies:
            if batch.append(key=None, value=body, timestamp=None) is None:
                raise SystemExit("a batch of aiokafka has no room for so many messages; see max_batch_size")
        self._turn = (self._turn + 1) % PARTITIONS
        await (await self._producer.send_batch(batch, NAME, partition=self._turn))

    async def consume(self, group: str, count: int, *, batches: bool) -> float:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            NAME, bootstrap_servers=self._address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=True
        )
        seen, began = 0, 0.0
        await consumer.start()
        try:
            if batches:
                while seen < count:
                    found = await consumer.getmany(timeout_ms=5000, max_records=READ)
                    began = began or (time.perf_counter() if found else 0.0)
                    seen += sum(map(len, found.values()))
            else:
                async for _ in consumer:
                    began = began or time.perf_counter()
                    seen += 1
                    if seen >= count:
                        break
            await consumer.commit()
            return time.perf_counter() - began
        finally:
            await consumer.stop()


@asynccontextmanager
async def kafka(address: str, _: int) -> AsyncIterator[PeerClient]:
    """aiokafka."""
    from aiokafka import AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(NAME, PARTITIONS, 1)])
    finally:
        await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=address, max_batch_size=1 << 20)
    await producer.start()
    try:
        yield _Kafka(address, producer)
    finally:
        await producer.stop()


CLIENTS: dict[str, Callable[[str, int], AbstractAsyncContextManager[PeerClient]]] = {
    "gantrymq": gantrymq,
    "batching": partial(gantrymq, batching=True),
    "redis": redis,
    "nats": nats,
    "kafka": kafka,
}
