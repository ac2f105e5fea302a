"""The lite pull consumer with an in-memory broker, on a virtual clock."""

import asyncio
import contextlib

import pytest

from gantrymq.client import Client, ClientError, InvalidParameter, LitePullConsumer, MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"
GROUP = "billing"


@contextlib.asynccontextmanager
async def lite(cluster, topics=None, instance_name="DEFAULT", **more):
    async with Client(cluster.namesrv, world=cluster.world, instance_name=instance_name) as client:
        yield client.lite_pull(GROUP, topics, **{"consume_from": "first", "allocation": "AVG", **more})


async def sent(cluster, count, topic=TOPIC, first=0, **more):
    for number in range(first, first + count):
        await cluster.send(topic, f"{number}".encode(), **more)


async def polled(consumer, count):
    """The bodies of *count* messages and more, as many as the last poll had."""
    found = []
    while len(found) < count:
        messages = await consumer.poll(60)
        assert messages, f"{len(found)} of {count}"
        found += [int(message.body) for message in messages]
    return found


async def committed(cluster, topic=TOPIC):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.reader(topic, group=GROUP) as reader:
        return [await reader.committed(queue) for queue in await reader.queues()]


def test_what_is_subscribed_to_is_polled_and_the_next_member_goes_on_behind():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 100)
        async with lite(cluster) as consumer:
            await consumer.subscribe(TOPIC)
            assert sorted(await polled(consumer, 100)) == list(range(100))
            assert await consumer.poll(0.1) == ()
        assert sum(await committed(cluster)) == 100
        async with lite(cluster, TOPIC) as consumer:
            await sent(cluster, 5, first=100)
            assert sorted(await polled(consumer, 5)) == list(range(100, 105))

    simulate_cluster(work)


def test_a_poll_waits_for_the_first_message_and_no_longer_than_it_may():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        clock = cluster.world.clock
        async with lite(cluster, TOPIC) as consumer:
            await consumer.wait_assigned()
            begun = clock.monotonic()
            assert await consumer.poll(3) == ()
            assert clock.monotonic() - begun == pytest.approx(3)
            assert await consumer.poll(0) == ()
            assert clock.monotonic() - begun == pytest.approx(3)
            waiting = asyncio.create_task(consumer.poll(60))
            await clock.sleep(5)
            await cluster.send(TOPIC, b"1")
            assert [message.body for message in await waiting] == [b"1"]
            assert clock.monotonic() - begun < 8.5
            assert not consumer._run.deliveries._waiters  # no waiter is left

    simulate_cluster(work)


def test_a_poll_returns_messages_of_one_queue_up_to_its_number():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        await sent(cluster, 100)
        async with lite(cluster, TOPIC, pull_batch=32) as consumer:
            await consumer.wait_assigned()
            await cluster.world.clock.sleep(1)
            messages = await consumer.poll(max_count=7)
            assert len(messages) == 7 and len({message.queue_id for message in messages}) == 1
            assert [message.queue_offset for message in messages] == list(range(7))
            with pytest.raises(InvalidParameter, match="max_count is 0; expected 1 to 1024"):
                await consumer.poll(max_count=0)
            with pytest.raises(InvalidParameter, match="timeout_s is -1; expected 0 or more"):
                await consumer.poll(-1)

    simulate_cluster(work)


