"""The consumer of a group with an in-memory broker, on a virtual clock."""

import asyncio
import contextlib
import itertools
import logging

import pytest

from gantrymq.client import (
    CallTimeout,
    Client,
    ClientError,
    Consumer,
    InvalidParameter,
    Message,
    ReconsumeLater,
    TransactionState,
)
from gantrymq.model.queue import MessageQueue
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"


@contextlib.asynccontextmanager
async def consumer(cluster, group="billing", topics=TOPIC, instance_name="DEFAULT", **more):
    async with Client(cluster.namesrv, world=cluster.world, instance_name=instance_name) as client:
        yield client.consumer(group, topics, **{"consume_from": "first", **more})


async def sent(cluster, count, topic=TOPIC, first=0, **more):
    for number in range(first, first + count):
        await cluster.send(topic, f"{number}".encode(), **more)


async def some(stream, count, within_s=600):
    """The bodies of *count* messages, each acknowledged."""
    found = []
    async for message in stream:
        found.append(int(message.body))
        if len(found) == count:
            break
    return found


async def taken(stream, count):
    """Take *count* messages and leave them in flight."""
    found = []
    async for message in stream:
        found.append(message)
        if len(found) == count:
            break
    return found


async def all_of(member, count):
    """As `some`, the last one acknowledged as well."""
    found, done = [], asyncio.Event()

    async def handle(message):
        found.append(int(message.body))
        if len(found) >= count:
            done.set()

    running = asyncio.create_task(member.run(handle))
    await done.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return found


async def dead_letters(cluster, group="billing"):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.reader(group="letters") as reader:
        (queue,) = await reader.queues(f"%DLQ%{group}")
        return [int(message.body) for message in (await reader.pull(queue, 0)).messages]


def test_every_message_comes_once_and_the_next_member_goes_on_behind():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 100)
        async with consumer(cluster) as member:
            assert sorted(await all_of(member, 100)) == list(range(100))
        async with consumer(cluster) as member:
            await member.wait_assigned()
            await sent(cluster, 5, first=100)
            assert sorted(await all_of(member, 5)) == [100, 101, 102, 103, 104]

    simulate_cluster(work)


def test_the_first_message_of_a_lone_member_comes_at_once():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 1)
        begun = cluster.world.clock.monotonic()
        async with consumer(cluster) as member:
            assert await some(member, 1) == [0]
            assert cluster.world.clock.monotonic() - begun < 0.5

    simulate_cluster(work)


def test_a_loop_that_is_left_gives_its_message_back():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        async with consumer(cluster) as member:
            assert await some(member, 2) == [0, 1]
            with contextlib.suppress(ValueError):
                async for message in member:
                    assert message.body == b"1"
                    raise ValueError
            assert await some(member, 2) == [1, 2]
        async with consumer(cluster) as member:
            assert await some(member, 1) == [2]

    simulate_cluster(work)


def test_several_loops_share_the_messages():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 60)
        async with consumer(cluster) as member:
            seen = [[], [], []]

            async def loop(mine):
                async for message in member:
                    mine.append(int(message.body))
                    await cluster.world.clock.sleep(1)

            loops = [asyncio.create_task(loop(mine)) for mine in seen]
            await cluster.world.clock.sleep(60)
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            assert sorted(seen[0] + seen[1] + seen[2]) == list(range(60))
            assert all(mine for mine in seen)

    simulate_cluster(work)


def test_closing_does_not_wait_for_a_task_that_ended_with_a_message_in_hand():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 1)
        async with consumer(cluster) as member:
            stream = aiter(member)
            first = await asyncio.create_task(anext(stream))
        async with consumer(cluster) as member:
            assert await all_of(member, 1) == [int(first.body)]

    simulate_cluster(work)


def test_closing_waits_for_what_other_tasks_have_in_hand():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 10)
        seen = []
        async with consumer(cluster) as member:

            async def loop():
                async for message in member:
                    await cluster.world.clock.sleep(5)
                    seen.append(int(message.body))

            task = asyncio.create_task(loop())
            await cluster.world.clock.sleep(7)
            await member.close()
            await task
        assert seen == [0, 1]
        async with consumer(cluster) as after:
            assert await some(after, 1) == [2]

    simulate_cluster(work)


