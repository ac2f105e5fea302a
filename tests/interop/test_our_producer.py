"""Our producer on Java's servers and on ours: transactions, requests, delays, selectors and batches."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, create_topic
from harness.process import Event
from polling import wait_until

from gantrymq.client import Batching, Client, Message, ReceivedMessage, SendResult, TransactionState, by_key, reply_to
from gantrymq.model.ids import parse_offset_id

pytestmark = pytest.mark.interop

QUEUES = 4
DEADLINE_S = 60.0
CHECKED_S = 120.0  # Java's broker checks every 30 s by default, for messages of at least 6 s


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3", "ours"])
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


def sent_event(message: Message, result: SendResult) -> Event:
    """Format as the Java driver prints sent messages."""
    return {
        "tags": message.tags,
        "keys": message.keys,
        "bodyLength": len(message.body),
        "bodySha256": hashlib.sha256(message.body).hexdigest(),
        "msgId": result.message_id,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
    }


PATIENT = Batching(max_wait_ms=1000)  # a busy machine takes longer than 10 ms to start 90 sends


def gathered(namesrv: str, topic: str, count: int) -> list[Event]:
    """Send single messages with automatic batching: some with a key to its queue, one with a delay, one long."""
    messages = [
        Message(topic, f"m{number} ".encode() + b"x" * (7 * number), ("TagA", "TagB")[number % 2], f"k{number % 9}")
        for number in range(count)
    ]
    messages.append(Message(topic, b"long " * 2000, "TagA", "k-long"))

    async def work() -> list[SendResult]:
        async with Client(namesrv) as client:
            producer = client.producer(f"{topic}-producers", batching=PATIENT, default_timeout_s=DEADLINE_S)
            keyed = by_key(lambda message: str(message.keys))
            sends = [producer.send(each, keyed if number % 3 else None) for number, each in enumerate(messages)]
            return await asyncio.gather(*sends)

    results = asyncio.run(work())
    assert all(result.ok and len(result.message_ids) == 1 for result in results)
    assert len({result.message_id for result in results}) == len(messages)
    return [sent_event(*each) for each in zip(messages, results, strict=True)]


def test_java_s_consumer_finds_gathered_messages_by_place_id_tag_and_key(
    namesrv: str, topic: str, tmp_path: Path
) -> None:
    create_topic(namesrv, topic, QUEUES)
    driver = Driver("5.3.3", tmp_path, namesrv)
    sent = gathered(namesrv, topic, 90)
    assert_same_messages(sent, driver.pull(topic))
    tagged = [event for event in sent if event["tags"] == "TagA"]
    with driver.push(topic, f"{topic}-group", sub="TagA") as consumer:
        assert_same_messages(tagged, wait_for_bodies([consumer], tagged))


def test_gathered_messages_are_inner_batches_of_topics_with_batch_queues(
    java_servers: Callable[[str], tuple[str, str]], ours: GantryServer, topic: str, tmp_path: Path
) -> None:
    for namesrv in (java_servers("5.3.3")[0], ours.namesrv):
        create_topic(namesrv, topic, QUEUES, attributes="+queue.type=BatchCQ")
        driver = Driver("5.3.3", tmp_path / namesrv.rpartition(":")[2], namesrv)
        sent = gathered(namesrv, topic, 90)
        received = driver.pull(topic)
        assert_same_messages(sent, received)
        assert len({event["logOffset"] for event in received}) < len(received) / 3  # many share one record
        tagged = [event for event in sent if event["tags"] == "TagA"]
        with driver.push(topic, f"{topic}-group", sub="TagA") as consumer:
            assert_same_messages(tagged, wait_for_bodies([consumer], tagged))


def test_messages_of_a_batch_keep_their_ids(namesrv: str, topic: str, tmp_path: Path) -> None:
    create_topic(namesrv, topic, QUEUES)
    messages = [Message(topic, f"b{number}".encode(), ("TagA", "TagB")[number % 2], "k") for number in range(20)]

    async def work() -> SendResult:
        async with Client(namesrv) as client:
            return await client.producer(f"{topic}-producers").send_batch(messages)

    results = asyncio.run(work()).each()
    assert len({result.offset_id for result in results}) == len(messages)
    received = Driver("5.3.3", tmp_path, namesrv).pull(topic)
    assert_same_messages([sent_event(*each) for each in zip(messages, results, strict=True)], received)
    places = {parse_offset_id(result.offset_id)[2] for result in results}
    assert {event["logOffset"] for event in received} == places


def test_selectors_choose_as_java_s_do(namesrv: str, topic: str, tmp_path: Path) -> None:
    create_topic(namesrv, topic, QUEUES)
    theirs = Driver("5.3.3", tmp_path, namesrv).produce(topic, 40, "hash", keys_prefix="\u00fcser-")

    async def work() -> list[SendResult]:
        async with Client(namesrv) as client:
            producer = client.producer(f"{topic}-producers", selector=by_key(lambda message: str(message.keys)))
            return [await producer.send(Message(topic, b"x", keys=str(event["keys"]))) for event in theirs]

    assert [result.queue.queue_id for result in asyncio.run(work())] == [event["queueId"] for event in theirs]
    assert len({event["queueId"] for event in theirs}) == QUEUES