def test_what_was_polled_last_is_not_stored_by_itself():
    """A message is consumed at the next poll; if the consumer dies before, it is delivered again."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 10)
        async with lite(cluster, TOPIC) as consumer:
            await consumer.poll(max_count=4)
            await cluster.world.clock.sleep(20)
            assert await committed(cluster) == [0]
            await consumer.poll(max_count=3)
            await cluster.world.clock.sleep(6)
            assert await committed(cluster) == [4]
        assert await committed(cluster) == [4]
        async with lite(cluster, TOPIC) as consumer:
            assert await polled(consumer, 6) == [4, 5, 6, 7, 8, 9]

    simulate_cluster(work)


def test_without_auto_commit_the_progress_is_stored_by_commit_alone():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 30)
        async with lite(cluster, TOPIC, auto_commit=False) as consumer:
            for _ in range(3):
                await consumer.poll(max_count=5)
                await cluster.world.clock.sleep(20)
            assert await committed(cluster) == [0]
            await consumer.commit()
            assert await committed(cluster) == [15]
            (queue,) = consumer.assignment
            assert await consumer.committed(queue) == 15
            await consumer.poll(max_count=5)
            await consumer.poll(max_count=5)
        assert await committed(cluster) == [15]

    simulate_cluster(work)


def test_offsets_are_committed_by_name_within_the_queue():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 10)
        async with lite(cluster, auto_commit=False) as consumer:
            (queue,) = await consumer.queues(TOPIC)
            with pytest.raises(ClientError, match=r"is not assigned to this consumer of billing, which has 0 queues"):
                await consumer.commit({queue: 3})
            await consumer.assign([queue])
            await consumer.commit({queue: 3})
            assert await consumer.committed(queue) == 3
            for offset in (-1, 11):
                with pytest.raises(InvalidParameter, match=f"offset {offset} cannot be committed: .* ends at 10"):
                    await consumer.commit({queue: offset})

    simulate_cluster(work)


def test_a_commit_that_is_not_stored_raises():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 10)
        async with lite(cluster, TOPIC, auto_commit=False) as consumer:
            await consumer.poll()
            await cluster.server.stop()
            with pytest.raises(ClientError):
                await consumer.commit()
            await consumer.close(timeout_s=1)

    simulate_cluster(work)


def test_seeking_forgets_what_was_pulled():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 200)
        async with lite(cluster, TOPIC) as consumer:
            (queue,) = await consumer.wait_assigned()
            assert [int(m.body) for m in await consumer.poll(max_count=2)] == [0, 1]
            await cluster.world.clock.sleep(1)
            assert consumer._run.process_queues[queue].count == 200
            await consumer.seek(queue, 150)
            assert consumer.position(queue) == 150
            assert [int(m.body) for m in await consumer.poll(max_count=3)] == [150, 151, 152]
            await consumer.seek_to_begin(queue)
            assert [int(m.body) for m in await consumer.poll(max_count=1)] == [0]
            await consumer.seek_to_end(queue)
            assert await consumer.poll(1) == ()
            await sent(cluster, 1, first=200)
            assert [int(m.body) for m in await consumer.poll(10)] == [200]
            await cluster.world.clock.sleep(1)
            at_ms = cluster.world.clock.now_ms()
            await sent(cluster, 1, first=201)
            await consumer.seek(queue, await consumer.offset_for_timestamp(queue, at_ms))
            assert [int(m.body) for m in await consumer.poll(10)] == [201]

    simulate_cluster(work)


def test_after_a_seek_the_progress_is_where_it_went():
    """Also for messages polled before the seek, which are ignored."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 100)
        async with lite(cluster, TOPIC, auto_commit=False) as consumer:
            (queue,) = await consumer.wait_assigned()
            await consumer.poll(max_count=10)
            await consumer.seek(queue, 3)
            await consumer.commit()
            assert await consumer.committed(queue) == 3

    simulate_cluster(work)


def test_a_seek_while_a_pull_is_held_counts_at_once():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 5)
        clock = cluster.world.clock
        async with lite(cluster, TOPIC) as consumer:
            (queue,) = await consumer.wait_assigned()
            await polled(consumer, 5)
            await clock.sleep(2)  # its pull is held at the end of the queue
            begun = clock.monotonic()
            await consumer.seek(queue, 2)
            assert await polled(consumer, 3) == [2, 3, 4]
            assert clock.monotonic() - begun < 0.5

    simulate_cluster(work)


def test_what_cannot_be_sought():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 5)
        async with lite(cluster) as consumer:
            (queue,) = await consumer.queues(TOPIC)
            for move in (consumer.seek(queue, 0), consumer.seek_to_begin(queue), consumer.seek_to_end(queue)):
                with pytest.raises(ClientError, match="is not assigned to this consumer"):
                    await move
            with pytest.raises(ClientError, match="is not assigned to this consumer"):
                consumer.position(queue)
            await consumer.assign([queue])
            for offset in (-1, 6):
                with pytest.raises(InvalidParameter, match=f"cannot seek to offset {offset}: .* has 0 to 5"):
                    await consumer.seek(queue, offset)
            assert await polled(consumer, 5) == [0, 1, 2, 3, 4]

    simulate_cluster(work)


def test_assigned_queues_are_read_and_others_are_not():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 40)
        async with lite(cluster) as consumer:
            with pytest.raises(ClientError, match="has nothing to poll; subscribe or assign first"):
                await consumer.poll()
            queues = await consumer.queues(TOPIC)
            await consumer.assign(queues[:2])
            assert consumer.assignment == queues[:2]
            assert len(await polled(consumer, 20)) == 20
            assert await consumer.poll(1) == ()
            await consumer.assign(queues[1:3])  # the second one keeps its position
            assert len(await polled(consumer, 10)) == 10
            assert await consumer.poll(1) == ()
            await consumer.assign([])
            assert consumer.assignment == ()
        assert await committed(cluster) == [10, 10, 10, 0]

    simulate_cluster(work)


