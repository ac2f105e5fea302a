"""Our group consumer on Java's servers, and with Java's consumers in one group."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from checks import queues_of
from harness import Driver, GantryServer, JavaBroker, Process, create_topic
from harness.mqadmin import MqAdmin
from harness.peers import used
from harness.ports import free_port
from polling import until

from gantrymq.client import Client, Consumer, Message, Producer, ReceivedMessage, ReconsumeLater

pytestmark = pytest.mark.interop

DEADLINE_S = 60.0
OVERLAP_S = 0.75
QUEUES = 4


LONG_OURS, LONG_OLD = (pytest.param(version, marks=pytest.mark.long) for version in ("ours", "4.9.7"))
JAVA_IN_CI = pytest.mark.parametrize("namesrv", [LONG_OLD, "5.3.3", LONG_OURS], indirect=True)
"""For tests without a Java client; those of tests/client have our broker."""


@pytest.fixture(params=[LONG_OLD, "5.3.3", "ours"])
def namesrv(request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]], ours: GantryServer) -> str:
    return ours.namesrv if request.param == "ours" else java_servers(request.param)[0]


class Seen:
    """Collects the messages of handlers; waits with a deadline."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []

    async def take(self, message: ReceivedMessage) -> None:
        self.messages.append(message)

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    async def until(self, true: Callable[[], object]) -> None:
        await until(true, "messages", DEADLINE_S, lambda: f"there are {self.bodies}")


def bodies_of(java: Process) -> list[str]:
    return [str(event["body"]) for event in java.of("received")]


@contextlib.asynccontextmanager
async def running(consumer: Consumer, handler: Callable[[ReceivedMessage], Awaitable[None]], concurrency: int = 5):
    """Run a consumer with *handler*; it has its queues when the context is entered."""
    async with consumer:
        await consumer.wait_assigned(DEADLINE_S)
        run = asyncio.create_task(consumer.run(handler, concurrency=concurrency))
        yield consumer
    await run


def test_what_java_sent_is_consumed_once_and_the_next_member_goes_on(namesrv: str, topic: str, tmp_path: Path) -> None:
    create_topic(namesrv, topic, QUEUES)
    driver = Driver("5.3.3", tmp_path, namesrv)
    first = driver.produce(topic, 60, tags="TagA,TagB", body_prefix="first")

    async def work() -> None:
        seen, after = Seen(), Seen()
        async with (
            Client(namesrv) as client,
            running(client.consumer(f"{topic}-group", topic, consume_from="first"), seen.take),
        ):
            await seen.until(lambda: len(seen.messages) >= 60)
        assert sorted(seen.bodies) == sorted(str(event["body"]) for event in first)
        assert {message.message_id for message in seen.messages} == {event["msgId"] for event in first}
        await asyncio.to_thread(driver.produce, topic, 10, body_prefix="second")
        async with Client(namesrv) as client, running(client.consumer(f"{topic}-group", topic), after.take):
            await after.until(lambda: len(after.messages) >= 10)
        assert all(body.startswith("second") for body in after.bodies)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        pytest.param("TagA || TagC", "TAG", id="tags"),
        pytest.param("number > 3 AND TAGS = 'TagA'", "SQL92", id="SQL92"),
    ],
)
@JAVA_IN_CI
def test_only_what_the_expression_wants_comes(namesrv: str, topic: str, expression: str, kind: str) -> None:
    create_topic(namesrv, topic, QUEUES)

    async def work() -> None:
        seen = Seen()
        async with Client(namesrv) as client:
            producer = client.producer(f"{topic}-producers")
            for number in range(12):
                tag = "TagA" if number % 2 else "TagB"
                await producer.send(Message(topic, f"{number}".encode(), tags=tag, properties={"number": str(number)}))
            member = client.consumer(
                f"{topic}-group", topic, expression=expression, expression_type=kind, consume_from="first"
            )
            async with running(member, seen.take):
                wanted = [n for n in range(12) if n % 2 and (kind == "TAG" or n > 3)]
                await seen.until(lambda: len(seen.messages) >= len(wanted))
            assert sorted(map(int, seen.bodies)) == wanted

    asyncio.run(work())


