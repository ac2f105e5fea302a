"""Automatic batching with an in-memory broker: batched messages are found by offset, id and tag."""

import pytest

from gantrymq.client import Batching, Client, Message
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Readings"
COUNT = 300


async def gathered(cluster):
    """Send with pauses, some to a queue; messages and their results."""
    async with Client(cluster.namesrv, world=cluster.world) as client:
        producer = client.producer("sensors", batching=Batching(max_wait_ms=3, max_messages=20))
        queues = await producer.queues(TOPIC)
        begun = []
        for number in range(COUNT):
            message = Message(TOPIC, b"%d" % number, tags=("Red", "Blue")[number % 2], keys=f"k{number}")
            begun.append((message, producer.send_soon(message, queues[number % 8] if number % 3 == 0 else None)))
            await cluster.world.clock.sleep(cluster.world.random.choice((0, 0, 0, 0.001, 0.004)))
        await producer.flush()
        return [(message, await send) for message, send in begun]


@pytest.mark.parametrize("attributes", [{}, {"+queue.type": "BatchCQ"}], ids=["ordinary", "batch queues"])
def test_consumers_find_each_message_where_its_result_says(attributes):
    async def work(cluster):
        async with Client(cluster.namesrv, world=cluster.world) as client:
            await client.admin.create_topic_in(TopicConfig(TOPIC, 8, 8, attributes=attributes))
            sent = await gathered(cluster)
            assert any(result.inner_batch_id for _, result in sent) is bool(attributes)
            wanted = {(r.queue.queue_id, r.queue_offset): (m.body, r.message_id, m.tags, m.keys) for m, r in sent}
            assert len(wanted) == COUNT
            for expression in ("*", "Red"):
                here = {place: each for place, each in wanted.items() if expression in ("*", each[2])}
                consumer = client.consumer(f"all-{len(here)}", TOPIC, expression=expression, consume_from="first")
                found = {}
                async for message in consumer:
                    found[message.queue_id, message.queue_offset] = (
                        message.body,
                        message.message_id,
                        message.tags,
                        message.keys,
                    )
                    if len(found) == len(here):
                        break
                assert found == here

    simulate_cluster(work, settings={"store": "mmap"})