def test_a_consumer_either_subscribes_or_assigns():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with lite(cluster, TOPIC) as consumer:
            with pytest.raises(ClientError, match="has subscribed to topics; a consumer either subscribes or assigns"):
                await consumer.assign(await consumer.queues(TOPIC))
        async with lite(cluster) as consumer:
            await consumer.assign(await consumer.queues(TOPIC))
            with pytest.raises(ClientError, match="has assigned queues; a consumer either"):
                await consumer.subscribe(TOPIC)

    simulate_cluster(work)


def test_where_nothing_is_known_of_a_queue_nothing_is_assigned():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with lite(cluster) as consumer:
            queues = await consumer.queues(TOPIC)
            with pytest.raises(ClientError, match="broker away has no address"):
                await consumer.assign([queues[0], MessageQueue(TOPIC, "away", 0)])
            assert consumer.assignment == ()
            await consumer.subscribe(TOPIC)  # allowed, because no queues are assigned

    simulate_cluster(work)


def test_who_assigns_takes_no_queue_from_members():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with (
            Client(cluster.namesrv, world=cluster.world) as client,
            client.consumer(GROUP, TOPIC, consume_from="first") as member,
            lite(cluster, auto_commit=False) as consumer,
        ):
            await consumer.assign(await consumer.queues(TOPIC))
            await sent(cluster, 8)
            assert len(await polled(consumer, 8)) == 8
            await cluster.world.clock.sleep(60)
            assert len([queue for queue in member.assignment if queue.topic == TOPIC]) == 4

    simulate_cluster(work)


def test_members_share_the_queues_and_take_over_what_is_left():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 400)
        changes = []
        async with lite(cluster, TOPIC, on_rebalance=lambda *what: changes.append(what)) as one:
            await one.wait_assigned()
            first = await polled(one, 40)
            async with Client(cluster.namesrv, world=cluster.world) as client, client.consumer(GROUP, TOPIC) as pushed:
                await cluster.world.clock.sleep(30)
                assert len(one.assignment) == 2
                assert len([queue for queue in pushed.assignment if queue.topic == TOPIC]) == 2
            await cluster.world.clock.sleep(30)
            assert len(one.assignment) == 4
            seen = []
            while set(first + seen) != set(range(400)):
                seen += await polled(one, 1)
            assert len(first + seen) - 400 <= 32  # the last poll before two queues went, at most
            assert [(len(taken), len(gone)) for taken, gone in changes] == [(4, 0), (0, 2), (2, 0)]

    simulate_cluster(work)


def test_what_a_member_had_polled_and_not_consumed_is_the_next_ones():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 10)
        async with lite(cluster, TOPIC) as one:
            assert [int(m.body) for m in await one.poll(max_count=3)] == [0, 1, 2]
            await one.poll(max_count=3)
        async with lite(cluster, TOPIC) as two:
            assert await polled(two, 7) == [3, 4, 5, 6, 7, 8, 9]

    simulate_cluster(work)


def test_expressions_of_subscriptions_and_assignments():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 10, tags="A")
        await sent(cluster, 10, first=10, tags="B")
        async with lite(cluster, TOPIC, expression="A", auto_commit=False) as consumer:
            assert sorted(await polled(consumer, 10)) == list(range(10))
            assert await consumer.poll(1) == ()
        async with lite(cluster) as consumer:
            await consumer.assign(await consumer.queues(TOPIC), expression="TAGS = 'B'", expression_type="SQL92")
            assert sorted(await polled(consumer, 10)) == list(range(10, 20))

    simulate_cluster(work, settings={"enablePropertyFilter": True})


def test_paused_queues_are_not_pulled():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        clock = cluster.world.clock
        async with lite(cluster, TOPIC) as consumer:
            one, two = await consumer.wait_assigned()
            consumer.pause(one)
            await clock.sleep(20)  # the held pull has ended
            await sent(cluster, 20)
            await clock.sleep(5)
            assert {message.queue_id for message in [*await consumer.poll(), *await consumer.poll(1)]} == {two.queue_id}
            consumer.resume()
            assert {message.queue_id for message in await consumer.poll()} == {one.queue_id}
            consumer.pause()
            await clock.sleep(20)
            await sent(cluster, 4, first=20)
            assert await consumer.poll(5) == ()
            consumer.resume(one, two)
            assert len(await polled(consumer, 4)) == 4

    simulate_cluster(work)


def test_a_topic_is_left_at_once():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await cluster.create_topic("Other", 1)
        await sent(cluster, 4)
        async with lite(cluster, {TOPIC: "*", "Other": "*"}) as consumer:
            assert len(await consumer.wait_assigned()) == 5
            await cluster.world.clock.sleep(1)
            await consumer.unsubscribe(TOPIC)
            await consumer.unsubscribe(TOPIC)
            assert [queue.topic for queue in consumer.assignment] == ["Other"]
            assert await consumer.poll(1) == ()

    simulate_cluster(work)