def test_closing_from_inside_the_loop_or_a_handler_does_not_wait_for_itself():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        async with consumer(cluster) as member:
            async for _ in member:
                await member.close()
        async with consumer(cluster) as member:
            await member.run(lambda_closing(member), concurrency=2)
        async with consumer(cluster) as after:  # neither was acknowledged by closing alone
            assert await some(after, 1) == [0]

    simulate_cluster(work)


def lambda_closing(member):
    async def handle(_):
        await member.close()
        raise RuntimeError("not consumed")

    return handle


def test_a_failed_message_comes_again_later_and_is_a_dead_letter_in_the_end():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 1)
        clock = cluster.world.clock
        async with consumer(cluster, max_tries=3) as member:
            tries = []

            async def handle(message):
                tries.append((message.topic, message.reconsume_times, clock.monotonic()))
                raise RuntimeError("no")

            running = asyncio.create_task(member.run(handle))
            await clock.sleep(300)
            running.cancel()
            assert [times for _, times, _ in tries] == [0, 1, 2, 3]
            assert {topic for topic, _, _ in tries} == {TOPIC}
            pauses = [after[2] - before[2] for before, after in itertools.pairwise(tries)]
            assert [round(pause) for pause in pauses] == [10, 30, 60]
            assert await dead_letters(cluster) == [0]
            assert await failures(cluster) == ["RuntimeError: no"]

    simulate_cluster(work)


@pytest.mark.parametrize(("level", "after_s"), [(1, 1), (2, 5), (5, 60)])
def test_a_handler_says_when_a_message_is_to_come_again(level, after_s):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 1)
        clock, times, done = cluster.world.clock, [], asyncio.Event()
        async with consumer(cluster) as member:

            async def handle(message):
                times.append(clock.monotonic())
                if not message.reconsume_times:
                    raise ReconsumeLater(level)
                done.set()

            running = asyncio.create_task(member.run(handle))
            await done.wait()
            assert round(times[1] - times[0]) == after_s
            running.cancel()

    simulate_cluster(work)


async def failures(cluster, group="billing"):
    """CONSUME_FAILURE of the dead letters of a group."""
    async with Client(cluster.namesrv, world=cluster.world) as client, client.reader(group="letters") as reader:
        (queue,) = await reader.queues(f"%DLQ%{group}")
        return [message.properties.get("CONSUME_FAILURE") for message in (await reader.pull(queue, 0)).messages]


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, "ValueError: the amount of order 0 is negative"),
        ({"failure_chars": 15}, "ValueError: the"),
        ({"failure_chars": 0}, None),
    ],
)
def test_a_dead_letter_has_the_exception_of_the_last_try(orderly, options, shown):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 1)
        done = asyncio.Event()
        async with consumer(cluster, orderly=orderly, max_tries=1, **options) as member:

            async def handle(message):
                if message.reconsume_times:
                    done.set()
                    raise ValueError(f"the amount of order\n{message.body.decode()} is negative")
                raise KeyError("the first try")

            running = asyncio.create_task(member.run(handle))
            await done.wait()
            await cluster.world.clock.sleep(2)
            assert await failures(cluster) == [shown]
            running.cancel()

    simulate_cluster(work)


@pytest.mark.parametrize(
    ("cause", "shown"), [(None, "rejected with delay level -1"), (KeyError("id"), "KeyError: 'id'")]
)
def test_a_dead_letter_of_a_handler_s_choice_says_so(cause, shown):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 1)
        done = asyncio.Event()
        async with consumer(cluster) as member:

            async def handle(message):
                done.set()
                raise ReconsumeLater(-1) from cause

            running = asyncio.create_task(member.run(handle))
            await done.wait()
            await cluster.world.clock.sleep(2)
            assert await failures(cluster) == [shown]
            running.cancel()

    simulate_cluster(work)


def test_a_message_below_level_zero_is_a_dead_letter_at_once():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 1)
        async with consumer(cluster, auto_ack=False) as member:
            async for message in member:
                assert await member.nack(message, -1)
                break
            await cluster.world.clock.sleep(1)
            assert await dead_letters(cluster) == [0]
            assert await failures(cluster) == ["rejected with delay level -1"]

    simulate_cluster(work)


