"""FastStream's subscribers and publishers, and Java's client on the other side of the same topics."""

import asyncio
from collections.abc import Iterator

import pytest
from differential.side import CLIENT, Side
from harness import GantryServer, create_topic
from harness.peers import used

from gantrymq_faststream import GantryBroker
from gantrymq_faststream.annotations import GantryMessage

pytestmark = pytest.mark.interop

END_S = 60.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Java's client at a broker of ours."""
    scratch = tmp_path_factory.mktemp("faststream")
    with (
        GantryServer.name_server(scratch / "namesrv") as namesrv,
        GantryServer.broker(scratch / "broker", namesrv.namesrv) as broker,
    ):
        side = Side("faststream", namesrv.namesrv, broker.broker_address, broker.store, scratch / "steps")
        with side.steps:
            yield side


@pytest.fixture
def java(shared: Side) -> Side:
    """The same, noted for each test."""
    used(f"rocketmq-client {CLIENT}")
    return shared


def test_a_handler_gets_what_java_sends_and_java_what_it_publishes(java: Side, topic: str) -> None:
    create_topic(java.namesrv, topic, 2)
    create_topic(java.namesrv, f"{topic}Out", 2)
    broker = GantryBroker(java.namesrv)
    seen: list[tuple[str | None, str]] = []

    @broker.subscriber(topic, group=f"{topic}-in", expression="red", consume_from="first")
    @broker.publisher(f"{topic}Out", tags="answer", headers={"by": "faststream"})
    async def handle(body: str, message: GantryMessage) -> str:
        seen.append((message.raw_message.tags, message.headers["shop"]))
        return f"{body} was seen"

    async def main() -> None:
        async with broker:
            await broker.start()
            await asyncio.to_thread(java_part)

    def java_part() -> None:
        java.do("consumer", name="out", group=f"{topic}-out", topic=f"{topic}Out", sub="answer")
        java.do("producer", name="in", group=f"{topic}-producers", topic=topic)
        for number, tag in enumerate(("red", "blue", "red")):
            java.do("send", by="in", topic=topic, body=f"body-{number}", tags=tag, properties="shop=north")
        found = java.wait_received("out", 2)
        assert sorted(str(event["body"]) for event in found) == ["body-0 was seen", "body-2 was seen"]
        properties = found[0]["properties"]
        assert (properties["by"], properties["content-type"], properties["TAGS"]) == (
            "faststream",
            "text/plain",
            "answer",
        )
        assert properties["correlation_id"]
        java.do("stop")

    asyncio.run(asyncio.wait_for(main(), END_S))
    assert seen == [("red", "north")] * 2


def test_a_broker_object_asks_and_java_answers(java: Side, topic: str) -> None:
    create_topic(java.namesrv, topic, 1)

    async def main() -> None:
        await asyncio.to_thread(java.do, "producer", name="answering", group=f"{topic}-answering", topic=topic)
        await asyncio.to_thread(
            java.do, "consumer", name="asked", group=f"{topic}-asked", topic=topic, answer_from="answering"
        )
        async with GantryBroker(java.namesrv) as broker:
            answer = await broker.request("apples", topic, timeout_s=END_S / 2)
            assert await answer.decode() == b"answer-to-apples"  # without a content type
        await asyncio.to_thread(java.do, "stop")

    asyncio.run(asyncio.wait_for(main(), END_S))
