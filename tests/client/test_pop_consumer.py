"""The pop consumer with an in-memory broker that supports pop, on a virtual clock."""

import asyncio
import contextlib
import itertools
import logging
from importlib.util import find_spec

import pytest

from gantrymq.client import (
    BrokerRefused,
    Client,
    ClientError,
    InvalidParameter,
    Message,
    PopConsumer,
)
from gantrymq.client.tracing.hooks import ConsumeOutcome
from gantrymq.model.properties import POP_CK
from gantrymq.remoting.codes import RequestCode
from gantrymq_testing.simulation import simulate_cluster

if not find_spec("gantrymq_pop"):
    pytest.skip("the broker's part is a plugin, gantrymq-pop", allow_module_level=True)

TOPIC = "Orders"
GROUP = "billing"


@contextlib.asynccontextmanager
async def pops(cluster, **more):
    async with Client(cluster.namesrv, world=cluster.world) as client:
        yield client.pop_consumer(GROUP, TOPIC, **{"consume_from": "first", **more})


async def sent(cluster, count, first=0, **more):
    for number in range(first, first + count):
        await cluster.send(TOPIC, f"{number}".encode(), **more)


async def popped(consumer, count):
    """*count* messages, and more as the last pop had them."""
    found = []
    for _ in range(20):
        found += await consumer.pop()
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count}")


def numbers(messages):
    return sorted(int(message.body) for message in messages)


class Looping:
    """A task with a loop that records messages and their times."""

    def __init__(self, consumer, clock, pause_s=0.0):
        self.seen, self.at_s, self.times = [], [], []
        self._task = asyncio.create_task(self._loop(consumer, clock, pause_s))

    async def _loop(self, consumer, clock, pause_s):
        async for message in consumer:
            self.seen.append(int(message.body))
            self.at_s.append(clock.monotonic())
            self.times.append(message.reconsume_times)
            await clock.sleep(pause_s)

    async def end(self):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


def test_what_is_acknowledged_does_not_come_again():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 40)
        async with pops(cluster, invisible_s=10) as consumer:
            messages = await popped(consumer, 40)
            assert numbers(messages) == list(range(40))
            assert {message.topic for message in messages} == {TOPIC}
            await consumer.ack(messages[0])
            await consumer.ack(*messages[1:30])
            await cluster.world.clock.sleep(12)
            again = await popped(consumer, 10)
            assert numbers(again) == numbers(messages[30:])
            assert {message.reconsume_times for message in again} == {1}
            assert {message.topic for message in again} == {TOPIC}
            assert {message.properties[POP_CK].split(" ")[4] for message in again} == {"1"}
            await consumer.ack(*again)
            await cluster.world.clock.sleep(30)
            assert await consumer.pop(poll_s=1) == ()

    simulate_cluster(work)


def test_the_second_form_of_retry_topics():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        async with pops(cluster, invisible_s=5) as consumer:
            await popped(consumer, 3)
            await cluster.world.clock.sleep(7)
            again = await popped(consumer, 3)
            assert {message.properties[POP_CK].split(" ")[4] for message in again} == {"2"}
            await consumer.ack(again[0])
            await consumer.ack(*again[1:])
            await cluster.world.clock.sleep(10)
            assert await consumer.pop(poll_s=1) == ()

    simulate_cluster(work, settings={"enableRetryTopicV2": True})


def test_messages_that_keep_the_name_of_their_retry_topic():
    """Their receipts are built by the client from the response."""

    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 8)
        async with pops(cluster, invisible_s=5) as consumer:
            await popped(consumer, 8)
            await cluster.world.clock.sleep(7)
            again = await popped(consumer, 8)
            assert {message.topic for message in again} == {TOPIC}
            await consumer.ack(*again)
            await cluster.world.clock.sleep(10)
            assert await consumer.pop(poll_s=1) == ()

    simulate_cluster(work, settings={"popResponseReturnActualRetryTopic": True})


def test_a_pop_waits_for_the_first_message_and_no_longer_than_it_may():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        clock = cluster.world.clock
        async with pops(cluster) as consumer:
            begun = clock.monotonic()
            assert await consumer.pop(poll_s=3) == ()
            assert clock.monotonic() - begun == pytest.approx(3, abs=0.2)
            assert await consumer.pop(poll_s=0) == ()
            assert clock.monotonic() - begun == pytest.approx(3, abs=0.3)
            waiting = asyncio.create_task(consumer.pop(max_count=1))
            await clock.sleep(5)
            await sent(cluster, 1)
            assert numbers(await waiting) == [0]
            assert clock.monotonic() - begun < 8.6

    simulate_cluster(work)


