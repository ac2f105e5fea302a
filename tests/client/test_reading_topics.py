"""Iteration over topics by `Reader`, with an in-memory broker on a virtual clock."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest

from gantrymq.client import Client, ClientError, InvalidParameter, Reader
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"


@asynccontextmanager
async def reader(cluster, topic=TOPIC, **more):
    async with Client(cluster.namesrv, world=cluster.world) as client:
        yield client.reader(topic, **more)


async def sent(cluster, count, first=0, **more):
    for number in range(first, first + count):
        await cluster.send(TOPIC, f"{number}".encode(), **more)


async def bodies(stream):
    return sorted([int(message.body) async for message in stream])


def test_a_loop_ends_where_the_topic_ended_when_it_began():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 100)
        async with reader(cluster) as r:
            found = []
            async for message in r:
                found.append((message.queue_id, message.queue_offset))
                await sent(cluster, 1, first=1000)  # one more message for each: it would never end
            assert sorted(found) == [(queue, offset) for queue in range(4) for offset in range(25)]
            assert len(await bodies(r)) == 200  # each loop starts again

    simulate_cluster(work)


@pytest.mark.parametrize(
    ("start", "expected"), [("first", range(20)), ("last", ()), (0, range(20)), ("a time", range(8, 20))]
)
def test_where_a_loop_begins(start, expected):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 8)
        await cluster.world.clock.sleep(10)
        at_ms = cluster.world.clock.now_ms()
        await sent(cluster, 12, first=8)
        async with reader(cluster, start=at_ms if start == "a time" else start) as r:
            assert await bodies(r) == list(expected)

    simulate_cluster(work)


def test_the_next_reader_goes_on_where_the_last_one_stopped():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 40)
        async with reader(cluster) as r:
            seen = []
            async for message in r:
                seen.append(int(message.body))
                if len(seen) == 17:
                    break
            places = r.positions
        assert sorted(places.values()) == [0, 0, 7, 10]
        async with reader(cluster, start=places) as r:
            seen += [int(message.body) async for message in r]
        assert sorted(seen) == list(range(40))

    simulate_cluster(work)


def test_a_loop_that_follows_gets_what_comes_also_in_new_queues():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        await sent(cluster, 3)
        clock = cluster.world.clock
        async with reader(cluster, start="last", follow=True) as r:
            seen = []

            async def loop():
                async for message in r:
                    seen.append(int(message.body))

            task = asyncio.create_task(loop())
            await clock.sleep(1)
            await sent(cluster, 5, first=10)
            await clock.sleep(1)
            assert sorted(seen) == [10, 11, 12, 13, 14]
            cluster.broker.topics.put(TopicConfig(TOPIC, read_queues=4, write_queues=4))
            await cluster.put(TOPIC, b"20", queue_id=3)
            await clock.sleep(40)
            assert seen[5:] == [20]
            await r.close()  # the loop ends with its reader
            await task

    simulate_cluster(work)


def test_a_loop_that_stops_reading_stops_pulling():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        await sent(cluster, 2000)
        async with reader(cluster, follow=True) as r, aclosing(aiter(r)) as loop:
            await anext(loop)
            await cluster.world.clock.sleep(60)
            (following,) = r._following
            assert len(following._arrived) <= 257

    simulate_cluster(work)


def test_only_what_the_expression_wants_comes():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        await sent(cluster, 10, tags="A")
        await sent(cluster, 10, first=10, tags="B")
        async with reader(cluster, expression="B") as r:
            assert await bodies(r) == list(range(10, 20))
            found = []
            for queue in await r.queues():
                found += [int(message.body) async for message in r.read(queue, 0, expression="A")]
            assert sorted(found) == list(range(10))
        async with reader(cluster, expression="TAGS = 'A'", expression_type="SQL92") as r:
            assert await bodies(r) == list(range(10))

    simulate_cluster(work, settings={"enablePropertyFilter": True})


def test_one_queue_from_an_offset_to_an_end_or_on_and_on():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 50)
        async with reader(cluster) as r:
            (queue,) = await r.queues()
            assert await bodies(r.read(queue, 10)) == list(range(10, 50))
            assert await bodies(r.read(queue, 10, end=13)) == [10, 11, 12]
            async with aclosing(r.read(queue, 49, follow=True)) as stream:
                assert (await anext(stream)).body == b"49"
                await sent(cluster, 1, first=50)
                assert (await anext(stream)).body == b"50"
            with pytest.raises(InvalidParameter, match="end=3 and follow=True exclude each other"):
                r.read(queue, 0, end=3, follow=True)

    simulate_cluster(work)


def test_a_reader_disturbs_no_group():
    """Members keep their queues and progress while a reader with their group's name reads."""

    async def work(cluster):
        await cluster.create_topic(TOPIC)
        changes = []
        async with (
            Client(cluster.namesrv, world=cluster.world) as client,
            client.consumer(
                "billing", TOPIC, consume_from="first", on_rebalance=lambda *what: changes.append(what)
            ) as member,
        ):
            await member.wait_assigned()
            await cluster.world.clock.sleep(30)  # its retry topic as well
            before, made = member.assignment, len(changes)
            await sent(cluster, 8)
            async with reader(cluster, group="billing") as r, reader(cluster) as other:
                assert await bodies(r) == await bodies(other) == list(range(8))
                await cluster.world.clock.sleep(60)
                assert len(before) == 5
                assert (member.assignment, len(changes)) == (before, made)
                assert await r.committed(before[1]) == 0

    simulate_cluster(work)


def test_readers_of_one_client_are_many_and_have_no_offsets_without_a_group():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await sent(cluster, 3)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            one, two, named = client.reader(TOPIC), client.reader(TOPIC), client.reader(TOPIC, group="mine")
            assert await bodies(one) == await bodies(two) == [0, 1, 2]
            (queue,) = await one.queues()
            with pytest.raises(ClientError, match="cannot commit offsets; create it with group='my_group'"):
                await one.commit(queue, 1)
            with pytest.raises(ClientError, match="a reader without a group"):
                await one.committed(queue)
            await named.commit(queue, 2)  # the group is unknown to the broker
            assert await named.committed(queue) == 2
            with pytest.raises(ClientError, match="created without a topic"):
                await client.reader().queues()

    simulate_cluster(work)


@pytest.mark.parametrize("start", ["begin", -1, True, None])
def test_a_start_that_is_none(start):
    with pytest.raises(InvalidParameter, match="expected 'first', 'last', milliseconds"):
        Reader(TOPIC, start=start)