def test_messages_are_acknowledged_one_by_one_in_any_order():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 6)
        async with consumer(cluster, auto_ack=False) as member:
            first = await taken(member, 6)
            for number in (5, 1, 0, 3):
                assert member.ack(first[number])
            assert not member.ack(first[0])
            assert await member.nack(first[3]) is False
            await member.commit()
            async with Client(cluster.namesrv, world=cluster.world) as client, client.reader(group="billing") as reader:
                (queue,) = await reader.queues(TOPIC)
                assert await reader.committed(queue) == 2
        async with consumer(cluster) as member:
            assert await some(member, 4) == [2, 3, 4, 5]

    simulate_cluster(work)


def test_only_a_consumer_without_auto_ack_takes_acknowledgements():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 1)
        async with consumer(cluster) as member:
            async for message in member:
                with pytest.raises(ClientError, match="auto_ack=False"):
                    member.ack(message)
                break

    simulate_cluster(work)


def test_batches_are_of_one_queue_and_a_handler_says_how_many_it_consumed():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 40)
        async with consumer(cluster) as member:
            seen = []
            async for batch in member.batches(8):
                assert len({message.queue_id for message in batch}) == 1 and len(batch) <= 8
                seen += [int(message.body) for message in batch]
                if len(seen) == 40:
                    break
            assert sorted(seen) == list(range(40))
            tried = {}

            async def handle(batch):
                for message in batch:
                    tried.setdefault(int(message.body), []).append(message.reconsume_times)
                return 1

            await member.commit()
            running = asyncio.create_task(member.run(handle, concurrency=1, batch_size=4))
            await sent(cluster, 8, first=100)
            await cluster.world.clock.sleep(3000)
            running.cancel()
            for number in range(100, 108):
                assert tried[number] == list(range(len(tried[number])))
            assert any(len(tries) > 1 for tries in tried.values())

    simulate_cluster(work)


def test_a_queue_keeps_its_order_though_messages_fail():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 3)
        await sent(cluster, 60)
        async with consumer(cluster, orderly=True) as member:
            seen, done = {}, []
            finished = asyncio.Event()

            async def handle(message):
                number = int(message.body)
                await cluster.world.clock.sleep(cluster.world.random.random() / 10)
                if cluster.world.random.random() < 0.2:
                    raise RuntimeError("again")
                seen.setdefault(message.queue_id, []).append(message.queue_offset)
                done.append(number)
                if len(done) == 60:
                    finished.set()

            running = asyncio.create_task(member.run(handle, concurrency=5))
            await finished.wait()
            running.cancel()
            assert sorted(done) == list(range(60))
            for offsets in seen.values():
                assert offsets == sorted(offsets)

    for seed in range(5):
        simulate_cluster(work, seed=seed)


def test_an_orderly_message_that_failed_waits_and_is_a_dead_letter_after_its_tries():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 2)
        clock, tries, done = cluster.world.clock, [], asyncio.Event()
        async with consumer(cluster, orderly=True, suspend_s=2.0, max_tries=2) as member:

            async def handle(message):
                tries.append((int(message.body), message.reconsume_times, clock.monotonic()))
                if message.body == b"0":
                    raise ReconsumeLater
                done.set()

            running = asyncio.create_task(member.run(handle, concurrency=3))
            await done.wait()
            assert [(body, times) for body, times, _ in tries] == [(0, 0), (0, 1), (0, 2), (1, 0)]
            assert round(tries[1][2] - tries[0][2], 1) == 2.0
            await clock.sleep(60)
            assert await dead_letters(cluster) == [0]
            running.cancel()

    simulate_cluster(work)


def test_two_orderly_members_never_hold_one_queue_together():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 4)
        await sent(cluster, 100)
        last, busy = {}, set()

        async def handle(message):
            assert message.queue_id not in busy
            busy.add(message.queue_id)
            await cluster.world.clock.sleep(0.2)
            busy.discard(message.queue_id)
            assert message.queue_offset == last.get(message.queue_id, -1) + 1
            last[message.queue_id] = message.queue_offset

        async with consumer(cluster, orderly=True, instance_name="one") as first:
            runs = [asyncio.create_task(first.run(handle))]
            await cluster.world.clock.sleep(1.1)
            async with consumer(cluster, orderly=True, instance_name="two") as second:
                runs.append(asyncio.create_task(second.run(handle)))
                await cluster.world.clock.sleep(60)
                assert abs(len(first.assignment) - len(second.assignment)) <= 1
                assert last == {0: 24, 1: 24, 2: 24, 3: 24}
                await first.close()
        await asyncio.gather(*runs)

    simulate_cluster(work)