def test_a_pop_that_is_cancelled_loses_nothing():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with pops(cluster) as consumer:
            waiting = asyncio.create_task(consumer.pop())
            await cluster.world.clock.sleep(1)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            await sent(cluster, 1)
            await cluster.world.clock.sleep(1)
            begun = cluster.world.clock.monotonic()
            assert numbers(await consumer.pop()) == [0]
            assert cluster.world.clock.monotonic() == begun

    simulate_cluster(work)


def test_a_loop_acknowledges_each_message_when_it_asks_for_the_next():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 100)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=10) as consumer:
            loop = Looping(consumer, clock)
            await clock.sleep(30)
            assert sorted(loop.seen) == list(range(100))
            await sent(cluster, 5, first=100)
            await clock.sleep(30)
            assert sorted(loop.seen) == list(range(105))
            await loop.end()
        async with pops(cluster) as consumer:
            assert await consumer.pop(poll_s=5) == ()

    simulate_cluster(work)


def test_without_auto_ack_the_application_acknowledges():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 6)
        clock = cluster.world.clock
        async with pops(cluster, auto_ack=False, invisible_s=10) as consumer:
            seen = []

            async def loop():
                async for message in consumer:
                    seen.append((int(message.body), message.reconsume_times))
                    if message.body != b"4" or message.reconsume_times:
                        await consumer.ack(message)

            task = asyncio.create_task(loop())
            await clock.sleep(40)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert seen == [*((number, 0) for number in range(6)), (4, 1)]
            assert not consumer._run.in_iterators

    simulate_cluster(work)


def test_a_loop_that_is_left_gives_its_message_to_the_next_one():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        async with pops(cluster) as consumer:
            with contextlib.suppress(ValueError):
                async for message in consumer:
                    if message.body == b"1":
                        raise ValueError
            seen = []
            async for message in consumer:
                seen.append(int(message.body))
                if len(seen) == 2:
                    break
            assert seen == [1, 2]

    simulate_cluster(work)


def test_what_nobody_took_comes_again_at_once_after_a_close():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 10)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=600) as consumer:
            taken = 0
            async for _ in consumer:
                taken += 1
                if taken == 4:
                    break
        begun = clock.monotonic()
        async with pops(cluster) as other:
            assert numbers(await popped(other, 7)) == [3, 4, 5, 6, 7, 8, 9]
        assert clock.monotonic() - begun < 5

    simulate_cluster(work)


def test_several_consumers_and_loops_share_one_queue():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 90)
        clock = cluster.world.clock
        async with pops(cluster, batch=4) as one, pops(cluster, batch=4) as two:
            loops = [Looping(one, clock, 1), Looping(one, clock, 1), Looping(two, clock, 1)]
            await clock.sleep(60)
            assert sorted(number for loop in loops for number in loop.seen) == list(range(90))
            assert all(loop.seen for loop in loops)
            for loop in loops:
                await loop.end()

    simulate_cluster(work)


def test_a_message_that_was_not_consumed_comes_again_later_each_time():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 2)
        clock = cluster.world.clock
        async with pops(cluster) as consumer:
            seen = []

            async def loop():
                async for message in consumer:
                    seen.append((int(message.body), message.reconsume_times, clock.monotonic()))
                    if message.body == b"1":
                        await consumer.nack(message)  # which are not acknowledged automatically then

            task = asyncio.create_task(loop())
            await clock.sleep(115)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            of_one = [(times, at) for number, times, at in seen if number == 1]
            assert [number for number, *_ in seen].count(0) == 1
            assert [times for times, _ in of_one] == [0, 1, 2, 3]
            waits = [after[1] - before[1] for before, after in itertools.pairwise(of_one)]
            assert waits == [pytest.approx(wait, abs=1.5) for wait in (10, 30, 60)]
            (last,) = await popped(consumer, 1)  # after 120 s
            await consumer.nack(last, delay_s=3)
            begun = clock.monotonic()
            await consumer.ack(*await popped(consumer, 1))
            assert clock.monotonic() - begun == pytest.approx(3, abs=1.5)

    simulate_cluster(work)


