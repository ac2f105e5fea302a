"""Who consumed a message, if it was popped: in flight, acknowledged, popped again, and by whom."""

import contextlib

import pytest
from consumption_rig import GROUP, TOPIC, found_of, judged, send, verdict_of

from gantrymq.client import Client
from gantrymq_admin.consumption import Certainty, Reason, Stage
from gantrymq_testing.simulation import simulate_cluster

for each in ("storage_memory", "filter_tag", "pop"):
    pytest.importorskip(f"gantrymq_{each}")


@contextlib.asynccontextmanager
async def popping(cluster, **more):
    async with Client(cluster.namesrv, world=cluster.world) as client:
        options = {"consume_from": "first", "invisible_s": 60, **more}
        yield client.pop_consumer(GROUP, TOPIC, **options)


def test_popped_then_acknowledged():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with popping(cluster) as consumer:
            (popped,) = await consumer.pop()
            begun_ms = cluster.world.clock.now_ms()
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.HANDED_OUT, Certainty.CERTAIN)
            assert not found.facts.pop.acknowledged
            assert found.facts.pop.visible_ms == found.facts.pop.popped_ms + 60_000
            assert abs(found.facts.pop.popped_ms - begun_ms) < 1000
            await consumer.ack(popped)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.CONSUMED, Certainty.CERTAIN)
            assert found.facts.pop.acknowledged

    simulate_cluster(work)


def test_the_acknowledgement_is_found_after_the_broker_has_processed_it():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with popping(cluster) as consumer:
            for popped in await consumer.pop():
                await consumer.ack(popped)
            await cluster.world.clock.sleep(300)
        found = await verdict_of(cluster, message)
        assert found.reason is Reason.CONSUMED
        assert found.certainty is Certainty.CERTAIN

    simulate_cluster(work)


def test_an_extended_invisible_time_is_no_acknowledgement():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with popping(cluster) as consumer:
            (popped,) = await consumer.pop()
            await cluster.world.clock.sleep(1)
            await consumer.nack(popped, 600)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.HANDED_OUT, Certainty.CERTAIN)
            assert found.facts.pop.visible_ms - found.facts.pop.popped_ms == 600_000

    simulate_cluster(work)


def test_not_acknowledged_then_popped_again():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        message = await send(cluster)
        async with popping(cluster, invisible_s=10) as consumer:
            await consumer.pop()
            await cluster.world.clock.sleep(60)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.WAITING_RETRY, Certainty.LIKELY)
            assert (found.copy.stage, found.copy.popped, found.copy.failures) == (Stage.RETRY, True, 1)
            (again,) = await consumer.pop()
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.HANDED_OUT, Certainty.CERTAIN)
            await consumer.ack(again)
            found = await verdict_of(cluster, message)
            assert judged(found) == (Reason.CONSUMED, Certainty.CERTAIN)
            assert found.copy.popped
            asked = await found_of(cluster, again)
            assert asked.message.queue.topic == TOPIC

    simulate_cluster(work)


def test_not_popped_yet():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        await send(cluster)
        async with popping(cluster, batch=1) as consumer:
            await consumer.pop()
            message = await send(cluster)
            found = await verdict_of(cluster, message)
            assert found.reason is Reason.NOT_YET

    simulate_cluster(work)
