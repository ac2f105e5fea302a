"""Our reader on Java's servers: loops over topics, and a group in which it does not disturb a Java consumer."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import queues_of
from harness import Driver, GantryServer, Process, create_topic
from polling import wait_until

from gantrymq.client import Client

pytestmark = pytest.mark.interop

DEADLINE_S = 60.0
QUEUES = 4


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3", "ours"])
def namesrv(request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]], ours: GantryServer) -> str:
    return ours.namesrv if request.param == "ours" else java_servers(request.param)[0]


def test_loops_over_what_java_sent(namesrv: str, topic: str, tmp_path: Path) -> None:
    """Read to the end, continue after a stop, and read without end; with tags."""
    create_topic(namesrv, topic, QUEUES)
    driver = Driver("5.3.3", tmp_path, namesrv)
    sent = [str(event["body"]) for event in driver.produce(topic, 40, tags="TagA,TagB", body_prefix="first")]

    async def work() -> None:
        async with asyncio.timeout(2 * DEADLINE_S), Client(namesrv) as client:
            reader = client.reader(topic)
            assert sorted([message.body.decode() async for message in reader]) == sorted(sent)
            tagged = client.reader(topic, expression="TagB")
            assert sorted([message.body.decode() async for message in tagged]) == sorted(sent[1::2])
            followed, seen = client.reader(topic, start=reader.positions, follow=True), list[str]()
            producing = asyncio.create_task(asyncio.to_thread(driver.produce, topic, 12, body_prefix="second"))
            async for message in followed:
                seen.append(message.body.decode())
                if len(seen) == 12:
                    break
            assert sorted(seen) == sorted(str(event["body"]) for event in await producing)

    asyncio.run(work())


def test_a_reader_takes_no_queue_from_a_java_consumer_of_its_group(
    namesrv: str, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    create_topic(namesrv, topic, QUEUES)
    driver = Driver("5.3.3", tmp_path, namesrv)
    java: Process = driver.push(topic, f"{topic}-group")
    request.addfinalizer(java.kill)
    wait_until(lambda: len(queues_of(java)) == QUEUES, "the queues", DEADLINE_S)
    shared = len(java.of("assigned"))

    async def work() -> None:
        async with asyncio.timeout(2 * DEADLINE_S), Client(namesrv) as client:
            reader = client.reader(topic, group=f"{topic}-group")
            sent = await asyncio.to_thread(driver.produce, topic, 20)
            assert len([message async for message in reader]) == 20
            await asyncio.to_thread(wait_until, lambda: len(java.of("received")) == 20, "messages", DEADLINE_S)
            assert len(java.of("assigned")) == shared and len(queues_of(java)) == QUEUES
            assert {event["body"] for event in java.of("received")} == {event["body"] for event in sent}

    asyncio.run(work())


def test_offsets_of_an_unknown_group(namesrv: str, topic: str, tmp_path: Path) -> None:
    create_topic(namesrv, topic, QUEUES)
    Driver("5.3.3", tmp_path, namesrv).produce(topic, 8)

    async def work() -> None:
        async with asyncio.timeout(DEADLINE_S), Client(namesrv) as client:
            reader = client.reader(topic, group=f"{topic}-places")
            queue = (await reader.queues())[0]
            assert await reader.min_offset(queue) == 0
            end = await reader.max_offset(queue)
            await reader.commit(queue, end)
            assert await reader.committed(queue) == end == 2

    asyncio.run(work())