@JAVA_IN_CI
def test_a_failed_message_comes_again_and_then_is_a_dead_letter(namesrv: str, topic: str) -> None:
    create_topic(namesrv, topic, QUEUES)

    async def work() -> None:
        group = f"{topic}-group"
        tried: list[tuple[str, int]] = []

        async def handle(message: ReceivedMessage) -> None:
            tried.append((message.topic, message.reconsume_times))
            raise ReconsumeLater(-1 if message.reconsume_times == 2 else 1)

        seen = Seen()
        async with Client(namesrv) as client:
            await client.producer(f"{topic}-producers").send(Message(topic, b"fails"))
            async with running(client.consumer(group, topic, consume_from="first"), handle):
                await seen.until(lambda: len(tried) == 3)
            assert tried == [(topic, 0), (topic, 1), (topic, 2)]
            letters = client.consumer(f"{topic}-letters", f"%DLQ%{group}", consume_from="first")
            async with running(letters, seen.take):
                await seen.until(lambda: seen.messages)
            assert seen.bodies == ["fails"]

    asyncio.run(work())


@JAVA_IN_CI
def test_queues_are_consumed_in_order_though_messages_fail(namesrv: str, topic: str) -> None:
    create_topic(namesrv, topic, QUEUES)

    async def work() -> None:
        done: dict[int, list[int]] = {}
        tries: set[str] = set()

        async def handle(message: ReceivedMessage) -> None:
            if message.queue_offset == 2 and message.message_id not in tries:
                tries.add(message.message_id)
                raise RuntimeError("the first try fails")
            done.setdefault(message.queue_id, []).append(message.queue_offset)

        seen = Seen()
        async with Client(namesrv) as client:
            producer = client.producer(f"{topic}-producers")
            for number in range(40):
                await producer.send(Message(topic, f"{number}".encode()))
            member = client.consumer(f"{topic}-group", topic, orderly=True, consume_from="first", suspend_s=0.1)
            async with running(member, handle):
                await seen.until(lambda: sum(map(len, done.values())) == 40)
            assert done == {queue: list(range(10)) for queue in range(QUEUES)}
            assert len(tries) == QUEUES

    asyncio.run(work())


@JAVA_IN_CI
def test_every_broadcasting_member_gets_everything(namesrv: str, topic: str, tmp_path: Path) -> None:
    create_topic(namesrv, topic, QUEUES)

    async def work() -> None:
        one, two = Seen(), Seen()

        def member(client: Client) -> Consumer:
            return client.consumer(
                f"{topic}-group", topic, broadcasting=True, consume_from="first", offsets_folder=str(tmp_path)
            )

        async with (
            Client(namesrv, instance_name="one") as first,
            Client(namesrv, instance_name="two") as second,
            running(member(first), one.take),
            running(member(second), two.take),
        ):
            producer = first.producer(f"{topic}-producers")
            for number in range(20):
                await producer.send(Message(topic, f"{number}".encode()))
            await one.until(lambda: len(one.messages) == len(two.messages) == 20)
        assert sorted(one.bodies) == sorted(two.bodies)

    asyncio.run(work())


