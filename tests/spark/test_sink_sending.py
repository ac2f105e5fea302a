"""Sending to a simulated broker that stops and restarts, without Spark."""

import asyncio

import pytest

pytest.importorskip("gantrymq_storage_mmap")

from gantrymq.broker import BrokerServer
from gantrymq.client import Client
from gantrymq.client.message import Message
from gantrymq.errors import ClientError
from gantrymq_spark.sink.dedup import SeenIds
from gantrymq_spark.sink.options import SINK_ID, read_options
from gantrymq_spark.sink.rows import Outbound
from gantrymq_spark.sink.sending import Sender
from gantrymq_testing.simulation import simulate_cluster

SETTINGS = {"plugins": "storage_mmap,admin", "store": "mmap", "autoCreateTopicEnable": False}
COUNT = 2000


def rows(topic="T"):
    for number in range(COUNT):
        order = f"key-{number % 17}" if number % 4 else None
        properties = {SINK_ID: str(number), "order": str(order)}
        yield Outbound(Message(topic, b"%d" % number, properties=properties), order, alone=False)


def options_of(cluster, **given):
    return read_options({"namesrv": cluster.namesrv, **given}, streaming=False, environ={})


async def sending(cluster, work, **given):
    await cluster.create_topic("T", 4)
    async with Client(cluster.namesrv, world=cluster.world) as client, client.producer("sink") as producer:
        return await work(Sender(producer, cluster.world.clock, options_of(cluster, **given)))


async def stopped(cluster):
    """The broker alone, and how to start it again where it was."""
    broker, cluster._broker = cluster._broker, None
    cluster.settings.set("listenPort", broker.address[1], "the test")
    await broker.stop()

    async def again():
        cluster._broker = BrokerServer(cluster.world, cluster.settings, cluster.plugins)
        await cluster._broker.start()

    return again


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_broker_that_restarts_gets_everything_and_first_copies_in_order(seed):
    async def work(cluster):
        async def through_restarts(sender):
            task = asyncio.ensure_future(sender.send(rows()))
            for number in range(3):
                await cluster.world.clock.sleep(0.004 * (seed + number))
                assert not task.done()
                await (await stopped(cluster))()
            return await task

        assert await sending(cluster, through_restarts, batchMessages="10") == COUNT
        return await cluster.pull("T")

    seen, last, found = SeenIds(), {}, []
    for message in simulate_cluster(work, seed=seed, settings=SETTINGS):
        if seen.first(message.properties):
            number, order = int(message.body), message.properties["order"]
            found.append(number)
            assert order == "None" or number > last.get(order, -1)
            last[order] = number
    assert sorted(found) == list(range(COUNT))


def test_a_broker_that_stays_away_is_asked_for_so_long():
    async def work(cluster):
        async def alone(sender):
            await sender.send(rows())
            await stopped(cluster)
            began = cluster.world.clock.monotonic()
            with pytest.raises(ClientError):
                await sender.send(rows())
            return cluster.world.clock.monotonic() - began

        return await sending(cluster, alone, brokerWait="30s")

    assert 20 <= simulate_cluster(work, settings=SETTINGS) <= 60


def test_what_cannot_be_sent_fails_at_once():
    async def work(cluster):
        async def refused(sender):
            began = cluster.world.clock.monotonic()
            with pytest.raises(ClientError, match="Nothing"):
                await sender.send(rows("Nothing"))
            return cluster.world.clock.monotonic() - began

        return await sending(cluster, refused)

    assert simulate_cluster(work, settings=SETTINGS) < 5
