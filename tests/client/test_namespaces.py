"""A client with a namespace, with an in-memory broker: the program sees its own names, servers see NS% names."""

import asyncio
from importlib.util import find_spec

import pytest

from gantrymq.client import (
    Batching,
    Client,
    ClientError,
    InvalidParameter,
    Message,
    MessageQueue,
    ReconsumeLater,
    TransactionState,
    reply_to,
)
from gantrymq.client.calls.connection_config import ConnectionConfig
from gantrymq.client.connection.instance import acquire_instance
from gantrymq_testing.simulation import simulate_cluster

NS = {"namespace": "NS"}


def client_of(cluster, **more):
    return Client(cluster.namesrv, world=cluster.world, **{**NS, **more})


def plain(cluster):
    return Client(cluster.namesrv, world=cluster.world)


async def first_of(consumer, count=1):
    found = []
    async for message in consumer:
        found.append(message)
        if len(found) == count:
            break
    return found


def test_names_are_wrapped_at_the_broker_and_plain_here():
    async def work(cluster):
        await cluster.create_topic("NS%Orders")
        async with client_of(cluster) as client, plain(cluster) as other:
            queues = await client.producer("shop").queues("Orders")
            assert {queue.topic for queue in queues} == {"Orders"}
            result = await client.producer("till").send(Message("Orders", b"1", tags="A"), queues[0])
            assert result.queue == queues[0]
            consumer = client.consumer("billing", "Orders", expression="A", consume_from="first")
            (message,) = await first_of(consumer)
            assert (message.topic, message.body) == ("Orders", b"1")
            assert message.properties["INSTANCE_ID"] == "NS"
            assert {queue.topic for queue in consumer.assignment} >= {"Orders"}
            reader = client.reader("Orders")
            assert [found.topic async for found in reader] == ["Orders"]
            assert [found.topic async for found in other.reader("NS%Orders")] == ["NS%Orders"]
            assert set(await client.admin.topics()) >= {"NS%Orders", "%RETRY%NS%billing"}
            (broker,) = (await client.admin.route("Orders")).brokers
            assert {queue.topic for queue in await client.admin.topic_stats(broker.master, "Orders")} == {"Orders"}

    simulate_cluster(work)


def test_two_namespaces_have_a_topic_of_one_name():
    async def work(cluster):
        for name in ("NS%T", "OTHER%T"):
            await cluster.create_topic(name)
        async with client_of(cluster) as one, client_of(cluster, namespace="OTHER") as two:
            await one.producer("P").send(Message("T", b"one"))
            await two.producer("P").send_batch([Message("T", b"two"), Message("T", b"two")])
            assert [m.body for m in await first_of(one.consumer("G", "T", consume_from="first"))] == [b"one"]
            assert [m.body for m in await first_of(two.consumer("G", "T", consume_from="first"), 2)] == [b"two"] * 2

    simulate_cluster(work)


def test_a_message_that_failed_comes_again_by_its_own_name():
    async def work(cluster):
        await cluster.create_topic("NS%Orders")
        async with client_of(cluster) as client:
            seen, done = [], asyncio.Event()

            async def handle(message):
                seen.append((message.topic, message.reconsume_times))
                if len(seen) < 3:
                    raise ReconsumeLater(1)
                done.set()

            running = asyncio.create_task(client.consumer("G", "Orders", consume_from="first").run(handle))
            await client.producer("P").send(Message("Orders", b"x"))
            await done.wait()
            assert seen == [("Orders", 0), ("Orders", 1), ("Orders", 2)]
            running.cancel()

    simulate_cluster(work)


def test_orderly_members_lock_their_queues():
    async def work(cluster):
        await cluster.create_topic("NS%Orders")
        async with client_of(cluster) as client:
            consumer = client.consumer("G", "Orders", orderly=True, consume_from="first")
            await client.producer("P").send(Message("Orders", b"x"))
            assert [message.topic for message in await first_of(consumer)] == ["Orders"]
            await consumer.commit()

    simulate_cluster(work)


def test_members_with_and_without_the_option_share_queues():
    async def work(cluster):
        await cluster.create_topic("NS%Orders")
        async with client_of(cluster) as client, plain(cluster) as other:
            options = {"consume_from": "first", "allocation": "AVG_BY_CIRCLE"}
            one = client.consumer("G", "Orders", **options)
            two = other.consumer("NS%G", "NS%Orders", **options)
            for _ in range(3):
                await cluster.world.clock.sleep(25)
            held = [q._replace(topic="Orders") for q in two.assignment if q.topic == "NS%Orders"]
            mine = [q for q in one.assignment if q.topic == "Orders"]
            assert len(mine) > 0 and len(held) > 0
            assert sorted(mine + held) == sorted(await client.producer("P").queues("Orders"))

    simulate_cluster(work)


