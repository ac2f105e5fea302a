"""reviveQueueNum: the number of queues of the revive log, and stores written with another number."""

import asyncio

import pytest
from pop_client import PopClient

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_pop.settings import SCHEMA
from gantrymq_pop.topics import revive_topic
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

pytest.importorskip("gantrymq_storage_mmap")

TOPIC = revive_topic("DefaultCluster")


def lives(root, *parts):
    """One life of a broker for each (setting, work), on one store."""

    async def main(world):
        for count, work in parts:
            cluster = Cluster(world, root, {"store": "mmap", **({} if count is None else {"reviveQueueNum": count})})
            await cluster.start()
            if cluster.broker.topics.get("T") is None:
                await cluster.create_topic("T", 2)
            async with PopClient(cluster) as client:
                await work(client)
            await cluster.stop()

    simulate(1, main)


def written(client):
    """The number of records in each queue of the revive log."""
    broker = client.cluster.broker
    return [broker.store.bounds(Queue(TOPIC, each)).max_offset for each in range(broker.topics.get(TOPIC).read_queues)]


async def pops(client, count, **more):
    """Send and pop *count* messages one by one."""
    found = []
    for number in range(count):
        await client.send(b"%d" % number)
        found += (await client.pop(**more)).messages
    return found


@pytest.mark.parametrize(("setting", "queues"), [(None, 8), (1, 1), (3, 3), (12, 12)])
def test_pops_go_round_as_many_queues_as_the_setting_says(tmp_path, setting, queues):
    async def work(client):
        await pops(client, 2 * queues)
        assert len(written(client)) == queues
        assert sum(written(client)) == 2 * queues
        assert min(written(client)) > 0

    lives(tmp_path, (setting, work))


@pytest.mark.parametrize(("before", "after"), [(8, 2), (2, 8), (12, 1), (1, 12)])
def test_a_store_written_with_another_number_is_served(tmp_path, before, after):
    """Popped messages come back, those acknowledged under an old handle do not, new pops use the allowed queues."""
    popped = []

    async def first(client):
        popped.extend(await pops(client, before, invisible=30_000))
        assert len(popped) == before

    async def second(client):
        there = written(client)
        assert len(there) == max(before, after)
        for message in popped[::2]:
            assert (await client.ack(message)).code == 0
        came = []
        for _ in range(60):
            found = (await client.pop(poll=1000)).messages
            await asyncio.gather(*map(client.ack, found))
            came += found
        assert sorted(each.body for each in came) == sorted(each.body for each in popped[1::2])
        new = await pops(client, after)
        assert {int(each.handle.split(" ")[3]) for each in new} == set(range(after))

    lives(tmp_path, (before, first), (after, second))


def test_a_topic_of_a_java_broker_with_more_queues_is_read_whole(tmp_path):
    """A checkpoint may still be on its way to one of them, through the timer."""

    async def java(client):
        client.cluster.broker.topics.put(TopicConfig(TOPIC, 16, 16))

    async def ours(client):
        assert len(written(client)) == 16

    lives(tmp_path, (8, java), (8, ours))


@pytest.mark.parametrize("count", [0, 999])
def test_a_number_that_cannot_be_is_refused(count):
    with pytest.raises(ConfigError, match="reviveQueueNum"):
        Settings(SCHEMA).set("reviveQueueNum", count, "broker.conf line 1")