def test_every_broadcasting_member_gets_every_message_and_remembers_in_a_file():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 10)
        async with (
            consumer(cluster, broadcasting=True, instance_name="one", offsets_folder="/offsets") as one,
            consumer(cluster, broadcasting=True, instance_name="two", offsets_folder="/offsets") as two,
        ):
            assert sorted(await all_of(one, 10)) == sorted(await all_of(two, 10)) == list(range(10))
        await sent(cluster, 3, first=10)
        async with consumer(cluster, broadcasting=True, instance_name="one", offsets_folder="/offsets") as again:
            assert sorted(await all_of(again, 3)) == [10, 11, 12]

    simulate_cluster(work)


def test_a_broadcast_message_that_failed_is_gone():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 2)
        seen = []

        async def handle(message):
            seen.append(int(message.body))
            raise RuntimeError("no")

        async with consumer(cluster, broadcasting=True, offsets_folder="/offsets") as member:
            running = asyncio.create_task(member.run(handle))
            await cluster.world.clock.sleep(60)
            running.cancel()
        assert seen == [0, 1]

    simulate_cluster(work)


@pytest.mark.parametrize("start", ["first", "last", "time"])
def test_a_new_group_begins_where_it_is_told_to(start):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 50)
        await cluster.world.clock.sleep(60)
        at = cluster.world.clock.now_ms()
        await sent(cluster, 3, first=50)
        begin = {"first": 0, "last": 53, "time": 50}[start]
        async with consumer(cluster, consume_from=at if start == "time" else start) as member:
            (queue, *_) = [queue for queue in await member.wait_assigned() if queue.topic == TOPIC]
            assert queue == MessageQueue(TOPIC, "broker-a", 0)
            await sent(cluster, 1, first=53)
            found = await some(member, 1)
            if start == "last":  # a broker answers 0 for an unknown group while the queue is young
                assert found in ([0], [begin])
            else:
                assert found == [begin] or found == [0]

    simulate_cluster(work)


def test_a_message_in_hand_for_too_long_is_given_to_the_broker():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 1)
        clock = cluster.world.clock
        async with consumer(cluster, consume_timeout_s=60) as member:
            seen = []

            async def handle(message):
                seen.append(message.reconsume_times)
                await clock.sleep(100 if message.reconsume_times == 0 else 1)

            running = asyncio.create_task(member.run(handle))
            await clock.sleep(300)
            running.cancel()
            assert seen == [0, 1]

    simulate_cluster(work)


def test_messages_that_nobody_acknowledges_in_time_are_given_to_the_broker():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        clock = cluster.world.clock
        async with consumer(cluster, auto_ack=False, consume_timeout_s=60) as member:
            first = await taken(member, 3)
            assert member.ack(first[0])
            await clock.sleep(50)
            assert member.ack(first[1])
            begun = clock.monotonic()
            (again,) = await taken(member, 1)
            assert (again.body, again.reconsume_times) == (b"2", 1)
            assert 20 <= clock.monotonic() - begun <= 30  # in flight for 10 s more; level 3 is 10 s
            assert not member.ack(first[2])
            assert await member.nack(first[2]) is False
            assert member.ack(again)
            await clock.sleep(120)
            async with Client(cluster.namesrv, world=cluster.world) as client, client.reader(group="billing") as reader:
                for topic in (TOPIC, "%RETRY%billing"):
                    (queue,) = await reader.queues(topic)
                    assert await reader.committed(queue) == await reader.max_offset(queue)

    simulate_cluster(work)


def test_a_message_that_cannot_be_given_to_the_broker_in_time_may_still_be_acknowledged():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 1)
        async with consumer(cluster, auto_ack=False, consume_timeout_s=30) as member:
            (message,) = await taken(member, 1)
            await cluster.server.stop()
            await cluster.world.clock.sleep(120)
            assert member.ack(message)

    simulate_cluster(work)


