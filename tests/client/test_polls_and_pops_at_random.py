"""Members that poll or pop start and stop at random: every message is consumed, for any seed."""

import asyncio
import random
from importlib.util import find_spec

import pytest

from gantrymq.client import Client
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"
COUNT = 300
MEMBERS = 5


async def sending(cluster, rng):
    for number in range(COUNT):
        await cluster.send(TOPIC, b"%d" % number)
        await cluster.world.clock.sleep(rng.random())


async def members(done, member, clock, rng):
    """MEMBERS at a time, each for a random time, until everything is *done*."""
    running = set()
    while running or not done():
        while len(running) < MEMBERS and not done():
            running.add(asyncio.create_task(member()))
            await clock.sleep(rng.uniform(0, 10))
        finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in finished:
            task.result()


@pytest.mark.parametrize("seed", [1, 3])
def test_members_that_poll_beside_one_that_is_given_its_messages(seed):
    async def work(cluster):
        rng, clock, seen = random.Random(seed), cluster.world.clock, []
        await cluster.create_topic(TOPIC, 8)

        async def polling():
            end = clock.monotonic() + rng.uniform(20, 60)
            by_hand = rng.random() < 0.5
            async with Client(cluster.namesrv, world=cluster.world) as client:
                consumer = client.lite_pull("billing", TOPIC, auto_commit=not by_hand, consume_from="first")
                while clock.monotonic() < end:
                    messages = await consumer.poll(rng.uniform(0, 5), rng.randrange(1, 40))
                    await clock.sleep(rng.random())
                    seen.extend(int(message.body) for message in messages)
                    if by_hand:
                        await consumer.commit()

        async def given():
            async with Client(cluster.namesrv, world=cluster.world) as client:
                consumer = client.consumer("billing", TOPIC, consume_from="first")

                async def handle(message):
                    seen.append(int(message.body))

                running = asyncio.create_task(consumer.run(handle))
                await clock.sleep(rng.uniform(20, 60))
                await consumer.close()
                await running

        sender = asyncio.create_task(sending(cluster, rng))

        def member():
            return polling() if rng.random() < 0.7 else given()

        await members(lambda: set(seen) == set(range(COUNT)), member, clock, rng)
        await sender
        assert len(seen) < 1.6 * COUNT

    simulate_cluster(work, seed=seed)


@pytest.mark.skipif(not find_spec("gantrymq_pop"), reason="the broker's part is a plugin, gantrymq-pop")
@pytest.mark.parametrize("seed", range(4))
def test_members_that_pop(seed):
    async def work(cluster):
        rng, clock, seen = random.Random(seed), cluster.world.clock, []
        await cluster.create_topic(TOPIC, 2)

        async def popping():
            end = clock.monotonic() + rng.uniform(20, 60)
            options = {
                "batch": rng.randrange(1, 33),
                "invisible_s": rng.uniform(5, 30),
                "renew_for_s": rng.choice((None, 120)),
            }
            async with Client(cluster.namesrv, world=cluster.world) as client:
                consumer = client.pop_consumer("packing", TOPIC, consume_from="first", **options)
                while clock.monotonic() < end:
                    messages = await consumer.pop(poll_s=rng.uniform(0, 5))
                    await clock.sleep(rng.random())
                    for message in messages[1:]:
                        if rng.random() < 0.1:
                            await consumer.nack(message, rng.uniform(1, 10))
                        else:
                            seen.append(int(message.body))
                            await consumer.ack(message)
                    if messages and rng.random() < 0.9:  # otherwise its outcome is unknown
                        seen.append(int(messages[0].body))
                        await consumer.ack(messages[0])

        async def looping():
            end = clock.monotonic() + rng.uniform(20, 60)
            async with (
                Client(cluster.namesrv, world=cluster.world) as client,
                client.pop_consumer("packing", TOPIC, consume_from="first", invisible_s=10) as consumer,
            ):
                closing = asyncio.create_task(close_at(consumer, end))
                async for message in consumer:
                    await clock.sleep(rng.random() / 8)
                    seen.append(int(message.body))
                await closing

        async def close_at(consumer, end):
            await clock.sleep(end - clock.monotonic())
            await consumer.close()

        def member():
            return popping() if rng.random() < 0.7 else looping()

        sender = asyncio.create_task(sending(cluster, rng))
        await members(lambda: set(seen) == set(range(COUNT)), member, clock, rng)
        await sender
        assert len(seen) < 1.6 * COUNT

    simulate_cluster(work, seed=seed)
