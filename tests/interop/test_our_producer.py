"""What our producer does beside plain sends, on Java's servers and on ours: transactions, requests, delays, keys."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Driver, GantryServer, create_topic
from harness.polling import wait_until

from gantrymq.client import Client, Message, ReceivedMessage, TransactionState, by_key, reply_to

pytestmark = pytest.mark.interop

QUEUES = 4
DEADLINE_S = 60.0
CHECKED_S = 120.0  # Java's broker looks every 30 s by default, at messages of 6 s and more


@pytest.fixture(params=["4.9.7", "5.3.3", "ours"])
def namesrv(request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]], ours: GantryServer) -> str:
    return ours.namesrv if request.param == "ours" else java_servers(request.param)[0]


def bodies(driver: Driver, topic: str) -> list[str]:
    return sorted(str(event["body"]) for event in driver.pull(topic))


def test_transactions_end_as_they_are_left_and_the_broker_asks_about_one_that_is_open(
    namesrv: str, topic: str, tmp_path: Path
) -> None:
    create_topic(namesrv, topic, QUEUES)
    driver = Driver("5.3.3", tmp_path, namesrv)
    asked: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.body.decode())
        return TransactionState.COMMIT

    async def work() -> None:
        async with Client(namesrv) as client:
            producer = client.transaction_producer(f"{topic}-producers", check)
            async with producer.transaction(Message(topic, b"kept", tags="TagA", keys="k")):
                pass
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction(Message(topic, b"gone")):
                    raise ZeroDivisionError
            async with producer.transaction(Message(topic, b"open")) as transaction:
                transaction.state = TransactionState.UNKNOWN
            await asyncio.to_thread(wait_until, lambda: asked, "a check", CHECKED_S)

    asyncio.run(work())
    assert set(asked) == {"open"}
    wait_until(lambda: bodies(driver, topic) == ["kept", "open"], "both messages", DEADLINE_S)
    (kept,) = [event for event in driver.pull(topic) if event["body"] == "kept"]
    assert (kept["tags"], kept["keys"]) == ("TagA", "k")


def test_requests_are_answered(namesrv: str, topic: str) -> None:
    create_topic(namesrv, topic, QUEUES)

    async def work() -> None:
        async with Client(namesrv) as asking, Client(namesrv) as answering:
            replies = answering.producer(f"{topic}-answers")

            async def answer(question: ReceivedMessage) -> None:
                await replies.send(reply_to(question, b"re " + question.body))

            consumer = answering.consumer(f"{topic}-group", topic, consume_from="first")
            run = asyncio.create_task(consumer.run(answer))
            await consumer.wait_assigned(DEADLINE_S)
            producer = asking.producer(f"{topic}-producers")
            questions = [b"short", b"long" * 5000]
            answers = await asyncio.gather(
                *(producer.request(Message(topic, body), timeout_s=30.0) for body in questions)
            )
            assert [found.body for found in answers] == [b"re " + body for body in questions]
            run.cancel()

    asyncio.run(work())


def test_delayed_messages_come_later_and_keys_choose_the_queue_that_java_chooses(
    namesrv: str, topic: str, tmp_path: Path
) -> None:
    create_topic(namesrv, topic, QUEUES)
    driver = Driver("5.3.3", tmp_path, namesrv)

    async def work() -> None:
        async with Client(namesrv) as client:
            producer = client.producer(f"{topic}-producers")
            result = await producer.send(Message(topic, b"keyed"), by_key("order-1001"))
            assert result.queue.queue_id == 708180863 % QUEUES
            results = await producer.send_batches([Message(topic, f"b{number}".encode()) for number in range(5)])
            assert len(results[0].message_ids) == 5
            await producer.send(Message(topic, b"later", delay_level=1))

    asyncio.run(work())
    wait_until(
        lambda: bodies(driver, topic) == ["b0", "b1", "b2", "b3", "b4", "keyed", "later"], "all messages", DEADLINE_S
    )
