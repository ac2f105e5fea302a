"""Message traces of producers and consumers, with an in-memory broker on a virtual clock."""

import asyncio
import logging

import pytest

from gantrymq.client import (
    Client,
    ConsumeOutcome,
    InvalidParameter,
    Message,
    MessageTrace,
    TransactionState,
    decode_trace,
)
from gantrymq.client.tracing.records import EndTransaction, MessageType, Pub, SubAfter, SubBefore
from gantrymq.model.names import TRACE_TOPIC
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"


def client_of(cluster, **more):
    return Client(cluster.namesrv, world=cluster.world, **more)


async def traces(cluster, topic=TRACE_TOPIC):
    """The messages of the trace topic, each with its records."""
    async with Client(cluster.namesrv, world=cluster.world) as client, client.reader("lookers") as reader:
        return [
            (message, decode_trace(message.body))
            for queue in await reader.queues(topic)
            for message in (await reader.pull(queue, 0)).messages
        ]


async def records(cluster, topic=TRACE_TOPIC):
    return [record for _, found in await traces(cluster, topic) for record in found]


async def records_of_all(cluster):
    async with (
        Client(cluster.namesrv, world=cluster.world) as client,
        client.reader(TRACE_TOPIC, start="first") as reader,
    ):
        return [record async for message in reader for record in decode_trace(message.body)]


def test_a_message_sent_and_consumed_leaves_three_records():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, trace=True) as client:
            producer = client.producer("shop")
            message = Message(TOPIC, b"12345", tags="TagA", keys=("k1", "k2"))
            sent = await producer.send(message)
            consumer = client.consumer("billing", TOPIC, consume_from="first")
            async for _ in consumer:
                await cluster.world.clock.sleep(2)
                break
            assert producer.trace is consumer.trace
        assert (producer.trace.written, producer.trace.dropped) == (3, 0)
        found = {type(record): record for record in await records(cluster)}
        pub, before, after = found[Pub], found[SubBefore], found[SubAfter]
        assert pub == Pub(
            time_ms=pub.time_ms,
            region="DefaultRegion",
            group="shop",
            topic=TOPIC,
            message_id=sent.message_id,
            tags="TagA",
            keys="k1 k2",
            store_host=cluster.broker_address,
            body_length=5,
            cost_ms=pub.cost_ms,
            message_type=MessageType.NORMAL,
            offset_id=sent.offset_id,
            success=True,
        )
        assert before == SubBefore(
            before.time_ms, "DefaultRegion", "billing", before.request_id, sent.message_id, 0, "k1 k2"
        )
        assert after == SubAfter(
            before.request_id,
            sent.message_id,
            after.cost_ms,
            False,
            "k1 k2",
            ConsumeOutcome.FAILED.value,
            after.time_ms,
            "billing",
        )
        assert 1999 <= after.cost_ms < 2100 and pub.time_ms <= before.time_ms < after.time_ms
        for message, inside in await traces(cluster):
            keys = set(message.keys.split())
            assert keys == {"k1", "k2", sent.message_id} and inside

    simulate_cluster(work)


