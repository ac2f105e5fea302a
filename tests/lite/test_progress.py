"""The progress of groups of lite topics: that of their light queues, not of the queues of the parent topic."""

import pytest

pytest.importorskip("gantrymq_lite")
pytest.importorskip("gantrymq_diagnosis")
pytest.importorskip("gantrymq_admin")

from lite_broker import SETTINGS, LiteBroker

from gantrymq.errors import BrokerRefused
from gantrymq.interfaces import ConsumerHeartbeat, Heartbeat
from gantrymq.model.subscription import Subscription
from gantrymq_admin.explanations import explain_group
from gantrymq_admin.progress import delete_offsets, queues_of_group
from gantrymq_admin.summaries import GroupSummaries, summary_page

ONE, OTHER = "%LMQ%$P$one", "%LMQ%$P$other"


@pytest.fixture
def with_admin(gantrymq_simulation):
    """Run ``work(served, admin, consumer)``: *consumer* of group G has consumed 1 of 2 messages of the lite topic."""

    def run(work):
        async def main(cluster):
            served = LiteBroker(cluster)
            consumer = served.client()
            subscriptions = [Subscription("P", "*")]
            heard = ConsumerHeartbeat(
                "G", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", False, subscriptions
            )
            cluster.broker.clients.heartbeat(Heartbeat("c1", "JAVA", 0, [], [heard]), consumer)
            await consumer.subscribe("one")
            await served.send("one", b"1")
            await served.send("one", b"2")
            (first,) = await consumer.receive(most=1)
            await first.ack()
            async with cluster.client() as client, client.admin as admin:
                await work(served, admin, consumer)

        return gantrymq_simulation(main, settings=SETTINGS)

    return run


async def progress(served, admin):
    """Return topic, committed offset and lag, of the group's queues at the broker."""
    address = served.cluster.broker_address
    online = await admin.consumer_connections(address, "G")
    return [(each.topic, each.committed, each.behind) for each in await queues_of_group(admin, address, "G", online)]


async def explained(served, admin, topic=None):
    found = await explain_group(admin, served.cluster.broker_address, "G", topic)
    return found, [(each.topic, each.reason, each.behind) for each in found.queues]


def test_the_lag_is_that_of_the_light_queues(with_admin):
    async def main(served, admin, consumer):
        assert await progress(served, admin) == [(ONE, 1, 1)]
        found, queues = await explained(served, admin)
        assert (queues, found.behind, found.diagnosis) == ([(ONE, "popped", 1)], 1, ())
        rows = (await summary_page(admin, served.cluster.broker_address, GroupSummaries)).groups
        assert [each.behind for each in rows if each.group == "G"] == [1]
        assert (await explained(served, admin, "P"))[1] == queues

    with_admin(main)


def test_a_subscription_without_an_offset_counts(with_admin):
    async def main(served, admin, consumer):
        for _ in range(3):
            await served.send("other")
        await consumer.subscribe("other")
        assert await progress(served, admin) == [(ONE, 1, 1), (OTHER, 0, 3)]
        assert (await explained(served, admin))[0].behind == 4

    with_admin(main)


def test_offsets_of_lite_topics_without_a_subscription_are_kept(with_admin):
    async def main(served, admin, consumer):
        await consumer.unsubscribe("one")
        assert await progress(served, admin) == [(ONE, 1, 1)]
        found, queues = await explained(served, admin)
        assert (queues, found.diagnosis) == ([(ONE, "lite-unsubscribed", 1)], ())
        assert "delete-offsets" not in found.queues[0].sentence
        with pytest.raises(BrokerRefused, match="read topic"):
            await delete_offsets(admin, served.cluster.broker_address, "G", ONE)

    with_admin(main)


def test_a_group_that_is_bound_to_another_topic_has_left_the_light_queues(with_admin):
    async def main(served, admin, consumer):
        served.topic("Q")
        await served.send("one", topic="Q")
        served.group(topic="Q")
        assert await progress(served, admin) == []
        assert (ONE, "not-subscribed", 0) in (await explained(served, admin))[1]

    with_admin(main)
