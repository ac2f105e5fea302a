"""Our own client on Java's name server and broker."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import assert_same_messages, pull_all
from harness import Driver, create_topic
from harness.peers import used

from gantrymq.client import Client
from gantrymq.client.message import Message, ReceivedMessage

pytestmark = pytest.mark.interop

QUEUES = 4
DEADLINE_S = 60.0


@pytest.fixture(params=["4.9.7", "5.3.3"])
def java_namesrv(request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]]) -> str:
    return java_servers(request.param)[0]


def test_we_read_back_from_every_queue_what_we_sent(java_namesrv: str, topic: str) -> None:
    create_topic(java_namesrv, topic, QUEUES)

    async def send_and_read() -> tuple[list[Message], list[ReceivedMessage]]:
        async with asyncio.timeout(DEADLINE_S):
            return await _send(java_namesrv, topic), await _read(java_namesrv, topic, wanted=100)

    sent, received = asyncio.run(send_and_read())
    assert sorted(m.body for m in received) == sorted(m.body for m in sent)
    by_body = {m.body: m for m in received}
    assert all((by_body[m.body].tags, by_body[m.body].keys) == (m.tags, m.keys) for m in sent)
    assert {m.queue_id for m in received} == set(range(QUEUES))


def test_a_java_client_pulls_what_we_sent(java_namesrv: str, tmp_path: Path, topic: str) -> None:
    create_topic(java_namesrv, topic, QUEUES)

    async def send() -> list[Message]:
        async with asyncio.timeout(DEADLINE_S):
            return await _send(java_namesrv, topic)

    sent = asyncio.run(send())
    received = pull_all(Driver("5.3.3", tmp_path, java_namesrv), topic, sent)
    assert sorted((e["bodySha256"], e["tags"], e["keys"]) for e in received) == sorted(
        (hashlib.sha256(m.body).hexdigest(), m.tags, m.keys) for m in sent
    )


def test_we_pull_what_a_java_client_sent(java_namesrv: str, tmp_path: Path, topic: str) -> None:
    """One body in three is compressed by the Java client."""
    create_topic(java_namesrv, topic, QUEUES)
    driver = Driver("4.9.8", tmp_path, java_namesrv)
    sent = [*driver.produce(topic, 20, tags="TagA", keys_prefix="k"), *driver.produce(topic, 10, size=5_000)]

    async def read() -> list[ReceivedMessage]:
        async with asyncio.timeout(DEADLINE_S):
            return await _read(java_namesrv, topic, wanted=len(sent))

    assert_same_messages(sent, [_event(m) for m in asyncio.run(read())])


async def _send(namesrv: str, topic: str) -> list[Message]:
    """Send 20 messages in each of the client's ways and return all; those to a chosen queue are compressed."""
    used("gantrymq.client")
    kinds = ("waited", "async", "oneway", "batch", "x" * 5_000)
    bodies = [f"{kind} {n}".encode() for kind in kinds for n in range(20)]
    messages = [Message(topic, body, tags="TagA", keys=f"k{n}") for n, body in enumerate(bodies)]
    waited, later, oneway, batch, chosen = (messages[n : n + 20] for n in range(0, 100, 20))
    async with Client(namesrv) as client, client.producer("our-producer") as producer:
        queue = (await producer.queues(topic))[-1]
        for message in waited:
            await producer.send(message)
        await asyncio.gather(*(producer.send_async(message) for message in later))
        for message in oneway:
            await producer.send_oneway(message)
        await producer.send_batch(batch)
        placed = [await producer.send(message, queue) for message in chosen]
    assert {result.queue for result in placed} == {queue}
    return messages


async def _read(namesrv: str, topic: str, wanted: int) -> list[ReceivedMessage]:
    """Read every queue from 0 until *wanted* messages have arrived; oneway sends may take a moment."""
    used("gantrymq.client")
    received: list[ReceivedMessage] = []
    async with Client(namesrv) as client, client.reader(group="our-puller") as consumer:
        positions = dict.fromkeys(await consumer.queues(topic), 0)
        while len(received) < wanted:
            for queue, queue_offset in positions.items():
                result = await consumer.pull(queue, queue_offset, max_count=32)
                received.extend(result.messages)
                positions[queue] = result.next_offset
    return received


def _event(message: ReceivedMessage) -> dict[str, object]:
    """The message as the Java driver would print it."""
    return {
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "tags": message.tags,
        "keys": message.keys,
        "bodyLength": len(message.body),
        "bodySha256": hashlib.sha256(message.body).hexdigest(),
    }


def test_the_vip_channel(java_namesrv: str, topic: str) -> None:
    """Sends and offsets by the port two below the broker's, pulls by its own."""
    create_topic(java_namesrv, topic, QUEUES)

    async def work() -> None:
        async with asyncio.timeout(DEADLINE_S), Client(java_namesrv, vip_channel=True) as client:
            producer = client.producer("our-producer")
            await producer.send(Message(topic, b"one"))
            await producer.send_oneway(Message(topic, b"two"))
            await producer.send_batch([Message(topic, b"three"), Message(topic, b"four")])
            seen = set()
            async for message in client.consumer("our-vips", topic, orderly=True, consume_from="first"):
                seen.add(message.body)
                if len(seen) == 4:
                    break
            assert seen == {b"one", b"two", b"three", b"four"}
            (broker,) = (await client.admin.route(topic)).brokers
            host, _, port = broker.addresses[0].rpartition(":")
            remoting = client._started()._remoting
            assert remoting.connected(f"{host}:{int(port) - 2}") and remoting.connected(f"{host}:{port}")

    asyncio.run(work())