def test_brokers_ask_about_transactions_by_the_wrapped_group():
    async def work(cluster):
        await cluster.create_topic("NS%Orders")
        asked = []

        def check(message):
            asked.append(message.topic)
            return TransactionState.COMMIT

        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", check)
            async with producer.transaction(Message("Orders", b"x")) as transaction:
                transaction.state = TransactionState.UNKNOWN
            (message,) = await first_of(client.consumer("G", "Orders", consume_from="first"))
            assert (message.body, asked) == (b"x", ["Orders"])

    simulate_cluster(work, settings={"transactionCheckInterval": 5000, "transactionTimeOut": 3000})


def test_a_request_is_answered_within_the_namespace():
    async def work(cluster):
        await cluster.create_topic("NS%Prices")
        async with client_of(cluster) as asking, client_of(cluster) as answering:
            replies = answering.producer("answers")

            async def answer(question):
                await replies.send(reply_to(question, b"12"))

            running = asyncio.create_task(answering.consumer("G", "Prices", consume_from="first").run(answer))
            found = await asking.producer("customers").request(Message("Prices", b"?"), timeout_s=20)
            assert found.body == b"12"
            running.cancel()

    simulate_cluster(work)


def test_offsets_are_reset_from_outside():
    async def work(cluster):
        await cluster.create_topic("NS%Orders")
        async with client_of(cluster) as client:
            queues = await client.producer("P").queues("Orders")
            assert isinstance(queues[0], MessageQueue)
            reader = client.reader(group="G")
            await client.producer("Q").send(Message("Orders", b"x"), queues[0])
            await reader.commit(queues[0], 1)
            assert await reader.committed(queues[0]) == 1
            assert await reader.committed(queues[0]._replace(topic="NS%Orders")) == 1

    simulate_cluster(work)


def test_instances_are_shared_within_one_namespace():
    async def work(cluster):
        async with client_of(cluster, instance_name="one") as first:
            assert first._started() is await acquire_instance(
                ConnectionConfig(cluster.namesrv, "NS", world=cluster.world, instance_name="one")
            )
            await first._started().release()
            async with client_of(cluster, instance_name="one", namespace="OTHER") as second:
                assert first._started() is not second._started()

    simulate_cluster(work)


def test_a_namespace_that_is_none_is_refused():
    async def work(cluster):
        with pytest.raises(InvalidParameter, match="the namespace 'a%b' is not"):
            await client_of(cluster, namespace="a%b").start()
        assert issubclass(InvalidParameter, ClientError)

    simulate_cluster(work)


def test_lite_pull_and_batches():
    async def work(cluster):
        await cluster.create_topic("NS%Orders")
        async with client_of(cluster) as client:
            producer = client.producer("P", batching=Batching())
            sends = [producer.send_soon(Message("Orders", b"%d" % number)) for number in range(8)]
            assert {(await send).queue.topic for send in sends} == {"Orders"}
            consumer = client.lite_pull("G", "Orders", consume_from="first")
            found = []
            while len(found) < 8:
                found += await consumer.poll()
            assert {message.topic for message in found} == {"Orders"}
            queues = await consumer.queues("Orders")
            assert set(consumer.assignment) >= set(queues)
            await consumer.commit()
            assert sum([await consumer.committed(queue) or 0 for queue in queues]) == 8
            await consumer.seek_to_begin(queues[0])

    simulate_cluster(work)


@pytest.mark.skipif(not find_spec("gantrymq_pop"), reason="the broker's part is a plugin, gantrymq-pop")
@pytest.mark.parametrize("count", [1, 5])
def test_pops_that_come_back_and_are_acknowledged(count):
    """From the retry topic of the wrapped names, one by one and as a batch."""

    async def work(cluster):
        await cluster.create_topic("NS%Orders", 1)
        async with client_of(cluster) as client, plain(cluster) as other:
            await client.producer("P").send_batch([Message("Orders", b"%d" % number) for number in range(count)])
            consumer = client.pop_consumer("G", "Orders", consume_from="first", invisible_s=10)
            first = await some_pops(consumer, count)
            assert {message.topic for message in first} == {"Orders"}
            await cluster.world.clock.sleep(20)
            again = await some_pops(consumer, count)
            assert {(message.topic, message.reconsume_times) for message in again} == {("Orders", 1)}
            await consumer.ack(*again)
            await cluster.world.clock.sleep(40)
            assert not await consumer.pop(poll_s=1)
            assert not await other.pop_consumer("NS%G", "NS%Orders").pop(poll_s=1)

    simulate_cluster(work)


async def some_pops(consumer, count):
    found = []
    while len(found) < count:
        found += await consumer.pop()
    return found
