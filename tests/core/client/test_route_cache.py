import json

import pytest

from gantrymq.client import Client, Message
from gantrymq.errors import BrokerRefused, ClientError, NoRoute
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

ROUTE, SEND = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2


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


class Moving:
    """The name server's answers for brokers a and b as masters of one name, one after the other."""

    def __init__(self, cluster):
        self.cluster, self.master, self.topics = cluster, "a", set(cluster.topics)
        cluster.ns.answers[ROUTE] = self.route
        for name, peer in cluster.brokers.items():
            stored = peer.answers[SEND]
            peer.answers[SEND] = lambda asked, name=name, stored=stored: (
                stored(asked) if name == self.master else Command(14, remark="not the master")
            )

    def route(self, asked):
        topic = asked.ext["topic"]
        if topic not in self.topics:
            return Command(17, remark="no route")
        address = self.cluster.brokers[self.master].address
        grant = {"brokerName": "n", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}
        broker = {"brokerAddrs": {"0": address}, "brokerName": "n", "cluster": "C"}
        return Command(0, body=json.dumps({"brokerDatas": [broker], "queueDatas": [grant]}).encode())


@pytest.mark.parametrize("topics", [("T", "U"), ("TBW102",)], ids=["another topic was used last", "not created yet"])
def test_sends_go_to_a_new_master(simulate, cluster, topics):
    async def work(world):
        async with (
            cluster(world, topics=topics) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P") as producer,
        ):
            moving = Moving(c)
            for topic in ("T", "U"):
                assert len(await producer.queues(topic)) == 4
            moving.master = "b"
            assert (await producer.send(Message("T", b"x"), timeout_s=2)).ok

    simulate(work)
