"""Request-reply, recall, queue selection and batches of a producer, with an in-memory broker."""

import asyncio

import pytest

from gantrymq.client import CallTimeout, Client, ClientError, InvalidParameter, Message, at_random, by_key, reply_to
from gantrymq.model.queue import MessageQueue
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Prices"
MESSAGE = Message(TOPIC, b"x")


def client_of(cluster):
    return Client(cluster.namesrv, world=cluster.world)


def test_a_request_is_answered_by_who_consumes_it():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster) as asking, client_of(cluster) as answering:
            replies = answering.producer("answers")

            async def answer(question):
                await replies.send(reply_to(question, b"price of " + question.body))

            consumer = answering.consumer("shop", TOPIC, consume_from="first")
            running = asyncio.create_task(consumer.run(answer))
            producer = asking.producer("customers")
            wanted = [f"{number}".encode() * 3000 for number in range(5)]
            answers = await asyncio.gather(*(producer.request(Message(TOPIC, body), timeout_s=20) for body in wanted))
            assert [found.body for found in answers] == [b"price of " + body for body in wanted]
            running.cancel()

    simulate_cluster(work)


def test_a_request_that_nobody_answers_times_out():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster) as client:
            begun = cluster.world.clock.monotonic()
            with pytest.raises(CallTimeout, match="no reply to the request to Prices within 2 s"):
                await client.producer("customers").request(Message(TOPIC, b"?"), timeout_s=2)
            assert cluster.world.clock.monotonic() - begun < 2.1
            assert client._started().broker_requests.replies == {}

    simulate_cluster(work)


def test_only_a_request_can_be_answered():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await cluster.send(TOPIC, b"a plain message")
        async with client_of(cluster) as client:
            async for message in client.consumer("shop", TOPIC, consume_from="first"):
                with pytest.raises(ClientError, match="not a request that can be answered"):
                    reply_to(message, b"x")
                break

    simulate_cluster(work)


def test_a_timed_message_is_recalled():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster) as client:
            producer = client.producer("shop")
            kept = await producer.send(Message(TOPIC, b"kept", delay_ms=20_000))
            gone = await producer.send(Message(TOPIC, b"gone", delay_ms=20_000))
            assert await producer.recall(TOPIC, gone.recall_handle) == gone.message_id
            assert kept.recall_handle != gone.recall_handle
            await cluster.world.clock.sleep(60)
            assert [message.body for message in await cluster.pull(TOPIC)] == [b"kept"]
            with pytest.raises(InvalidParameter, match="not a recall handle"):
                await producer.recall(TOPIC, "nonsense")

    simulate_cluster(work, settings={"timerWheelEnable": True, "recallMessageEnable": True})


@pytest.mark.parametrize(
    ("key", "of_eight", "of_seven"),
    [
        ("A", 1, 2),
        ("TagA", 7, 1),
        ("order-1001", 7, 5),
        ("user-42", 0, 5),
        ("order-1", 6, None),
        ("polygenelubricants", 0, 2),
    ],
)
def test_a_key_chooses_the_queue_that_javas_hash_chooses(key, of_eight, of_seven):
    """As computed on a JVM, see the reference of hash selectors."""
    queues = [MessageQueue("T", "a", number) for number in range(8)]
    assert by_key(key)(queues, MESSAGE).queue_id == of_eight
    if of_seven is not None:
        assert by_key(key)(queues[:7], MESSAGE).queue_id == of_seven


@pytest.mark.parametrize(
    ("key", "hashed"), [(7, 7), (-7, 7), (1 << 32, 1), ((1 << 40) + 3, 259), (-(1 << 31), 1 << 31)]
)
def test_numbers_are_hashed_as_javas(key, hashed):
    queues = [MessageQueue("T", "a", number) for number in range(11)]
    assert by_key(key)(queues, MESSAGE).queue_id == hashed % 11


def test_messages_of_one_key_share_a_queue_and_others_do_not_all():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 8)
        async with client_of(cluster) as client:
            producer = client.producer("shop")
            ann = {(await producer.send(Message(TOPIC, b"x"), by_key("ann"))).queue for _ in range(5)}
            drawn = {
                (await producer.send_soon(Message(TOPIC, b"x"), at_random(cluster.world.random))).queue
                for _ in range(40)
            }
            assert len(ann) == 1 and len(drawn) > 3

    simulate_cluster(work)


def test_any_number_of_messages_goes_in_as_few_batches_as_fit():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster) as client:
            producer = client.producer("shop", max_message_bytes=10_000)
            messages = [Message(TOPIC, f"{number:03d}".encode() * 300) for number in range(40)]
            results = await producer.send_batches(messages)
            assert len(results) == 4
            ids = [each for result in results for each in result.message_ids]
            assert len(ids) == len(set(ids)) == 40
            found = await cluster.pull(TOPIC)
            assert sorted(message.body for message in found) == [message.body for message in messages]
            assert await producer.send_batches([]) == ()

    simulate_cluster(work)


def test_closing_waits_for_what_was_begun():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster) as client:
            producer = client.producer("shop")
            tasks = [producer.send_soon(Message(TOPIC, b"x")) for _ in range(20)]
        assert all(task.result().ok for task in tasks)

    simulate_cluster(work)
