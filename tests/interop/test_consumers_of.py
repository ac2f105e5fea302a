"""Who consumed a message: one message, one group for each scenario, beside the answer of the official admin tool."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, MqAdmin, create_topic
from harness.gantry_server import gantrymq
from harness.peers import used
from polling import until

from gantrymq.client import Client, GroupConfig, Message, ReceivedMessage
from gantrymq.errors import NoMessageFound
from gantrymq.model.queue import MessageQueue
from gantrymq.world.real import real_world
from gantrymq_admin.consumption import Consumption, consumers_of

pytestmark = pytest.mark.interop

DEADLINE_S = 75.0
OFTEN = {"rocketmq.client.rebalance.waitInterval": "1000"}
TRACK = re.compile(r"consumerGroup=(\S+), trackType=(\w+)")

OURS = {
    "acknowledged": ("consumed", "certain"),
    "behind": ("not-yet", "certain"),
    "broadcast": ("broadcasting", "unknown"),
    "dead": ("dead-letter", "certain"),
    "in-hand": ("handed-out", "certain"),
    "ordered": ("handed-out", "certain"),
    "popped": ("handed-out", "certain"),
    "prices": ("filtered", "likely"),
    "reads": ("passed", "likely"),
    "retried": ("consumed-after-retries", "likely"),
    "skipped": ("passed", "likely"),
    "tags": ("filtered", "likely"),
    "traced": ("consumed", "certain"),
    "waits": ("waiting-retry", "certain"),
}
JAVAS = {
    "acknowledged": "UNKNOWN",
    "behind": "UNKNOWN",
    "broadcast": "CONSUME_BROADCASTING",
    "dead": "CONSUMED",
    "in-hand": "NOT_CONSUME_YET",
    "ordered": "NOT_CONSUME_YET",
    "popped": "UNKNOWN",
    "prices": "CONSUMED",
    "reads": "CONSUMED",
    "retried": "CONSUMED",
    "skipped": "UNKNOWN",
    "tags": "CONSUMED_BUT_FILTERED",
    "traced": "CONSUMED",
    "waits": "CONSUMED",
}
"""What ``mqadmin queryMsgById`` prints of the same groups: also a waiting retry and a dead letter are CONSUMED."""


OF_4_9 = {
    **{group: verdict for group, verdict in OURS.items() if group not in ("acknowledged", "popped")},
    "behind": ("not-yet", "likely"),  # it does not keep the pulled offset
    "traced": ("passed", "likely"),  # client 5.3.3 writes no traces of consumption with it
}


JAVAS_OF_4_9 = {**dict.fromkeys(OF_4_9, "UNKNOWN"), "broadcast": "CONSUME_BROADCASTING"}


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3", "ours"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def namesrv(where: str, tmp_path: Path) -> Iterator[str]:
    scratch = tmp_path / "servers"
    with ExitStack() as stack:
        if where == "ours":
            settings = {"enablePropertyFilter": "true"}
            used("gantrymq broker")
            yield stack.enter_context(GantryServer.both(scratch, settings=settings)).namesrv
            return
        server = stack.enter_context(JavaNameServer(where, scratch / "namesrv"))
        settings = {"timerWheelEnable": "true"} if where != "4.9.7" else {}  # without it a Java broker pops nothing
        stack.enter_context(JavaBroker(where, scratch / "broker", server.address, settings=settings, keep=False))
        yield server.address


class Asked:
    """The message, and questions about it."""

    def __init__(self, client: Client, message: ReceivedMessage) -> None:
        self.client, self.message = client, message

    async def consumption(self) -> Consumption:
        async with self.client.reader() as reader:
            return await consumers_of(self.client.admin, reader, self.message, clock=real_world().clock, deadline_s=15)

    async def verdicts(self) -> dict[str, tuple[str, str]]:
        found = await self.consumption()
        assert found.complete, found.missing
        return {each.group: (each.reason.value, each.certainty.value) for each in found.verdicts}


async def in_index(client: Client, topic: str, message_id: str) -> ReceivedMessage | None:
    """Return a message once the broker's index has it."""
    try:
        return (await client.admin.query_unique(topic, message_id))[0]
    except NoMessageFound:
        return None


