"""Our pop consumer on a Java broker 5.3.3 and on ours, in one group with Java's clients that pop."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process, create_topic, peers
from harness.pops import VERSION, Pops
from polling import wait_until

from gantrymq.client import Client, ClientError, PopConsumer, ReceivedMessage
from gantrymq.model.properties import POP_CK

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
Servers = tuple[str, str]  # addresses of a name server and a broker
DEADLINE_S = 60.0
NAMED = {"brokerName": "broker-a"}  # which the handles of Java's client carry here
TIMER = {"timerWheelEnable": "true"}  # without it a Java broker pops nothing
QUEUES = 4
LONG_OURS, LONG_JAVA = (pytest.param(where, marks=pytest.mark.long) for where in ("ours", VERSION))  # they wait long


def test_a_broker_4_9_is_said_to_serve_no_pop(topic: str, tmp_path: Path) -> None:
    with (
        JavaNameServer("4.9.7", tmp_path / "namesrv") as namesrv,
        JavaBroker("4.9.7", tmp_path / "broker", namesrv.address, keep=False),
    ):
        create_topic(namesrv.address, topic)

        async def work() -> None:
            async with Client(namesrv.address) as client, client.pop_consumer("popping", topic) as consumer:
                with pytest.raises(ClientError, match="does not support pop: RocketMQ does from 5.0 on"):
                    await consumer.pop(poll_s=1)

        asyncio.run(work())


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    scratch = tmp_path_factory.mktemp("java")
    with (
        JavaNameServer(VERSION, scratch / "namesrv") as namesrv,
        JavaBroker(VERSION, scratch / "broker", namesrv.address, settings=TIMER, keep=False) as broker,
    ):
        peers.shared(namesrv.alive, broker.alive)
        yield namesrv.address, broker.address


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    with GantryServer.both(tmp_path_factory.mktemp("ours"), settings=NAMED) as server:
        yield server


@pytest.fixture(params=["ours", VERSION])
def servers(request: pytest.FixtureRequest) -> Servers:
    if request.param == "ours":
        server = request.getfixturevalue("ours")
        return server.namesrv, server.broker_address
    found: Servers = request.getfixturevalue("java")
    peers.used(f"RocketMQ name server {VERSION}")
    peers.used(f"RocketMQ broker {VERSION}")
    return found


async def popped(consumer: PopConsumer, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < count:
            found += await consumer.pop(poll_s=2)
    return found


def bodies(messages: list[ReceivedMessage]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


@pytest.mark.parametrize("servers", [LONG_OURS, VERSION], indirect=True)
def test_what_java_sent_is_acknowledged_left_and_comes_again(servers: Servers, topic: str, tmp_path: Path) -> None:
    namesrv, _ = servers
    create_topic(namesrv, topic, QUEUES)
    sent = [str(event["body"]) for event in Driver(VERSION, tmp_path, namesrv).produce(topic, 40, body_prefix="a")]

    async def work() -> None:
        async with Client(namesrv) as client:
            consumer = client.pop_consumer(f"{topic}-group", topic, consume_from="first", invisible_s=10)
            messages = await popped(consumer, 40)
            assert bodies(messages) == sorted(sent)
            await consumer.ack(messages[0])
            await consumer.ack(*messages[1:30])
            await consumer.nack(messages[30], 2)
            again = await popped(consumer, 10)
            assert bodies(again) == bodies(messages[30:])
            assert {message.topic for message in again} == {topic}
            assert {message.reconsume_times for message in again} == {1}
            await consumer.ack(*again)
            assert await consumer.pop(poll_s=15) == ()

    asyncio.run(work())


@pytest.mark.parametrize("servers", ["ours", LONG_JAVA], indirect=True)
def test_a_loop_whose_long_work_is_renewed(servers: Servers, topic: str, tmp_path: Path) -> None:
    namesrv, _ = servers
    create_topic(namesrv, topic, 1)
    Driver(VERSION, tmp_path, namesrv).produce(topic, 3, body_prefix="b")

    async def work() -> None:
        seen: list[int] = []
        begun, worked = asyncio.Event(), asyncio.Event()
        async with Client(namesrv) as client, Client(namesrv) as another:
            options = {"consume_from": "first", "invisible_s": 4, "renew_for_s": 120}
            consumer = client.pop_consumer(f"{topic}-group", topic, **options)
            other = another.pop_consumer(f"{topic}-group", topic, **options)

            async def loop() -> None:
                async for message in consumer:
                    seen.append(message.reconsume_times)
                    begun.set()
                    if len(seen) == 1:
                        await worked.wait()  # while the others wait here, renewed as well

            task = asyncio.create_task(loop())
            async with asyncio.timeout(DEADLINE_S):
                await begun.wait()
            for _ in range(5):  # four times the invisible time
                assert await other.pop(poll_s=4) == ()
            worked.set()
            async with asyncio.timeout(DEADLINE_S):
                assert await other.pop(poll_s=10) == ()
            assert seen == [0, 0, 0]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("expression", "kind"),
    [pytest.param("TagB", "TAG", id="tags"), pytest.param("TAGS = 'TagB'", "SQL92", id="SQL92")],
)
def test_only_what_the_expression_wants_comes(
    servers: Servers, topic: str, tmp_path: Path, expression: str, kind: str
) -> None:
    namesrv, _ = servers
    create_topic(namesrv, topic, QUEUES)
    sent = Driver(VERSION, tmp_path, namesrv).produce(topic, 20, tags="TagA,TagB")

    async def work() -> None:
        async with Client(namesrv) as client:
            consumer = client.pop_consumer(
                f"{topic}-group", topic, consume_from="first", expression=expression, expression_type=kind
            )
            messages = await popped(consumer, 10)
            assert bodies(messages) == sorted(str(event["body"]) for event in sent if int(event["index"]) % 2)
            await consumer.ack(*messages)

    asyncio.run(work())


@pytest.mark.parametrize("servers", ["ours", LONG_JAVA], indirect=True)
def test_in_one_group_with_javas_client(servers: Servers, topic: str, tmp_path: Path, running: Running) -> None:
    """Each message is delivered to one of both, and each acknowledges what the other popped."""
    namesrv, broker = servers
    create_topic(namesrv, topic, QUEUES)
    group = f"{topic}-group"
    pops = running(Pops(tmp_path / "pops", namesrv, broker))
    sent = Driver(VERSION, tmp_path, namesrv).produce(topic, 40, body_prefix="c")

    async def work() -> None:
        async with Client(namesrv) as client:
            consumer = client.pop_consumer(group, topic, consume_from="first", invisible_s=15)
            of_java = await asyncio.to_thread(pops.pop, topic, group, most=8, invisible_ms=15_000)
            ours = await popped(consumer, 40 - len(of_java))
            assert sorted([*bodies(ours), *(each["body"] for each in of_java)]) == sorted(
                str(event["body"]) for event in sent
            )
            for message in ours[:3]:
                handle = message.properties[POP_CK]
                assert await asyncio.to_thread(pops.ack, topic, group, handle) == "OK"
            handle = ours[3].properties[POP_CK]
            ours[3].properties[POP_CK] = await asyncio.to_thread(pops.change, topic, group, handle, 30_000)
            await consumer.ack(*ours[3:])
            for each, message in zip(of_java, ours, strict=False):
                message.properties[POP_CK] = each["handle"]
                await consumer.ack(message)
            assert await consumer.pop(poll_s=20) == ()

    asyncio.run(work())


def test_beside_javas_push_consumer_in_pop_mode(servers: Servers, topic: str, tmp_path: Path, running: Running) -> None:
    namesrv, broker = servers
    create_topic(namesrv, topic, QUEUES)
    group = f"{topic}-group"
    pops = running(Pops(tmp_path / "pops", namesrv, broker))
    pops.pop(topic, group, poll_ms=100)  # so that the group exists
    pops.mode(topic, group)
    pops.push(topic, group)
    driver = Driver(VERSION, tmp_path, namesrv)

    async def work() -> None:
        seen: list[str] = []
        async with Client(namesrv) as client:
            consumer = client.pop_consumer(group, topic, consume_from="first", batch=4)

            async def loop() -> None:
                async for message in consumer:
                    seen.append(message.body.decode())

            task = asyncio.create_task(loop())
            sent = await asyncio.to_thread(driver.produce, topic, 200, body_prefix="d")
            wanted = {str(event["body"]) for event in sent}

            def all_there() -> bool:
                return wanted == set(seen) | {str(event["body"]) for event in pops.of("received")}

            await asyncio.to_thread(wait_until, all_there, "every message", DEADLINE_S)
            assert len(seen) + len(pops.of("received")) == 200
            assert seen
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())
