"""Who consumed a message, with two brokers: one silent, one unreachable, and groups that differ."""

import asyncio
import random
from pathlib import Path

import pytest
from consumption_rig import GROUP, TOPIC, found_of, judged, member

from gantrymq.broker.server import BrokerServer
from gantrymq.client import Client, Message
from gantrymq.model.topic import TopicConfig
from gantrymq_admin.consumption import Certainty, Fact, Reason
from gantrymq_testing.cluster import broker_settings
from gantrymq_testing.simulated.faults import FaultyDelivery
from gantrymq_testing.simulation import simulate_cluster

for each in ("storage_memory", "filter_tag", "schedule", "diagnosis"):
    pytest.importorskip(f"gantrymq_{each}")

HERE, THERE = "127.0.0.1", "127.0.0.2"
FOREVER_S = 3600


async def works(message):
    """Consume it."""


def with_two(work):
    """Run ``work(cluster, faults, messages)``: broker-b is at another address; a message of each broker by its name."""
    faults = FaultyDelivery(random.Random(1), late=0)

    async def main(cluster):
        faults.attach(cluster.world.network, cluster.world.clock.monotonic)
        given = {
            "brokerName": "broker-b",
            "bindAddress": THERE,
            "brokerIP1": THERE,
            "namesrvAddr": cluster.namesrv,
        }
        other = BrokerServer(cluster.world, broker_settings(cluster.plugins, Path("/other"), given), cluster.plugins)
        await other.start()
        try:
            await cluster.create_topic(TOPIC, 1)
            async with Client(cluster.namesrv, world=cluster.world) as client:
                for address in await client.admin.masters():
                    await client.admin.create_topic(address, TopicConfig(TOPIC, read_queues=1, write_queues=1))
                await client.wait_ready(TOPIC)
                await cluster.world.clock.sleep(1)
                producer, messages = client.producer("shop"), {}
                while len(messages) < 2:
                    sent = await producer.send(Message(TOPIC, b"1"))
                    found = (await client.admin.query_unique(TOPIC, sent.message_id))[0]
                    messages[found.broker_name] = found
            return await work(cluster, faults, messages)
        finally:
            faults.heal()
            await other.stop()

    return simulate_cluster(main, delivery=faults)


def test_positions_are_compared_by_the_name_of_the_broker():
    async def work(cluster, faults, messages):
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(60)
        for message in messages.values():
            found = await found_of(cluster, message)
            assert found.complete
            assert [(each.group, *judged(each)) for each in found.verdicts] == [
                (GROUP, Reason.PASSED, Certainty.LIKELY)
            ]

    with_two(work)


@pytest.mark.parametrize("refuses", [True, False])
def test_without_the_other_broker_passed_is_unknown_and_not_yet_remains(refuses):
    """A copy of a failed message may be at the other broker; a message that was not handed out has none."""

    async def work(cluster, faults, messages):
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(60)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            while True:
                sent = await client.producer("shop").send(Message(TOPIC, b"2"))
                late = (await client.admin.query_unique(TOPIC, sent.message_id))[0]
                if late.broker_name == "broker-a":
                    break
        if refuses:
            faults.refuse(THERE, FOREVER_S)
        else:
            faults.part(HERE, THERE, FOREVER_S)
        begun = cluster.world.clock.monotonic()
        found = await found_of(cluster, messages["broker-a"], deadline_s=2)
        assert cluster.world.clock.monotonic() - begun < 2.5
        assert {each.broker for each in found.missing} == {"broker-b"}
        assert {each.why for each in found.missing} == {"unreachable" if refuses else "deadline"}
        assert {Fact.GROUPS, Fact.MESSAGE, Fact.DELAYED} <= {each.fact for each in found.missing}
        (verdict,) = found.verdicts
        assert judged(verdict) == (Reason.UNKNOWN, Certainty.UNKNOWN)
        assert verdict.facts.committed == 1
        assert verdict.lacking
        (verdict,) = (await found_of(cluster, late, deadline_s=2)).verdicts
        assert verdict.reason is Reason.NOT_YET

    with_two(work)


def test_without_its_own_broker_nothing_is_known():
    async def work(cluster, faults, messages):
        async with member(cluster, handle=works):
            await cluster.world.clock.sleep(60)
        faults.refuse(THERE, FOREVER_S)
        found = await found_of(cluster, messages["broker-b"])
        (verdict,) = found.verdicts
        assert judged(verdict) == (Reason.UNKNOWN, Certainty.UNKNOWN)
        assert {Fact.COMMITTED, Fact.MEMBERS} <= verdict.facts.unknown

    with_two(work)


def test_a_cancelled_question_leaves_no_request():
    async def work(cluster, faults, messages):
        faults.part(HERE, THERE, FOREVER_S)
        asked = asyncio.ensure_future(found_of(cluster, messages["broker-a"], deadline_s=60))
        await cluster.world.clock.sleep(1)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    with_two(work)