def test_a_changed_invisible_time_counts_from_now_and_gives_another_receipt():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 2)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=10) as consumer:
            one, two = await popped(consumer, 2)
            before = one.properties[POP_CK]
            await consumer.change_invisible_time(one, 60)
            await consumer.change_invisible_time(two, 60)
            assert one.properties[POP_CK] != before
            await consumer.ack(two)
            await clock.sleep(40)
            assert await consumer.pop(poll_s=1) == ()
            await clock.sleep(22)
            assert numbers(await consumer.pop(poll_s=1)) == [int(one.body)]

    simulate_cluster(work)


def test_long_work_is_renewed_until_it_is_acknowledged():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=10, renew_for_s=300) as consumer, pops(cluster) as other:
            messages = await popped(consumer, 3)
            for _ in range(12):
                await clock.sleep(10)
                assert await other.pop(poll_s=0) == ()
            await consumer.ack(*messages)
            await clock.sleep(60)
            assert await other.pop(poll_s=1) == ()

    simulate_cluster(work)


def test_renewals_end_with_their_time(caplog):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 1)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=10, renew_for_s=60) as consumer, pops(cluster) as other:
            await popped(consumer, 1)
            begun = clock.monotonic()
            while not await other.pop():
                assert clock.monotonic() - begun < 90
            assert 60 <= clock.monotonic() - begun <= 75
            assert not consumer._run.renewals._renewed

    with caplog.at_level(logging.WARNING, "gantrymq.client"):
        simulate_cluster(work)
    assert "is not finished after" in caplog.text


def test_a_message_is_acknowledged_while_it_is_renewed():
    """The acknowledgement is that of the last receipt, at any time."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 60)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=4, renew_for_s=600, batch=1) as consumer:
            for number in range(60):
                (message,) = await consumer.pop()
                await clock.sleep(1.5 + number / 20)
                await consumer.ack(message)
            await clock.sleep(20)
            assert await consumer.pop(poll_s=0) == ()

    simulate_cluster(work)


def test_a_loop_with_long_work_is_renewed():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 5)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=10, renew_for_s=3600) as consumer:
            loop = Looping(consumer, clock, 60)
            await clock.sleep(330)
            assert loop.seen == [0, 1, 2, 3, 4]
            await loop.end()

    simulate_cluster(work)


def test_without_renewal_what_waited_for_too_long_is_not_handed_out():
    """It belongs to another consumer by then, and is redelivered here with its count."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=10) as consumer:
            loop = Looping(consumer, clock, 7)
            await clock.sleep(80)
            assert list(zip(loop.seen, loop.times, strict=True)) == [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]
            await loop.end()

    simulate_cluster(work)


def test_acknowledgements_outlive_a_broker_that_is_busy():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        clock = cluster.world.clock
        async with pops(cluster, invisible_s=30) as consumer:
            refused, ack = [], consumer._run.calls.ack

            async def failing(receipts):
                if len(refused) < 3:
                    refused.append(clock.monotonic())
                    raise BrokerRefused(2, "busy", "broker-a")
                await ack(receipts)

            consumer._run.calls.ack = failing
            loop = Looping(consumer, clock)
            await clock.sleep(60)
            assert loop.seen == [0, 1, 2]
            assert [round(after - before, 1) for before, after in itertools.pairwise(refused)] == [1, 1]
            await loop.end()

    simulate_cluster(work)


def test_acknowledgements_gather_while_one_is_under_way():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 60)
        clock = cluster.world.clock
        async with pops(cluster) as consumer:
            told, ack = [], consumer._run.calls.ack

            async def slow(receipts):
                told.append(len(receipts))
                await clock.sleep(1)
                await ack(receipts)

            consumer._run.calls.ack = slow
            loop = Looping(consumer, clock, 0.1)
            await clock.sleep(15)
            assert sum(told) == 60
            assert len(told) < 10
            await loop.end()

    simulate_cluster(work)


@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
def test_only_what_the_expression_wants_comes(kind):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 10, tags="A")
        await sent(cluster, 10, first=10, tags="B")
        expression = "A || C" if kind == "TAG" else "TAGS = 'A'"
        async with pops(cluster, expression=expression, expression_type=kind) as consumer:
            messages = await popped(consumer, 10)
            assert numbers(messages) == list(range(10))
            await consumer.ack(*messages)
            assert await consumer.pop(poll_s=1) == ()

    simulate_cluster(work, settings={"enablePropertyFilter": True})