def test_java_and_ours_share_the_queues_of_one_group(
    namesrv: str, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """When one consumer leaves, the other gets all queues; no message is missing."""
    create_topic(namesrv, topic, 6)
    group = f"{topic}-group"
    driver = Driver("5.3.3", tmp_path, namesrv)
    java: Process = driver.push(topic, group)
    request.addfinalizer(java.kill)

    def of_java() -> set[str]:
        return {str(event["body"]) for event in java.of("received")}

    async def work() -> None:
        seen = Seen()
        async with Client(namesrv) as client, running(client.consumer(group, topic), seen.take) as consumer:
            await seen.until(lambda: len(consumer.assignment) in (3, 4) and len(queues_of(java)) == 3)
            sent = await asyncio.to_thread(driver.produce, topic, 60, body_prefix="shared")
            wanted = {str(event["body"]) for event in sent}
            await seen.until(lambda: wanted <= of_java() | set(seen.bodies))
            assert of_java() & wanted and set(seen.bodies) & wanted
        await seen.until(lambda: len(queues_of(java)) == 6)
        sent = await asyncio.to_thread(driver.produce, topic, 12, body_prefix="alone")
        await seen.until(lambda: {str(event["body"]) for event in sent} <= of_java())

    asyncio.run(work())


@pytest.mark.parametrize(
    ("served_by", "end"),
    [
        ("ours", "kill"),
        pytest.param("ours", "stop", marks=pytest.mark.long),
        pytest.param("5.3.3", "kill", marks=pytest.mark.long),
        pytest.param("5.3.3", "stop", marks=pytest.mark.long),
    ],
)
def test_a_broker_is_restarted_between_java_and_ours(
    tmp_path: Path, request: pytest.FixtureRequest, topic: str, served_by: str, end: str
) -> None:
    """No message is missing, and no queue has two members for longer than with two of Java's, which takes 0.75 s."""

    def running_until_the_end(process: Process) -> Process:
        request.addfinalizer(process.kill)
        return process

    def broker() -> Process:
        if served_by == "ours":
            settings = {"listenPort": str(port)}
            return running_until_the_end(GantryServer.broker(tmp_path / "broker", names.namesrv, settings=settings))
        scratch = tmp_path / f"broker-{time.monotonic_ns()}"  # with a separate output
        return running_until_the_end(JavaBroker(served_by, scratch, names.namesrv, store=tmp_path / "store", port=port))

    port = free_port(also_below=2)
    used("gantrymq broker" if served_by == "ours" else f"RocketMQ broker {served_by}")
    names = GantryServer.name_server(tmp_path / "names")
    running_until_the_end(names)
    first = broker()
    create_topic(names.namesrv, topic, QUEUES)
    group = f"{topic}-group"
    java = running_until_the_end(Driver("5.3.3", tmp_path, names.namesrv).push(topic, group))
    sent: dict[str, float] = {}

    async def produce(producer: Producer, over: asyncio.Event) -> None:
        while not over.is_set():
            body = f"{len(sent)}"
            sent[body] = time.monotonic()
            await producer.send(Message(topic, body.encode()), timeout_s=DEADLINE_S)
            await asyncio.sleep(0.01)  # real time: rate of the load

    async def work() -> None:
        seen, over = Seen(), asyncio.Event()
        async with (
            Client(names.namesrv) as client,
            Client(names.namesrv) as member,
            client.producer(f"{topic}-producers") as producer,
            running(member.consumer(group, topic), seen.take) as consumer,
        ):

            def held() -> int:
                return sum(queue.topic == topic for queue in consumer.assignment)

            await seen.until(lambda: held() == len(queues_of(java)) == QUEUES // 2)
            sending = asyncio.create_task(produce(producer, over))
            await seen.until(lambda: len(seen.messages) > 50)
            before = len(seen.messages)
            await asyncio.to_thread(getattr(first, end))
            await asyncio.to_thread(broker)
            await seen.until(lambda: len(seen.messages) > before + 200)
            over.set()
            await sending
            await seen.until(lambda: set(sent) <= {*seen.bodies, *bodies_of(java)})
        counts = Counter([*seen.bodies, *bodies_of(java)])
        twice = sorted(sent[body] for body, count in counts.items() if count > 1)
        print(f"{served_by}, {end}: {len(twice)} of {len(sent)} messages came twice, {twice[-1:]} - {twice[:1]}")
        assert not twice or twice[-1] - twice[0] < OVERLAP_S

    asyncio.run(work())


@pytest.mark.parametrize("namesrv", ["5.3.3", "ours"], indirect=True)  # 4.9.7 does not support all requests of the tool
def test_mqadmin_sees_our_consumer_resets_it_and_has_it_consume(
    namesrv: str, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    create_topic(namesrv, topic, QUEUES)
    group = f"{topic}-group"
    tool = MqAdmin("5.3.3", tmp_path, namesrv)
    request.addfinalizer(tool.kill)

    async def admin(*words: str) -> str:
        return await asyncio.to_thread(tool.run, words[0], "-n", namesrv, *words[1:])

    async def work() -> None:
        seen = Seen()
        async with Client(namesrv) as client:
            results = [
                await client.producer(f"{topic}-p{number}").send(Message(topic, f"{number}".encode()))
                for number in range(8)
            ]
            consumer = client.consumer(group, topic, consume_from="first")
            async with running(consumer, seen.take):
                await seen.until(lambda: len(seen.messages) == 8)
                known_as = consumer._started().client_id
                status = await admin("consumerStatus", "-g", group, "-i", known_as)
                assert "#Consumer MQ Detail#" in status and topic in status, status
                directly = await admin(
                    "queryMsgById", "-t", topic, "-i", results[0].offset_id, "-g", group, "-d", known_as
                )
                await seen.until(lambda: len(seen.messages) == 9)
                assert "CR_SUCCESS" in directly, directly
                assert seen.bodies[-1] == "0"
                answer = await admin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0", "-f", "true")
                await seen.until(lambda: sorted(seen.bodies[9:]) == [str(number) for number in range(8)])
                assert topic in answer or group in answer, answer

    asyncio.run(work())
