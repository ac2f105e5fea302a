"""Hooks of producers and consumers, with an in-memory broker on a virtual clock."""

import asyncio
import contextlib
import contextvars
import logging

import pytest

from gantrymq.client import (
    Client,
    ClientError,
    ConsumeOutcome,
    InvalidParameter,
    Message,
    MessageQueue,
    NoRoute,
    ReconsumeLater,
    TransactionState,
)
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"
CARRIED = "traceparent"


class Noting:
    """Every hook; records the contexts after calls, and numbers messages before they are sent."""

    def __init__(self):
        self.sent, self.consumed, self.ended, self.order = [], [], [], []

    def before_send(self, context):
        self.order.append("before")
        assert context.result is None and context.error is None
        for number, message in enumerate(context.messages):
            message.properties[CARRIED] = f"{len(self.sent)}-{number}"
        context.notes[self] = len(self.order)

    def after_send(self, context):
        self.order.append("after")
        assert context.notes[self] <= len(self.order)
        self.sent.append(context)

    def before_consume(self, context):
        assert context.outcome is None
        context.notes[self] = [message.message_id for message in context.messages]

    def after_consume(self, context):
        assert context.notes[self] == [message.message_id for message in context.messages]
        self.consumed.append(context)

    def end_transaction(self, context):
        self.ended.append(context)


def client_of(cluster, hooks=(), **more):
    return Client(cluster.namesrv, world=cluster.world, hooks=hooks, **more)


async def stored(cluster, topic=TOPIC):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.reader("lookers") as reader:
        return {
            bytes(message.body): message
            for queue in await reader.queues(topic)
            for message in (await reader.pull(queue, 0)).messages
        }


def test_every_kind_of_send_is_told_of_and_its_messages_carry_what_hooks_add():
    async def work(cluster):
        hook = Noting()
        await cluster.create_topic(TOPIC)
        async with client_of(cluster, [hook]) as client:
            producer = client.producer("shop")
            mine = Message(TOPIC, b"1", tags="TagA", properties={"own": "kept"})
            result = await producer.send(mine)
            assert mine.properties == {"own": "kept"} and mine.system_properties == {}
            await producer.send_soon(Message(TOPIC, b"2"))
            await producer.send_async(Message(TOPIC, b"3"))
            await producer.send_oneway(Message(TOPIC, b"4"))
            (queue, *_) = await producer.queues(TOPIC)
            batch = await producer.send_batch([Message(TOPIC, b"5"), Message(TOPIC, b"6")], queue)
        assert [context.kind for context in hook.sent] == ["single", "single", "single", "oneway", "batch"]
        first, *_, oneway, last = hook.sent
        assert (first.group, first.topic, first.result, first.error) == ("shop", TOPIC, result, None)
        assert first.queue == result.queue and first.broker_address == cluster.broker_address
        assert first.messages[0].system_properties["UNIQ_KEY"] == result.message_id
        assert oneway.result is None and oneway.error is None
        assert last.queue == queue and last.result == batch
        assert tuple(each.system_properties["UNIQ_KEY"] for each in last.messages) == batch.message_ids
        found = await stored(cluster)
        assert {body: message.properties[CARRIED] for body, message in found.items()} == {
            b"1": "0-0",
            b"2": "1-0",
            b"3": "2-0",
            b"4": "3-0",
            b"5": "4-0",
            b"6": "4-1",
        }
        assert found[b"1"].user_properties == {"own": "kept", CARRIED: "0-0"} and found[b"1"].tags == "TagA"

    simulate_cluster(work)