def test_tags_whose_hashes_are_equal_are_told_apart():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 2, tags="Aa")
        await sent(cluster, 2, first=2, tags="BB")  # the same hash
        async with pops(cluster, expression="BB", invisible_s=5) as consumer:
            messages = await popped(consumer, 2)
            assert numbers(messages) == [2, 3]
            await consumer.ack(*messages)
            await cluster.world.clock.sleep(20)
            assert await consumer.pop(poll_s=1) == ()  # the others are acknowledged

    simulate_cluster(work)


@pytest.mark.parametrize(("start", "expected"), [("first", [0, 1, 2, 3, 4, 5]), ("last", [2, 3, 4, 5])])
def test_where_a_new_group_begins(start, expected):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        async with pops(cluster, consume_from=start) as consumer:
            messages = await popped(consumer, 1)
            await sent(cluster, 3, first=3)
            assert numbers(messages + await popped(consumer, 3)) == expected

    simulate_cluster(work, settings={"initPopOffsetByCheckMsgInMem": False})


def test_in_order_a_queue_waits_until_all_is_acknowledged():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 6)
        clock = cluster.world.clock
        async with pops(cluster, orderly=True, batch=2, invisible_s=30) as consumer:
            one, two = await consumer.pop()
            assert numbers((one, two)) == [0, 1]
            assert await consumer.pop(poll_s=1) == ()
            await consumer.ack(one)
            assert await consumer.pop(poll_s=1) == ()
            await consumer.ack(two)
            again = await consumer.pop()
            assert numbers(again) == [2, 3]
            await clock.sleep(32)  # they were not acknowledged
            again = await consumer.pop()
            assert numbers(again) == [2, 3]
            assert {message.reconsume_times for message in again} == {1}
            await consumer.nack(again[0], 5)
            await consumer.ack(again[1])
            await clock.sleep(6)
            assert numbers(await consumer.pop())[0] == 2

    simulate_cluster(work)


def test_who_pops_takes_no_queue_from_members():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with (
            Client(cluster.namesrv, world=cluster.world) as client,
            client.consumer("pushed", TOPIC) as member,
            client.pop_consumer("pushed", TOPIC) as consumer,
        ):
            await member.wait_assigned()
            assert await consumer.pop(poll_s=1) == ()
            await cluster.world.clock.sleep(60)
            assert len([queue for queue in member.assignment if queue.topic == TOPIC]) == 4

    simulate_cluster(work)


def test_receipts_are_good_for_another_consumer_of_the_group():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 1)
        async with pops(cluster, invisible_s=5) as one, pops(cluster) as two:
            (message,) = await popped(one, 1)
            await two.ack(message)
            await cluster.world.clock.sleep(10)
            assert await two.pop(poll_s=1) == ()

    simulate_cluster(work)


def test_what_was_not_popped_is_not_acknowledged():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 1)
        async with pops(cluster) as consumer:
            async with Client(cluster.namesrv, world=cluster.world) as client, client.reader(TOPIC) as reader:
                (message,) = [each async for each in reader]
            with pytest.raises(ClientError, match=r"was not popped: it has no receipt \(POP_CK\)"):
                await consumer.ack(message)
            message.properties[POP_CK] = "1 2 3"
            with pytest.raises(ClientError, match="the receipt handle '1 2 3' cannot be read"):
                await consumer.ack(message)

    simulate_cluster(work)


def test_a_broker_without_pop_is_named_in_one_sentence():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with pops(cluster) as consumer:
            with pytest.raises(ClientError, match=r"broker broker-a \(.*\) does not support pop: .*gantrymq-pop; "):
                await consumer.pop()
            with pytest.raises(ClientError, match="does not support pop"):
                async for _ in consumer:
                    raise AssertionError

    simulate_cluster(work, settings={"plugins": "storage_memory,filter_tag,nameserver"})


