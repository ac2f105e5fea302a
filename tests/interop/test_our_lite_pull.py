"""Our lite pull consumer on Java's servers, in one group with Java's push consumer."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import queues_of
from harness import Driver, GantryServer, Process, create_topic
from polling import until

from gantrymq.client import Client, LitePullConsumer

pytestmark = pytest.mark.interop

DEADLINE_S = 60.0
QUEUES = 4


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3", "ours"])
def namesrv(request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]], ours: GantryServer) -> str:
    return ours.namesrv if request.param == "ours" else java_servers(request.param)[0]


async def polled(consumer: LitePullConsumer, count: int) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < count:
            found += [message.body.decode() for message in await consumer.poll(1)]
    return found


def test_what_java_sent_is_polled_sought_and_committed(namesrv: str, topic: str, tmp_path: Path) -> None:
    create_topic(namesrv, topic, QUEUES)
    driver = Driver("5.3.3", tmp_path, namesrv)
    sent = [str(event["body"]) for event in driver.produce(topic, 60, tags="TagA,TagB", body_prefix="first")]

    async def work() -> None:
        async with Client(namesrv) as client:
            consumer = client.lite_pull(f"{topic}-group", topic, consume_from="first", auto_commit=False)
            queues = await consumer.wait_assigned(DEADLINE_S)
            assert len(queues) == QUEUES
            assert sorted(await polled(consumer, 60)) == sorted(sent)
            await consumer.commit()
            assert sum([await consumer.committed(queue) or 0 for queue in queues]) == 60
            await consumer.seek_to_begin(queues[0])
            again = await polled(consumer, 15)
            assert set(again) <= set(sent) and len(again) == 15
            await consumer.seek(queues[1], 12)
            assert len(await polled(consumer, 3)) == 3
            await consumer.seek_to_end(queues[0])
            assert await consumer.poll(2) == ()
        async with Client(namesrv) as client:
            consumer = client.lite_pull(f"{topic}-group", topic)
            await consumer.wait_assigned(DEADLINE_S)
            await asyncio.to_thread(driver.produce, topic, 10, body_prefix="second")
            assert all(body.startswith("second") for body in await polled(consumer, 10))

    asyncio.run(work())


def test_assigned_queues_with_tags(namesrv: str, topic: str, tmp_path: Path) -> None:
    create_topic(namesrv, topic, QUEUES)
    sent = Driver("5.3.3", tmp_path, namesrv).produce(topic, 40, tags="TagA,TagB")

    async def work() -> None:
        async with Client(namesrv) as client:
            consumer = client.lite_pull(f"{topic}-group", consume_from="first")
            queues = (await consumer.queues(topic))[:2]
            await consumer.assign(queues, expression="TagB")
            numbers = {queue.queue_id for queue in queues}
            wanted = sorted(
                str(event["body"]) for event in sent if event["queueId"] in numbers and int(event["index"]) % 2
            )
            assert sorted(await polled(consumer, len(wanted))) == wanted
            assert await consumer.poll(1) == ()

    asyncio.run(work())


def test_in_one_group_with_javas_push_consumer(
    namesrv: str, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    create_topic(namesrv, topic, 6)
    group = f"{topic}-group"
    driver = Driver("5.3.3", tmp_path, namesrv)
    java: Process = driver.push(topic, group)
    request.addfinalizer(java.kill)

    def of_java() -> set[str]:
        return {str(event["body"]) for event in java.of("received")}

    async def work() -> None:
        async with Client(namesrv) as client, client.lite_pull(group, topic) as consumer:
            await until(lambda: len(consumer.assignment) == 3 and len(queues_of(java)) == 3, "shared queues")
            sent = await asyncio.to_thread(driver.produce, topic, 60, body_prefix="shared")
            ours = await polled(consumer, 30)
            await until(lambda: {str(event["body"]) for event in sent} == of_java() | set(ours), "shared messages")
            assert len(ours) == 30
            await consumer.poll(0)
        await until(lambda: len(queues_of(java)) == 6, "queues of one member")
        sent = await asyncio.to_thread(driver.produce, topic, 12, body_prefix="alone")
        await until(lambda: {str(event["body"]) for event in sent} <= of_java(), "messages of one member")

    asyncio.run(work())