def test_a_send_that_fails_or_is_cancelled_is_told_of():
    async def work(cluster):
        hook = Noting()
        async with client_of(cluster, [hook]) as client:
            producer = client.producer("shop")
            with pytest.raises(ClientError):
                await producer.send(Message(TOPIC, b"x"), MessageQueue(TOPIC, "nobody", 0), timeout_s=1)
            with pytest.raises(NoRoute):
                await producer.send_oneway(Message(TOPIC, b"x"), MessageQueue(TOPIC, "nobody", 0))
            sending = producer.send_soon(Message(TOPIC, b"x"))
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            assert len(hook.sent) == 2  # it did not start
            await cluster.create_topic(TOPIC, 1)
            waiting = producer.send_soon(Message(TOPIC, b"x"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        failed, oneway, cancelled = hook.sent
        assert isinstance(cancelled.error, asyncio.CancelledError)
        assert isinstance(failed.error, ClientError) and failed.result is None and failed.queue is not None
        assert isinstance(oneway.error, NoRoute)

    simulate_cluster(work)


def test_a_send_takes_the_time_of_all_its_attempts():
    async def work(cluster):
        hook = Noting()
        await cluster.create_topic(TOPIC)
        async with client_of(cluster, [hook]) as client:
            producer = client.producer("shop")
            await producer.queues(TOPIC)
            await cluster.stop()
            begun_ms = cluster.world.clock.now_ms()
            with pytest.raises(ClientError):
                await producer.send(Message(TOPIC, b"1"), timeout_s=10)
        (context,) = hook.sent
        assert context.started_ms == begun_ms and 9 < context.duration_s < 11 and context.error is not None

    simulate_cluster(work)


class Raising:
    def before_send(self, context):
        raise ValueError("before")

    def after_send(self, context):
        raise ValueError("after")

    def before_consume(self, context):
        raise ValueError("before")

    def after_consume(self, context):
        raise ValueError("after")


def test_a_hook_that_raises_is_logged_once_and_loses_no_message(caplog):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        later = Noting()
        async with client_of(cluster, [Raising(), later]) as client:
            producer = client.producer("shop")
            for number in range(3):
                await producer.send(Message(TOPIC, f"{number}".encode()))
            consumer = client.consumer("billing", TOPIC, consume_from="first")
            async with asyncio.timeout(60):
                found = [int(message.body) async for _, message in numbered(consumer, 3)]
        assert sorted(found) == [0, 1, 2]
        assert len(later.sent) == 3
        assert [context.outcome for context in later.consumed[:2]] == [ConsumeOutcome.SUCCESS] * 2

    with caplog.at_level(logging.ERROR, "gantrymq.client"):
        simulate_cluster(work)
    told = [record.getMessage() for record in caplog.records if "raised" in record.getMessage()]
    assert len(told) == 4 and sum("Raising.before_send, a hook of shop" in text for text in told) == 1


async def numbered(stream, count):
    number = 0
    async for message in stream:
        yield number, message
        number += 1
        if number == count:
            return


def test_messages_that_a_hook_spoils_are_sent_without_what_it_added(caplog):
    class Spoiling(Noting):
        def before_send(self, context):
            context.messages[0].properties["traceparent"] = "a\x01b"

        def after_send(self, context):
            pass

    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster, [Spoiling()]) as client:
            producer = client.producer("shop")
            await producer.send(Message(TOPIC, b"1", properties={"own": "kept"}))
            await producer.send(Message(TOPIC, b"2"))
        found = await stored(cluster)
        assert found[b"1"].user_properties == {"own": "kept"} and found[b"2"].user_properties == {}

    with caplog.at_level(logging.WARNING, "gantrymq.client"):
        simulate_cluster(work)
    assert sum("without the properties that hooks added" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("wrong", [[object()], [Noting], ["before_send"]])
def test_what_is_no_hook_is_refused(wrong):
    with pytest.raises(InvalidParameter, match="is not a hook"):
        Client("127.0.0.1:1", hooks=wrong)


def test_what_is_no_trace_is_refused():
    with pytest.raises(InvalidParameter, match="expected True, False or a MessageTrace"):
        Client("127.0.0.1:1", trace="Topic")


def outcomes(hook):
    return [(context.outcome, context.consumed, len(context.messages)) for context in hook.consumed]


def test_a_loop_is_told_of_message_by_message_and_of_what_it_leaves():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        hook = Noting()
        async with client_of(cluster) as client:
            producer = client.producer("shop")
            for number in range(4):
                await producer.send(Message(TOPIC, f"{number}".encode()))
            consumer = client.consumer("billing", TOPIC, consume_from="first", hooks=[hook])
            async for message in consumer:
                await cluster.world.clock.sleep(2)
                if message.body == b"1":
                    break
            assert outcomes(hook) == [(ConsumeOutcome.SUCCESS, 1, 1), (ConsumeOutcome.GIVEN_BACK, 0, 1)]
            first = hook.consumed[0]
            assert (first.group, first.topic, first.queue.queue_id, first.batch) == ("billing", TOPIC, 0, False)
            assert first.duration_s == pytest.approx(2)
            async for several in consumer.batches(10):
                assert [message.body for message in several] == [b"1", b"2", b"3"]
                break
        assert outcomes(hook)[2:] == [(ConsumeOutcome.GIVEN_BACK, 0, 3)] and hook.consumed[2].batch

    simulate_cluster(work)


@pytest.mark.parametrize("orderly", [False, True])
def test_handlers_are_told_of_with_what_they_raised(orderly):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        hook, tries, done = Noting(), {}, asyncio.Event()

        async def handle(message):
            tries[message.body] = tries.get(message.body, 0) + 1
            if tries[message.body] == 1:
                if message.body == b"0":
                    raise ReconsumeLater(1)
                if message.body == b"1":
                    raise ValueError("one")
            if len(tries) == 3 and sum(tries.values()) == 5:
                done.set()

        async with client_of(cluster) as client:
            producer = client.producer("shop")
            for number in range(3):
                await producer.send(Message(TOPIC, f"{number}".encode()))
            consumer = client.consumer("billing", TOPIC, consume_from="first", hooks=[hook], orderly=orderly)
            running = asyncio.create_task(consumer.run(handle, concurrency=1))
            await done.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        counted = sorted((context.outcome.name, str(context.error)) for context in hook.consumed)
        assert counted == [
            ("EXCEPTION", "one"),
            ("FAILED", "None"),
            ("SUCCESS", "None"),
            ("SUCCESS", "None"),
            ("SUCCESS", "None"),
        ]
        last = [context.messages[0].reconsume_times for context in hook.consumed[-2:]]
        assert last == ([1, 0] if orderly else [1, 1])

    simulate_cluster(work)


def test_a_batch_handler_that_consumes_some_is_told_of_once():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        hook, done = Noting(), asyncio.Event()

        async def handle(messages):
            done.set()
            return 2

        async with client_of(cluster) as client:
            producer = client.producer("shop")
            await producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(3)])
            consumer = client.consumer("billing", TOPIC, consume_from="first", hooks=[hook])
            running = asyncio.create_task(consumer.run(handle, concurrency=1, batch_size=3))
            await done.wait()
            while not hook.consumed:
                await cluster.world.clock.sleep(0.1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert outcomes(hook)[0] == (ConsumeOutcome.FAILED, 2, 3)

    simulate_cluster(work)


def test_what_takes_too_long_timed_out():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        hook = Noting()
        async with client_of(cluster) as client:
            await client.producer("shop").send(Message(TOPIC, b"slow"))
            consumer = client.consumer("billing", TOPIC, consume_from="first", hooks=[hook], consume_timeout_s=30)
            async for _ in consumer:
                await cluster.world.clock.sleep(40)
                break
        assert outcomes(hook) == [(ConsumeOutcome.TIME_OUT, 0, 1)]

    simulate_cluster(work)


def test_messages_acknowledged_by_hand_are_told_of_one_by_one():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        hook = Noting()
        async with client_of(cluster) as client:
            producer = client.producer("shop")
            for number in range(4):
                await producer.send(Message(TOPIC, f"{number}".encode()))
            consumer = client.consumer("billing", TOPIC, consume_from="first", hooks=[hook], auto_ack=False)
            held = [message async for _, message in numbered(consumer, 4)]
            await cluster.world.clock.sleep(3)
            assert consumer.ack(held[1]) and not consumer.ack(held[1])
            assert await consumer.nack(held[0])
            assert [context.messages[0].body for context in hook.consumed] == [b"1", b"0"]
            assert not any(context.in_task for context in hook.consumed)
        by_body = {context.messages[0].body: context.outcome for context in hook.consumed[:4]}
        assert by_body == {
            b"0": ConsumeOutcome.FAILED,
            b"1": ConsumeOutcome.SUCCESS,
            b"2": ConsumeOutcome.GIVEN_BACK,
            b"3": ConsumeOutcome.GIVEN_BACK,
        }
        assert hook.consumed[0].duration_s >= 3

    simulate_cluster(work)


def test_polls_are_told_of_until_the_next_one():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        hook = Noting()
        async with client_of(cluster) as client:
            await client.producer("shop").send_batch([Message(TOPIC, b"%d" % number) for number in range(5)])
            consumer = client.lite_pull("billing", TOPIC, consume_from="first", hooks=[hook])
            while len(polled := await consumer.poll(max_count=2)) < 2:
                pass
            assert hook.consumed == []
            await cluster.world.clock.sleep(3)
            assert len(await consumer.poll(max_count=1)) == 1
            assert hook.consumed[0].messages == list(polled) and hook.consumed[0].duration_s >= 3
            await consumer.commit()
            assert len(await consumer.poll(max_count=2)) == 2
        assert outcomes(hook) == [
            (ConsumeOutcome.SUCCESS, 2, 2),
            (ConsumeOutcome.SUCCESS, 1, 1),
            (ConsumeOutcome.GIVEN_BACK, 0, 2),
        ]
        assert [(context.batch, context.group) for context in hook.consumed] == [
            (True, "billing"),
            (False, "billing"),
            (True, "billing"),
        ]

    simulate_cluster(work)


current = contextvars.ContextVar("current", default=None)


class Current:
    """Sets a variable of the task's context while a message is consumed, as tracers do."""

    def before_consume(self, context):
        assert context.in_task
        context.notes[self] = current.set(context.messages[0].message_id)

    def after_consume(self, context):
        current.reset(context.notes[self])


@pytest.mark.parametrize("kind", ["loop", "handler"])
def test_what_a_hook_sets_in_the_context_is_seen_by_the_code_that_consumes(kind):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        seen, done = [], asyncio.Event()

        async def handle(message):
            seen.append((current.get(), message.message_id))
            done.set()

        async with client_of(cluster, [Current()]) as client:
            await client.producer("shop").send(Message(TOPIC, b"1"))
            consumer = client.consumer("billing", TOPIC, consume_from="first")
            if kind == "loop":
                async for message in consumer:
                    await handle(message)
                    break
                assert current.get() is None
            else:
                running = asyncio.create_task(consumer.run(handle))
                await done.wait()
                await cluster.world.clock.sleep(1)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        ((inside, message_id),) = seen
        assert inside == message_id

    simulate_cluster(work)


def test_ends_of_transactions_are_told_of_and_who_asked():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        hook = Noting()
        async with client_of(cluster, [hook]) as client:
            producer = client.transaction_producer("shop", lambda _: TransactionState.COMMIT)
            async with producer.transaction(Message(TOPIC, b"kept", keys="k1")) as kept:
                pass
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction(Message(TOPIC, b"gone")):
                    raise ZeroDivisionError
            async with producer.transaction(Message(TOPIC, b"asked")) as asked:
                asked.state = TransactionState.UNKNOWN
            await cluster.world.clock.sleep(30)
        assert [(each.state, each.from_check, each.message.body) for each in hook.ended] == [
            (TransactionState.COMMIT, False, b"kept"),
            (TransactionState.ROLLBACK, False, b"gone"),
            (TransactionState.UNKNOWN, False, b"asked"),
            (TransactionState.COMMIT, True, b"asked"),
        ]
        assert hook.ended[0].message_id == kept.id and hook.ended[0].transaction_id == kept.sent.transaction_id
        assert hook.ended[3].message_id == asked.id
        assert {each.broker_address for each in hook.ended} == {cluster.broker_address}

    simulate_cluster(work, settings={"transactionCheckInterval": 5000, "transactionTimeOut": 3000})