def test_a_broker_that_knows_no_batches_is_told_one_by_one(monkeypatch):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 4)
        async with pops(cluster, invisible_s=5) as consumer:
            rpc, codes, send = consumer._started().rpc, [], consumer._started().rpc.send

            async def old(address, request, timeout_s):
                codes.append(request.code)
                if request.code == RequestCode.BATCH_ACK_MESSAGE:
                    request.code = 299  # an unknown group
                return await send(address, request, timeout_s)

            rpc.send = old
            await consumer.ack(*await popped(consumer, 4))
            await sent(cluster, 2)
            await consumer.ack(*await popped(consumer, 2))
            assert codes.count(RequestCode.BATCH_ACK_MESSAGE) == 1
            assert codes.count(RequestCode.ACK_MESSAGE) == 6
            await cluster.world.clock.sleep(10)
            assert await consumer.pop(poll_s=1) == ()

    simulate_cluster(work)


def test_options_out_of_bounds():
    for more in ({"invisible_s": 0.5}, {"poll_s": 0}, {"batch": 33}, {"renew_for_s": 0}, {"consume_from": "middle"}):
        (name,) = more
        with pytest.raises(InvalidParameter, match=f"{name} is .*; expected"):
            PopConsumer(GROUP, TOPIC, **more)

    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with pops(cluster) as consumer:
            for wrong in ({"max_count": 0}, {"poll_s": -1}, {"invisible_s": 0}):
                (name,) = wrong
                with pytest.raises(InvalidParameter, match=f"{name} is "):
                    await consumer.pop(**wrong)

    simulate_cluster(work)


def test_a_client_makes_them_and_a_namespace_stands_before_their_names():
    async def work(cluster):
        await cluster.create_topic(f"ns1%{TOPIC}", 1)
        async with Client(cluster.namesrv, world=cluster.world, namespace="ns1") as client:
            await client.producer("shop").send(Message(TOPIC, b"1"))
            await client.producer("shop2").send(Message(TOPIC, b"2"))
            consumer = client.pop_consumer(GROUP, TOPIC, consume_from="first", invisible_s=5)
            assert len(await popped(consumer, 2)) == 2
            await cluster.world.clock.sleep(7)
            again = await popped(consumer, 2)
            assert {message.topic for message in again} == {TOPIC}
            await consumer.ack(*again)
            await cluster.world.clock.sleep(10)
            assert await consumer.pop(poll_s=1) == ()

    simulate_cluster(work)


class Noting:
    """A hook that records its calls."""

    def __init__(self):
        self.begun, self.ended = [], []

    def before_consume(self, context):
        self.begun.append(int(context.messages[0].body))

    def after_consume(self, context):
        (message,) = context.messages
        self.ended.append((int(message.body), context.outcome, round(context.duration_s)))


def test_hooks_are_told_of_what_is_popped_until_it_is_settled():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 7)
        clock = cluster.world.clock
        outer, hook = Noting(), Noting()
        async with Client(cluster.namesrv, world=cluster.world, hooks=[outer]) as client:
            consumer = client.pop_consumer(GROUP, TOPIC, consume_from="first", hooks=[hook], invisible_s=20)
            one, two, three = await consumer.pop(3)
            assert hook.begun == [0, 1, 2]
            await clock.sleep(2)
            await consumer.ack(one)
            await consumer.nack(two)
            assert hook.ended == [(0, ConsumeOutcome.SUCCESS, 2), (1, ConsumeOutcome.FAILED, 2)]
            await clock.sleep(20)
            await consumer.ack(three)  # too late
            async for message in consumer:
                if message.body == b"5":
                    break
                await clock.sleep(1)
            assert (2, ConsumeOutcome.TIME_OUT, 22) in hook.ended
            assert (3, ConsumeOutcome.SUCCESS, 1) in hook.ended
            assert (5, ConsumeOutcome.GIVEN_BACK, 0) in hook.ended
            (last,) = await consumer.pop()
        assert hook.ended[-1] == (int(last.body), ConsumeOutcome.GIVEN_BACK, 0)
        assert sorted(hook.begun) == sorted(number for number, *_ in hook.ended)
        assert outer.ended == hook.ended

    simulate_cluster(work)


def test_hooks_forget_what_the_application_left():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        clock = cluster.world.clock
        hook = Noting()
        async with pops(cluster, hooks=[hook], invisible_s=1) as consumer:
            for start in range(0, 2200, 20):
                await sent(cluster, 20, first=start)
                await consumer.pop(20)
                await clock.sleep(0.1)
            assert len(consumer._run._reported) <= 1100

    simulate_cluster(work)
