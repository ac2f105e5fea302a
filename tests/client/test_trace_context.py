"""W3C's trace context (traceparent, tracestate) is preserved with a message on every path."""

import asyncio

import pytest

from gantrymq.client import Client, Message, TransactionState, reply_to
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"


def trace(number):
    return {"traceparent": f"00-{number:032x}-{number:016x}-01", "tracestate": f"vendor=t{number},other=x"}


def client_of(cluster):
    return Client(cluster.namesrv, world=cluster.world)


def of(message):
    return {name: message.properties.get(name) for name in ("traceparent", "tracestate")}


async def stored(cluster, topic=TOPIC):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.reader("lookers") as reader:
        return [message for queue in await reader.queues(topic) for message in (await reader.pull(queue, 0)).messages]


async def first_of(consumer, count=1):
    found = []
    async for message in consumer:
        found.append(message)
        if len(found) == count:
            return found
    return found


@pytest.mark.parametrize("size", [10, 20_000], ids=["short", "compressed"])
@pytest.mark.parametrize("queues", ["SimpleCQ", "BatchCQ"])
def test_each_message_of_a_batch_keeps_its_own(queues, size):
    async def work(cluster):
        config = TopicConfig(TOPIC, 1, 1, attributes={"+queue.type": queues})
        messages = [Message(TOPIC, b"%d" % number * size, properties=trace(number)) for number in range(1, 4)]
        async with client_of(cluster) as client:
            await client.admin.create_topic(cluster.broker_address, config)
            await client.wait_ready(TOPIC)
            producer = client.producer("shop")
            batch = await producer.send_batch(messages)
            assert (batch.inner_batch_id is not None) is (queues == "BatchCQ")
            await producer.send(Message(TOPIC, b"4" * size, properties=trace(4)))
            found = await first_of(client.consumer("billing", TOPIC, consume_from="first"), 4)
        assert [of(message) for message in found] == [trace(number) for number in range(1, 5)]
        assert [message.user_properties for message in found] == [trace(number) for number in range(1, 5)]

    simulate_cluster(work, settings={"store": "mmap"})


def test_a_message_keeps_it_through_delays_and_transactions():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", lambda _: TransactionState.COMMIT)
            await producer.send(Message(TOPIC, b"level", properties=trace(1), delay_level=1))
            await producer.send(Message(TOPIC, b"timer", properties=trace(2), delay_ms=2000))
            async with producer.transaction(Message(TOPIC, b"half", properties=trace(3))):
                pass
            async with producer.transaction(Message(TOPIC, b"asked", properties=trace(4))) as asked:
                asked.state = TransactionState.UNKNOWN
            found = await first_of(client.consumer("billing", TOPIC, consume_from="first"), 4)
        assert {message.body: of(message) for message in found} == {
            b"level": trace(1),
            b"timer": trace(2),
            b"half": trace(3),
            b"asked": trace(4),
        }

    simulate_cluster(work, settings={"transactionCheckInterval": 5000, "transactionTimeOut": 3000})


@pytest.mark.parametrize("by", ["broker", "client"])
def test_a_message_keeps_it_through_retries_and_as_a_dead_letter(by, monkeypatch, caplog):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        seen = []
        if by == "client":  # the broker refuses to take messages back: the client sends a copy
            from gantrymq.client.group import redelivery
            from gantrymq.remoting.codes import RequestCode

            class Codes:
                CONSUMER_SEND_MSG_BACK = RequestCode.GET_BROKER_CLUSTER_INFO  # which a broker does not serve

            monkeypatch.setattr(redelivery, "RequestCode", Codes)

        async def handle(message):
            seen.append((of(message), message.reconsume_times))
            raise ValueError

        async with client_of(cluster) as client:
            await client.producer("shop").send(Message(TOPIC, b"bad", properties=trace(7)))
            consumer = client.consumer("billing", TOPIC, consume_from="first", max_tries=2)
            running = asyncio.create_task(consumer.run(handle))
            await cluster.world.clock.sleep(300)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert seen == [(trace(7), 0), (trace(7), 1), (trace(7), 2)]
        (letter,) = await stored(cluster, "%DLQ%billing")
        assert of(letter) == trace(7)
        assert Message.from_received(letter).properties == trace(7)

    simulate_cluster(work)
    assert ("sending back messages of" in caplog.text) is (by == "client")


def test_an_answer_belongs_to_the_trace_of_its_question():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster) as asking, client_of(cluster) as answering:
            replies, seen = answering.producer("answers"), []

            async def answer(question):
                seen.append(of(question))
                await replies.send(reply_to(question, b"yes"))

            running = asyncio.create_task(answering.consumer("shop", TOPIC, consume_from="first").run(answer))
            producer = asking.producer("customers")
            found = await producer.request(Message(TOPIC, b"?", properties=trace(9)), timeout_s=20)
            plain = await producer.request(Message(TOPIC, b"?"), timeout_s=20)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        nothing = {"traceparent": None, "tracestate": None}
        assert of(found) == trace(9) and of(plain) == nothing
        assert seen == [trace(9), nothing]

    simulate_cluster(work)


def test_a_message_that_is_sent_on_keeps_it():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await cluster.create_topic("Next", 1)
        async with client_of(cluster) as client:
            producer = client.producer("shop")
            await producer.send(Message(TOPIC, b"1", properties={**trace(5), "own": "too"}))
            (found,) = await first_of(client.consumer("billing", TOPIC, consume_from="first"))
            await producer.send(Message.from_received(found, "Next"))
        (on,) = await stored(cluster, "Next")
        assert on.user_properties == {**trace(5), "own": "too"}

    simulate_cluster(work)
