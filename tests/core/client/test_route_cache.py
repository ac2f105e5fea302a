import pytest

from gantrymq.client import Client
from gantrymq.errors import BrokerRefused, ClientError, NoRoute
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def test_look_up_goes_round_all_name_servers_once(simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(f"gone:1;gone:2;{c.namesrv}", world=world) as client,
            client.producer("P") as producer,
        ):
            assert len(await producer.queues("T")) == 8

    simulate(work)


def test_silent_name_server_is_left_for_the_next_one(simulate, cluster, peer):
    async def work(world):
        silent = await peer(world, "silent", 9876).start()
        silent.answers[ROUTE] = None
        async with (
            cluster(world) as c,
            Client(f"{silent.address};{c.namesrv}", world=world) as client,
            client.producer("P") as producer,
        ):
            assert len(await producer.queues("T")) == 8
            asked = len(silent.asked)
            for topic in ("U", "V"):
                with pytest.raises(NoRoute):
                    await producer.queues(topic)
            assert len(silent.asked) == asked <= 1
        await silent.stop()

    simulate(work)


def test_error_of_a_name_server_is_raised(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.ns.answers[ROUTE] = Command(1, remark="not ready")
            with pytest.raises(BrokerRefused, match="not ready"):
                await producer.queues("T")

    simulate(work)


def test_topic_that_nobody_may_write_says_why(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.ns.answers[ROUTE] = Command(
                0,
                body=b'{"brokerDatas":[{"brokerAddrs":{0:"a:10911"},"brokerName":"a","cluster":"C"}],'
                b'"queueDatas":[{"brokerName":"a","perm":4,"readQueueNums":4,"writeQueueNums":4}]}',
            )
            with pytest.raises(NoRoute, match="no queue to write to"):
                await producer.queues("T")
            async with Client(c.namesrv, world=world) as client, client.reader(group="G") as consumer:
                assert len(await consumer.queues("T")) == 4

    simulate(work)


def test_topic_that_nobody_may_read_says_so(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.reader(group="G") as consumer:
            c.ns.answers[ROUTE] = Command(
                0, body=b'{"queueDatas":[{"brokerName":"a","perm":2,"readQueueNums":4,"writeQueueNums":4}]}'
            )
            with pytest.raises(NoRoute, match="no queue to read from"):
                await consumer.queues("T")

    simulate(work)


def test_static_topic_is_refused_with_a_sentence(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.reader(group="G") as consumer:
            c.ns.answers[ROUTE] = Command(0, body=b'{"topicQueueMappingByBroker":{"a":{"bname":"a"}}}')
            with pytest.raises(ClientError, match="static topic"):
                await consumer.queues("T")

    simulate(work)


def test_retry_topic_without_a_route_has_its_own_sentence(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.reader(group="G") as consumer:
            with pytest.raises(NoRoute, match="not retried"):
                await consumer.queues("%RETRY%G")

    simulate(work)
