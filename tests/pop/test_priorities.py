"""Pops of PRIORITY topics (RIP-80): high queue ids first, the retry topic last, as in RocketMQ 5.5.0."""

import pytest

from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig


def with_topic(client, kind="PRIORITY"):
    client.cluster.broker.topics.put(TopicConfig("P", 4, 4, attributes={"message.type": kind}))


async def sent(client):
    """Send two messages to each queue, and return their bodies in order of priority."""
    for queue_id in (1, 3, 0, 2):
        await client.send(b"%d a" % queue_id, b"%d b" % queue_id, topic="P", queue_id=queue_id)
    return [b"%d %b" % (queue_id, each) for queue_id in (3, 2, 1, 0) for each in (b"a", b"b")]


@pytest.mark.parametrize("seed", range(4))
def test_messages_of_high_priority_are_popped_first(popped, seed):
    async def main(client):
        with_topic(client)
        expected = await sent(client)
        found = []
        while (answer := await client.pop(topic="P", most=3)).code == 0:
            found += answer.bodies
        assert found == expected

    popped(main, seed=seed)


def test_low_queue_ids_are_popped_first_if_the_broker_is_set_so(popped):
    async def main(client):
        with_topic(client)
        expected = await sent(client)
        assert [each[0] for each in (await client.pop(topic="P")).bodies] == sorted(each[0] for each in expected)

    popped(main, settings={"priorityOrderAsc": False})


@pytest.mark.parametrize(("kind", "factor"), [("NORMAL", "100"), ("PRIORITY", "0")])
def test_other_topics_and_groups_begin_with_any_queue(popped, kind, factor):
    async def main(client):
        with_topic(client, kind)
        client.cluster.broker.groups.put(GroupConfig("CG", attributes={"priority.factor": factor}))
        firsts = set()
        for _ in range(20):
            await client.send(b"0", topic="P", queue_id=0)
            await client.send(b"3", topic="P", queue_id=3)
            answer = await client.pop(topic="P", most=2)
            firsts.add(answer.bodies[0])
            for each in answer.messages:
                await client.ack(each)
        assert firsts == {b"0", b"3"}

    popped(main)


def test_an_illegal_factor_in_the_stored_table_counts_as_100(popped):
    async def main(client):
        with_topic(client)
        client.cluster.broker.groups.put(GroupConfig("CG", attributes={"priority.factor": "all"}))
        assert (await client.pop(topic="P")).code == 210
        expected = await sent(client)
        assert (await client.pop(topic="P")).bodies == expected

    popped(main)


@pytest.mark.parametrize(("chance", "first"), [(0, b"new"), (100, b"again")])
def test_retried_messages_come_last_or_as_often_as_the_broker_is_set(popped, chance, first):
    async def main(client):
        with_topic(client)
        await client.send(b"again", topic="P", queue_id=3)
        assert (await client.pop(topic="P", invisible=1000)).bodies == [b"again"]
        await client.clock.sleep(5)
        await client.send(b"new", topic="P", queue_id=0)
        answer = await client.pop(topic="P")
        assert (len(answer.bodies), answer.bodies[0]) == (2, first)

    popped(main, settings={"popFromRetryProbabilityForPriority": chance, "popFromRetryProbability": 100 - chance})