def test_no_more_is_held_than_the_settings_say():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 500)
        async with consumer(cluster, max_queue_messages=50, pull_batch=10) as member:
            await cluster.world.clock.sleep(30)
            (held,) = [held for queue, held in member._run.process_queues.items() if queue.topic == TOPIC]
            assert 50 < held.count <= 60
            assert await all_of(member, 500) == list(range(500))

    simulate_cluster(work)


def test_pausing_stops_pulls_and_resuming_goes_on():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        async with consumer(cluster) as member:
            queues = [queue for queue in await member.wait_assigned() if queue.topic == TOPIC]
            member.pause(queues[0])
            await cluster.world.clock.sleep(20)
            await sent(cluster, 10)
            assert len(await some(member, 5)) == 5
            got = asyncio.create_task(some(member, 2))
            await cluster.world.clock.sleep(30)
            assert not got.done()  # the last of the five was returned, there is no sixth
            member.resume(queues[0])
            await got

    simulate_cluster(work)


def test_subscriptions_change_while_it_runs():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        await cluster.create_topic("Refunds", 2)
        async with consumer(cluster) as member:
            await member.wait_assigned()
            await member.subscribe("Refunds", "red || blue")
            await cluster.world.clock.sleep(5)
            await sent(cluster, 1, topic="Refunds", first=1, tags="green")
            await sent(cluster, 1, topic="Refunds", first=2, tags="blue")
            assert await all_of(member, 1) == [2]
            await member.unsubscribe("Refunds")
            await cluster.world.clock.sleep(5)
            assert {queue.topic for queue in member.assignment} == {TOPIC, "%RETRY%billing"}

    simulate_cluster(work)


def test_a_topic_that_comes_later_is_consumed():
    async def work(cluster):
        async with consumer(cluster) as member:
            await cluster.world.clock.sleep(100)
            await cluster.create_topic(TOPIC)
            await sent(cluster, 4)
            assert sorted(await all_of(member, 4)) == [0, 1, 2, 3]
            with pytest.raises(CallTimeout):
                await consumer_of_nothing(cluster)

    simulate_cluster(work)


async def consumer_of_nothing(cluster):
    async with consumer(cluster, "others", "Nothing") as member:
        await member.wait_assigned(2)


def test_offsets_that_are_gone_or_beyond_the_end_are_left():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        async with consumer(cluster) as member:
            assert await all_of(member, 3) == [0, 1, 2]
            (held,) = [held for queue, held in member._run.process_queues.items() if queue.topic == TOPIC]
            held.next_offset = 1000
            await sent(cluster, 1, first=3)
            await cluster.world.clock.sleep(40)
            await sent(cluster, 1, first=4)
            received = await all_of(member, 1)
            if received == [3]:  # from a pull that was waiting when the offset was changed
                received = await all_of(member, 1)
            assert 4 in received

    simulate_cluster(work)


def test_closing_beside_a_broker_that_is_gone_takes_no_longer_than_said():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        await sent(cluster, 5)
        async with consumer(cluster) as member:
            assert len(await all_of(member, 5)) == 5
            await cluster.server.stop()
            begun = cluster.world.clock.monotonic()
            await cluster.world.clock.sleep(90)
            await member.close(timeout_s=1)
            assert cluster.world.clock.monotonic() - begun < 92

    simulate_cluster(work)


def test_a_group_shares_the_queues_and_a_graceful_leave_repeats_nothing():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 8)
        clock, chance = cluster.world.clock, cluster.world.random
        seen = {}
        going = {}

        async def handle(message):
            await clock.sleep(chance.random() / 20)
            number = int(message.body)
            seen[number] = seen.get(number, 0) + 1

        async def join(name):
            client = Client(cluster.namesrv, world=cluster.world, instance_name=name)
            await client.start()
            member = client.consumer("billing", TOPIC, consume_from="first")
            going[name] = (client, asyncio.create_task(member.run(handle, concurrency=4)))

        async def leave(name):
            client, run = going.pop(name)
            await client.close()
            await run

        await join("m0")
        count = 0
        for step in range(12):
            await sent(cluster, 20, first=count)
            count += 20
            await clock.sleep(5)
            before = sum(seen.values()) - len(seen)
            if step % 2 == 0:
                await join(f"m{step + 1}")
            else:
                await leave(sorted(going)[chance.randrange(len(going))])
                await clock.sleep(5)
                assert sum(seen.values()) - len(seen) == before
        await clock.sleep(60)
        assert sorted(seen) == list(range(count))
        for name in list(going):
            await leave(name)

    for seed in range(5):
        simulate_cluster(work, seed=seed)