def test_each_message_of_a_batch_is_found_by_its_own_id():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, trace=True) as client:
            sent = await client.producer("shop").send_batch([Message(TOPIC, b"1"), Message(TOPIC, b"22")])
            done = asyncio.Event()

            async def handle(messages):
                done.set()
                return 1

            running = asyncio.create_task(
                client.consumer("billing", TOPIC, consume_from="first").run(handle, batch_size=2, concurrency=1)
            )
            await done.wait()
            await cluster.world.clock.sleep(1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        found = await records(cluster)
        pubs = [record for record in found if isinstance(record, Pub)]
        assert [(pub.message_id, pub.offset_id, pub.body_length) for pub in pubs] == [
            (sent.message_ids[0], sent.offset_ids[0], 1),
            (sent.message_ids[1], sent.offset_ids[1], 2),
        ]
        befores = [record for record in found if isinstance(record, SubBefore)]
        afters = [record for record in found if isinstance(record, SubAfter)]
        assert [before.message_id for before in befores] == list(sent.message_ids)
        assert len({each.request_id for each in (*befores, *afters)}) == 1
        assert [(after.success, after.context_code) for after in afters] == [(True, 4), (False, 4)]

    simulate_cluster(work)


def test_transactions_delays_and_retries_are_told_apart():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, trace=True) as client:
            producer = client.transaction_producer("shop", lambda _: TransactionState.COMMIT)
            async with producer.transaction(Message(TOPIC, b"half", tags="T")) as transaction:
                pass
            delayed = await producer.send(Message(TOPIC, b"late", delay_level=1))
            timed = await producer.send(Message(TOPIC, b"timed", delay_ms=2000))
            tries = 0
            done = asyncio.Event()

            async def handle(message):
                nonlocal tries
                if message.message_id == delayed.message_id:
                    tries += 1
                    if tries == 1:
                        raise ValueError
                    done.set()

            running = asyncio.create_task(client.consumer("billing", TOPIC, consume_from="first").run(handle))
            await done.wait()
            await cluster.world.clock.sleep(10)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        found = await records(cluster)
        kinds = {record.message_id: record.message_type for record in found if isinstance(record, Pub)}
        assert kinds == {
            transaction.id: MessageType.TRANSACTION_HALF,
            delayed.message_id: MessageType.DELAY,
            timed.message_id: MessageType.DELAY,
        }
        (end,) = [record for record in found if isinstance(record, EndTransaction)]
        assert (end.message_id, end.state, end.from_check, end.tags) == (transaction.id, "COMMIT_MESSAGE", False, "T")
        assert end.transaction_id == transaction.sent.transaction_id and end.store_host == cluster.broker_address
        tried = [each for each in found if each.message_id == delayed.message_id]
        assert sorted(each.retry_times for each in tried if isinstance(each, SubBefore)) == [0, 1]
        assert sorted((each.success, each.context_code) for each in tried if isinstance(each, SubAfter)) == [
            (False, ConsumeOutcome.EXCEPTION.value),
            (True, ConsumeOutcome.SUCCESS.value),
        ]

    simulate_cluster(work)


def test_nothing_is_traced_that_the_broker_or_nobody_wants_traced():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace()
        async with client_of(cluster, trace=trace) as client:
            await client.producer("shop").send(Message(TOPIC, b"1"))
            async for _ in client.consumer("billing", TOPIC, consume_from="first"):
                break
        assert (trace.written, trace.dropped) == (0, 0)

    simulate_cluster(work, settings={"traceOn": False})


def test_the_trace_topic_itself_is_not_traced_and_oneway_sends_are_not():
    async def work(cluster):
        await cluster.create_topic("Traces", 1)
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace("Traces")
        async with client_of(cluster, trace=trace) as client:
            producer = client.producer("shop")
            await producer.send_oneway(Message(TOPIC, b"1"))
            await producer.send(Message("Traces", b"by hand"))
            async for message in client.consumer("looking", "Traces", consume_from="first"):
                assert message.body == b"by hand"
                break
            await producer.send(Message(TOPIC, b"2"))
        assert trace.written == 1
        (found,) = [decoded for _, decoded in await traces(cluster, "Traces") if decoded]
        assert [type(record) for record in found] == [Pub]

    simulate_cluster(work)


def test_records_go_in_messages_of_a_batch_or_after_a_while():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await cluster.create_topic("Traces", 1)
        trace = MessageTrace("Traces", batch=3, flush_every_s=7)
        async with client_of(cluster, trace=trace) as client:
            producer = client.producer("shop")
            for number in range(7):
                await producer.send(Message(TOPIC, b"%d" % number))
            await cluster.world.clock.sleep(1)
            assert trace.written == 6
            await cluster.world.clock.sleep(5)
            assert trace.written == 6
            await cluster.world.clock.sleep(1.5)
            assert trace.written == 7
            await producer.send(Message(TOPIC, b"7"))
        assert trace.written == 8
        assert [len(found) for _, found in await traces(cluster, "Traces")] == [3, 3, 1, 1]

    simulate_cluster(work)


def test_what_finds_no_room_is_dropped_counted_and_said_once(caplog):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace(batch=10, most_waiting=10)
        async with client_of(cluster, trace=trace) as client:
            producer = client.producer("shop")
            result = await producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(25)])
            assert len(result.message_ids) == 25 and trace.dropped == 15
        assert (trace.written, trace.dropped) == (10, 15)

    with caplog.at_level(logging.WARNING, "gantrymq.client"):
        simulate_cluster(work)
    assert sum("counted in MessageTrace.dropped" in record.getMessage() for record in caplog.records) == 1