def test_changed_queues_of_a_topic_are_told():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        told = []
        async with lite(cluster) as consumer:
            now = await consumer.on_queues_changed(TOPIC, lambda topic, queues: told.append((topic, len(queues))))
            assert len(now) == 2
            await cluster.world.clock.sleep(61)
            assert told == []
            cluster.broker.topics.put(TopicConfig(TOPIC, read_queues=5, write_queues=5))
            await cluster.world.clock.sleep(61)
            assert told == [(TOPIC, 5)]

    simulate_cluster(work)


def test_a_loop_polls_one_by_one_until_the_consumer_is_closed():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 10)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            consumer = client.lite_pull(GROUP, TOPIC, consume_from="first", auto_commit=False)
            seen = []

            async def loop():
                async for message in consumer:
                    seen.append(int(message.body))
                    if len(seen) == 4:
                        await consumer.commit()

            task = asyncio.create_task(loop())
            await cluster.world.clock.sleep(5)
            await consumer.close()
            await task
            assert seen == list(range(10))
        assert await committed(cluster) == [4]

    simulate_cluster(work)


def test_who_polls_when_it_is_closed_gets_nothing():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with lite(cluster, TOPIC) as consumer:
            await consumer.wait_assigned()
            waiting = asyncio.create_task(consumer.poll(600))
            await cluster.world.clock.sleep(1)
            await consumer.close()
            assert await waiting == ()
            with pytest.raises(ClientError, match="is closed"):
                await consumer.poll()

    simulate_cluster(work)


def test_a_cancelled_poll_takes_nothing():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        clock = cluster.world.clock
        async with lite(cluster, TOPIC) as consumer:
            await consumer.wait_assigned()
            for _ in range(20):
                waiting = asyncio.create_task(consumer.poll(60))
                await clock.sleep(0.1)
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
            assert not consumer._run.deliveries._waiters
            await sent(cluster, 3)
            assert await polled(consumer, 3) == [0, 1, 2]

    simulate_cluster(work)


def test_a_full_queue_that_nobody_polls_keeps_what_it_has():
    """It is not assigned again without pulls: its messages would be delivered twice."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 100)
        async with lite(cluster, TOPIC, max_queue_messages=10, pull_batch=32) as consumer:
            (queue,) = await consumer.wait_assigned()
            seen = [int(message.body) for message in await consumer.poll(max_count=5)]
            held = consumer._run.process_queues[queue]
            await cluster.world.clock.sleep(600)
            assert consumer._run.process_queues[queue] is held
            assert held.count <= 10 + 32
            assert seen + await polled(consumer, 95) == list(range(100))

    simulate_cluster(work)


def test_broadcasting_consumers_keep_their_own_progress():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 6)
        for _ in range(2):
            async with lite(cluster, TOPIC, broadcasting=True, instance_name="one", offsets_folder="/o") as consumer:
                (queue,) = await consumer.wait_assigned()
                found = [int(message.body) for message in await consumer.poll(max_count=3)]
                await consumer.commit()
                assert await consumer.committed(queue) == found[-1] + 1
        assert found == [3, 4, 5]
        assert await committed(cluster) == [0]  # the brokers do not know the group

    simulate_cluster(work)


@pytest.mark.parametrize("option", ["orderly", "max_tries", "consume_timeout_s", "suspend_s"])
def test_options_that_only_a_consumer_has(option):
    with pytest.raises(InvalidParameter, match=f"{option} is not an option of a lite pull consumer"):
        LitePullConsumer(GROUP, **{option: 1})


def test_one_client_has_one_member_of_a_group():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            client.consumer(GROUP, TOPIC)
            with pytest.raises(ClientError, match="billing is already in use"):
                client.lite_pull(GROUP, TOPIC)
            consumer = client.lite_pull(GROUP)
            with pytest.raises(ClientError, match="billing is already in use"):
                await consumer.subscribe(TOPIC)
            await consumer.assign(await consumer.queues(TOPIC))  # no member

    simulate_cluster(work)


def test_a_strategy_is_needed_for_topics_and_not_for_queues_of_ones_own():
    with pytest.raises(ClientError, match="NONE"):
        LitePullConsumer(GROUP, TOPIC, allocation="NONE")

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        async with lite(cluster, allocation="NONE") as consumer:
            with pytest.raises(ClientError, match="NONE"):
                await consumer.subscribe(TOPIC)
            await consumer.assign(await consumer.queues(TOPIC))
            assert await polled(consumer, 3) == [0, 1, 2]

    simulate_cluster(work)