def test_one_client_makes_all_over_one_set_of_connections():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            producer = client.producer("shop")
            await producer.send(Message(TOPIC, b"7"))
            member = client.consumer("billing", TOPIC, consume_from="first")
            assert await some(member, 1) == [7]
            assert len(await client.reader("readers").queues(TOPIC)) == 4
            assert (await client.admin.route(TOPIC)).queues
            with pytest.raises(ClientError, match="already in use"):
                client.consumer("billing", TOPIC)
        with pytest.raises(ClientError, match="is closed"):
            await producer.send(Message(TOPIC, b"8"))

    simulate_cluster(work)


def test_a_client_has_one_producer_of_a_group_and_gives_it_each_time():
    def check(message):
        return TransactionState.COMMIT

    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            for number in range(3):
                await client.producer("shop").send(Message(TOPIC, b"%d" % number))
            producer = client.producer("shop")
            assert client.producer("shop") is producer
            tuned = client.producer("tuned", retries=5)
            assert client.producer("tuned") is client.producer("tuned", retries=5) is tuned
            for wrong in (
                lambda: client.producer("tuned", retries=4),
                lambda: client.producer("shop", retries=4),
                lambda: client.transaction_producer("shop", check),
            ):
                with pytest.raises(ClientError, match="that was created with other options or as another class"):
                    wrong()
            deciding = client.transaction_producer("deciding", check)
            assert client.transaction_producer("deciding", check) is deciding
            with pytest.raises(ClientError, match="that was created with other options or as another class"):
                client.transaction_producer("deciding", lambda _: TransactionState.ROLLBACK)
            await producer.close()
            anew = client.producer("shop")
            assert anew is not producer
            assert (await anew.send(Message(TOPIC, b"3"))).ok
            member = client.consumer("billing", TOPIC, consume_from="first")
            assert sorted(await some(member, 4)) == [0, 1, 2, 3]
        async with client:
            assert client.producer("shop") is not anew

    simulate_cluster(work)


def test_batches_of_an_iterator_are_sent():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            sent = await client.producer("shop").send_batches(Message(TOPIC, b"%d" % number) for number in range(5))
            assert sum(len(result.message_ids) for result in sent) == 5

    simulate_cluster(work)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"consume_from": "middle"}, "'last', 'first' or milliseconds"),
        ({"pull_batch": 0}, "pull_batch is 0; expected 1 to 1024"),
        ({"max_span": 65536}, "max_span is 65536"),
        ({"threads": 3}, "a Consumer has no option threads"),
    ],
)
def test_a_setting_out_of_bounds_is_named(given, said):
    with pytest.raises(InvalidParameter, match=said):
        Consumer("g", "T", **given)


class Unreadable(Exception):
    """An exception without a text."""

    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (FileNotFoundError(2, "gone", "caf\udce9"), "FileNotFoundError: [Errno 2] gone: 'caf\\udce9'"),
        (ValueError("caf\udce9"), "ValueError: caf?"),
        (Unreadable(), "Unreadable: (its text cannot be read)"),
    ],
)
@pytest.mark.parametrize("orderly", [False, True])
def test_an_exception_whose_text_cannot_be_sent_ends_in_a_dead_letter(orderly, error, shown, caplog):
    # pytest-xdist cannot pass on a captured log line that is not UTF-8.
    caplog.set_level(logging.CRITICAL, logger="gantrymq")

    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 1)
        tries = []
        async with consumer(cluster, orderly=orderly, max_tries=1) as member:

            async def handle(message):
                tries.append(message.reconsume_times)
                raise error

            running = asyncio.create_task(member.run(handle))
            await cluster.world.clock.sleep(60)
            assert tries == [0, 1]
            assert await failures(cluster) == [shown]
            running.cancel()

    simulate_cluster(work)