def test_what_is_polled_is_traced():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster) as client:
            sent = await client.producer("shop").send(Message(TOPIC, b"1"))
            consumer = client.lite_pull("billing", TOPIC, consume_from="first", trace=True)
            while not await consumer.poll():
                pass
            await consumer.poll(timeout_s=0)
        assert (consumer.trace.written, consumer.trace.dropped) == (2, 0)
        before, after = await records(cluster)
        assert before.message_id == after.message_id == sent.message_id and after.success

    simulate_cluster(work)


def test_every_record_is_written_or_counted_however_many_there_are():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace()
        async with client_of(cluster, trace=trace) as client:
            producer = client.producer("shop")
            for _ in range(4):
                await asyncio.gather(*(producer.send(Message(TOPIC, b"%d" % number)) for number in range(1000)))
        assert trace.written + trace.dropped == 4000 and trace.written >= 2048
        assert all(len(message.body) <= 128_000 for message, _ in await traces(cluster))
        assert len(await records_of_all(cluster)) == trace.written

    simulate_cluster(work)


def test_messages_that_the_producer_batches_by_itself_are_traced_one_by_one():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, trace=True) as client:
            producer = client.producer("shop", batching=True)
            sent = await asyncio.gather(*(producer.send(Message(TOPIC, b"%d" % number)) for number in range(20)))
        pubs = {record.message_id: record.offset_id for record in await records(cluster)}
        assert pubs == {result.message_id: result.offset_id for result in sent} and len(pubs) == 20

    simulate_cluster(work)


def test_closing_without_a_limit_gives_up_as_well():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace()
        client = client_of(cluster, trace=trace)
        await client.start()
        await client.producer("shop").send(Message(TOPIC, b"1"))
        consumer = client.consumer("billing", TOPIC, consume_from="first", auto_ack=False)
        async for _ in consumer:
            break
        await cluster.stop()
        begun = cluster.world.clock.monotonic()
        await client.close()
        assert cluster.world.clock.monotonic() - begun < 12
        assert (trace.written, trace.dropped) == (0, 3)

    simulate_cluster(work)


def test_two_producers_one_after_the_other_use_one_trace():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace()
        for number in range(2):
            async with Client(cluster.namesrv, world=cluster.world) as client:
                producer = client.producer("shop", trace=trace)
                await producer.send(Message(TOPIC, b"%d" % number))
            assert trace.written == number + 1

    simulate_cluster(work)


def test_closing_in_time_counts_what_is_under_way():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace(batch=1)
        client = client_of(cluster, trace=trace)
        await client.start()
        producer = client.producer("shop")
        await producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(10)])
        await cluster.stop()
        await cluster.world.clock.sleep(1)
        await client.close(timeout_s=0)
        assert trace.written + trace.dropped == 10

    simulate_cluster(work)


def test_without_a_trace_topic_messages_are_sent_and_traces_counted_as_dropped():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace("Nowhere")
        async with client_of(cluster, trace=trace) as client:
            producer = client.producer("shop")
            assert (await producer.send(Message(TOPIC, b"1"))).ok
        assert (trace.written, trace.dropped) == (0, 1)

    simulate_cluster(work, settings={"autoCreateTopicEnable": False})


def test_closing_takes_no_longer_than_it_may_where_brokers_are_away():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        trace = MessageTrace()
        client = client_of(cluster, trace=trace)
        await client.start()
        await client.producer("shop").send(Message(TOPIC, b"1"))
        await cluster.stop()
        begun = cluster.world.clock.monotonic()
        await client.close(timeout_s=2)
        assert cluster.world.clock.monotonic() - begun < 3
        assert (trace.written, trace.dropped) == (0, 1)

    simulate_cluster(work)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": "a b"}, "a b"),
        ({"batch": 0}, "expected 1 to 100"),
        ({"most_waiting": 5}, "expected 20 and more"),
        ({"flush_every_s": 0}, "expected 0 to 3600"),
    ],
)
def test_what_a_trace_cannot_be_is_refused(options, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        MessageTrace(**options)
