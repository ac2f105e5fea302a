"""Questions who consumed a message, to a broker in memory on a virtual clock."""

import asyncio
import contextlib
import json

from gantrymq.client import Client, Message
from gantrymq_admin.consumption import consumers_of
from gantrymq_admin.consumption.evidence import as_json, missing_sentence, sentence

TOPIC, GROUP = "Orders", "billing"
LEVELS = {"messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"}


async def send(cluster, body=b"1", topic=TOPIC, trace=False, **more):
    """Send one message; return it as received."""
    async with Client(cluster.namesrv, world=cluster.world, trace=trace) as client:
        sent = await client.producer("shop").send(Message(topic, body, **more))
        return (await client.admin.query_unique(topic, sent.message_id))[0]


async def found_of(cluster, message, **more):
    """Return the whole result; it can be shown in both forms."""
    async with Client(cluster.namesrv, world=cluster.world) as client:
        found = await consumers_of(client.admin, client.reader(), message, clock=cluster.world.clock, **more)
    json.dumps(as_json(found))
    assert all(map(missing_sentence, found.missing))
    if found.message is not None:
        assert all(sentence(found.message, each) for each in found.verdicts)
    return found


async def verdict_of(cluster, message, group=GROUP, **more):
    """Return the verdict on one group, of a complete result."""
    found = await found_of(cluster, message, **more)
    assert found.complete, found.missing
    return {each.group: each for each in found.verdicts}[group]


@contextlib.asynccontextmanager
async def member(cluster, group=GROUP, topics=TOPIC, handle=None, trace=False, **more):
    """A consumer that runs with *handle* in the background."""
    async with Client(cluster.namesrv, world=cluster.world, trace=trace, instance_name=group) as client:
        consumer = client.consumer(group, topics, **{"consume_from": "first", **more})
        running = asyncio.ensure_future(consumer.run(handle))
        try:
            yield consumer
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


def judged(found):
    """Return the verdict in short."""
    return found.reason, found.certainty
