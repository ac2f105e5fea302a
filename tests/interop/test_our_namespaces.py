"""Our client in a namespace, with Java's clients in it, on Java servers 4.9.7 and 5.3.3."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Driver, Process, create_topic
from harness.peers import used

from gantrymq.client import Client, Message, ReconsumeLater
from gantrymq.client.message import ReceivedMessage

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
SHOP = "shop"
COUNT = 40
DEADLINE_S = 90.0


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def java_namesrv(request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]]) -> str:
    used("gantrymq.client")
    return java_servers(request.param)[0]


def run(work: Callable[[], object]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await work()

    asyncio.run(limited())


@pytest.mark.parametrize("second", [False, True], ids=["v1", "v2"])
def test_we_consume_what_java_clients_sent(java_namesrv: str, tmp_path: Path, topic: str, second: bool) -> None:
    create_topic(java_namesrv, topic if second else f"{SHOP}%{topic}")
    flags = ("--v2",) if second else ()
    events = Driver("5.3.3", tmp_path, java_namesrv).run(
        "exchange", *flags, topic=topic, group=f"{topic}-group", count=3, namespace=SHOP
    )
    sent = {str(event["msgId"]) for event in events if event["event"] == "sent"}

    async def work() -> None:
        options = {"namespace_v2": SHOP} if second else {"namespace": SHOP}
        async with Client(java_namesrv, **options) as client:
            seen = set()
            async for message in client.consumer("ours-" + topic, topic, consume_from="first"):
                assert message.topic == topic
                seen.add(message.message_id)
                if len(seen) == 3:
                    break
            assert seen == sent

    run(work)


def test_java_members_and_ours_share_a_group(java_namesrv: str, tmp_path: Path, topic: str, running: Running) -> None:
    """Each gets some, none gets one twice, and messages that fail here are redelivered under their own name."""
    create_topic(java_namesrv, f"{SHOP}%{topic}", 8)
    group = "of-" + topic
    java = running(Driver("5.3.3", tmp_path, java_namesrv).start("retry", topic=topic, group=group, namespace=SHOP))
    java.wait_for(lambda p: p.of("started"), "started")
    ours: list[tuple[str, bytes, int]] = []

    async def work() -> None:
        async def handle(message: ReceivedMessage) -> None:
            ours.append((message.topic, message.body, message.reconsume_times))
            if message.reconsume_times == 0:
                raise ReconsumeLater(1)

        async with Client(java_namesrv, namespace=SHOP) as client:
            consumer = client.consumer(group, topic, consume_from="first")
            running = asyncio.create_task(consumer.run(handle))
            await asyncio.to_thread(
                java.wait_for,
                lambda _: len([q for q in consumer.assignment if q.topic == topic]) == 4,
                "half the queues",
            )
            producer = client.producer("P")
            for number in range(COUNT):
                assert (await producer.send(Message(topic, b"%d" % number, tags="ok"))).queue.topic == topic
            await asyncio.to_thread(
                java.wait_for, lambda _: len({body for _, body, _ in ours} | theirs(java)) == COUNT, "all messages"
            )
            running.cancel()

    run(work)
    assert {name for name, _, _ in ours} == {topic}
    first = {body for _, body, times in ours if times == 0}
    assert first and theirs(java)


def theirs(java: Process) -> set[bytes]:
    return {str(event["body"]).encode() for event in java.of("tried")}