@asynccontextmanager
async def our_groups(
    client: Client, topic: str, message: ReceivedMessage, popping: Iterable[str]
) -> AsyncIterator[None]:
    """Consumers and pop consumers of ours, and groups that are offline."""
    held = asyncio.Event()

    async def hold(_: ReceivedMessage) -> None:
        await held.wait()

    async def take(_: ReceivedMessage) -> None:
        """Consume it."""

    members = [
        (client.consumer("in-hand", topic, consume_from="first"), hold),
        (client.consumer("ordered", topic, consume_from="first", orderly=True), hold),
        (client.consumer("prices", {topic: "price > 5"}, expression_type="SQL92", consume_from="first"), take),
    ]
    running = [asyncio.ensure_future(member.run(handle)) for member, handle in members]
    try:
        for group in popping:
            consumer = client.pop_consumer(group, topic, consume_from="first", invisible_s=600)
            for popped in await consumer.pop():
                if group == "acknowledged":
                    await consumer.ack(popped)
        queue = MessageQueue(topic, message.broker_name, message.queue_id)
        (address,) = await client.admin.masters()
        for group, offset in (("behind", 0), ("skipped", 1)):
            await client.admin.create_group(address, GroupConfig(group))
            await client.admin.commit_offset(group, queue, offset)
        yield
    finally:
        held.set()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def test_a_message_in_every_state(where: str, namesrv: str, topic: str, tmp_path: Path) -> None:
    expected, theirs = (OF_4_9, JAVAS_OF_4_9) if where == "4.9.7" else (OURS, JAVAS)
    create_topic(namesrv, topic, 1)
    driver = Driver("5.3.3", tmp_path, namesrv, properties=OFTEN)

    async def work() -> None:
        async with Client(namesrv) as client:
            producer = client.producer("shop")
            await client.wait_ready(topic)
            sent = await producer.send(Message(topic, b"one", tags="fail1", properties={"price": "1"}))
            message = await until(lambda: in_index(client, topic, sent.message_id), "the message in the index")
            asked = Asked(client, message)
            with ExitStack() as stack:
                tracing = stack.enter_context(
                    driver.start("exchange", "--trace", topic=topic, group="traced", count=2)
                )  # first: its send has 3 s, while other clients start
                await asyncio.to_thread(tracing.wait_for, lambda p: p.of("sent"), "a message of the traced client")
                for group, level in (("dead", -1), ("waits", 16), ("retried", 1)):
                    stack.enter_context(driver.start("retry", topic=topic, group=group, level=level))
                stack.enter_context(driver.start("push", topic=topic, group="reads", instance="r", **{"from": "first"}))
                stack.enter_context(
                    driver.start("push", topic=topic, group="tags", sub="other", instance="t", **{"from": "first"})
                )
                stack.enter_context(
                    driver.start("push", topic=topic, group="broadcast", model="broadcasting", instance="b")
                )
                async with our_groups(client, topic, message, sorted({"popped", "acknowledged"} & set(expected))):
                    last: dict[str, tuple[str, str]] = {}

                    async def done() -> bool:
                        last.clear()
                        last.update(await asked.verdicts())
                        return last == expected

                    def wrong() -> str:
                        differing = [each for each in last | expected if last.get(each) != expected.get(each)]
                        return str({each: last.get(each) for each in differing})

                    await until(done, "all verdicts", DEADLINE_S, wrong, poll_s=1)
                    shown = await asyncio.to_thread(
                        gantrymq, tmp_path, "message", "consumers", message.offset_id, "-n", namesrv
                    )
                    assert {each["group"]: (each["reason"], each["certainty"]) for each in shown["groups"]} == expected
                    with MqAdmin("5.3.3", tmp_path, namesrv) as tool:
                        words = ("queryMsgById", "-n", namesrv, "-t", topic, "-i", message.offset_id)
                        text = ""

                        async def as_java() -> bool:
                            """NOT_CONSUME_YET until the members have committed, which takes 5 s."""
                            nonlocal text
                            text = await asyncio.to_thread(tool.run, *words)
                            told = dict(TRACK.findall(text))
                            told.pop(topic, None)  # a Java broker lists the topic among its groups
                            return {**theirs, **told} == theirs and len(told) > len(theirs) / 2

                        await until(as_java, "answer of mqadmin", detail=lambda: text, poll_s=1)

    asyncio.run(work())
