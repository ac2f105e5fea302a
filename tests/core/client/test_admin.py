import pytest

from gantrymq.client import Admin, QueueStats
from gantrymq.errors import BrokerRefused, ClientError, ConnectFailed, FormatError, InvalidParameter, NoRoute
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

CLUSTERS = RequestCode.GET_BROKER_CLUSTER_INFO


@pytest.fixture
def ask(simulate, cluster):
    """Run a function of an Admin and a cluster whose name server knows clusters C (a, b) and D (no master)."""

    def run(work):
        async def outer(world):
            async with cluster(world) as c, Admin(c.namesrv, world=world) as admin:
                c.ns.answers[CLUSTERS] = Command(
                    0,
                    body=b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"b:10911"},"brokerName":"b","cluster":"C"},'
                    b'"a":{"brokerAddrs":{0:"a:10911",1:"a1:10911"},"brokerName":"a","cluster":"C"},'
                    b'"d":{"brokerAddrs":{1:"d1:10911"},"brokerName":"d","cluster":"D"}},'
                    b'"clusterAddrTable":{"C":["b","a"],"D":["d"]}}',
                )
                return await work(admin, c)

        return simulate(outer)

    return run


def test_recorded_lists_are_read(ask, golden):
    async def work(admin, c):
        c.ns.answers[RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = golden("topics")
        c.brokers["a"].answers[RequestCode.GET_BROKER_RUNTIME_INFO] = golden("runtime info")
        topics = await admin.topics()
        assert list(topics) == sorted(topics)
        assert "GoldenLive" in topics
        assert (await admin.runtime_info("a:10911"))["brokerVersionDesc"] == "V5_3_3"

    ask(work)


def test_recorded_stats_and_configuration_are_read(ask, golden):
    async def work(admin, c):
        c.brokers["a"].answers[RequestCode.GET_TOPIC_STATS_INFO] = golden("topic stats")
        c.brokers["a"].answers[RequestCode.GET_TOPIC_CONFIG] = golden("topic config")
        stats = await admin.topic_stats("a:10911", "GoldenLive")
        assert list(stats) == [MessageQueue("GoldenLive", "broker-a", i) for i in range(4)]
        assert stats[MessageQueue("GoldenLive", "broker-a", 0)] == QueueStats(0, 5, 1795245268418)
        assert await admin.topic_config("a:10911", "GoldenLive") == TopicConfig("GoldenLive", 4, 4)

    ask(work)


def test_masters_of_a_cluster(ask):
    async def work(admin, c):
        assert await admin.masters("C") == ("a:10911", "b:10911")
        for cluster, word in ((None, "C, D"), ("X", "no cluster is named X"), ("D", "has no master")):
            with pytest.raises(ClientError, match=word):
                await admin.masters(cluster)

    ask(work)


def test_topic_is_created_as_mqadmin_does(ask):
    async def work(admin, c):
        c.brokers["a"].answers[RequestCode.UPDATE_AND_CREATE_TOPIC] = Command(0)
        own = {"+message.type": "FIFO", "-reserve.time": ""}
        await admin.create_topic("a:10911", TopicConfig("New", 4, 2, 6, attributes=own))
        assert c.brokers["a"].of(RequestCode.UPDATE_AND_CREATE_TOPIC)[0].ext == {
            "topic": "New",
            "defaultTopic": "TBW102",
            "readQueueNums": "4",
            "writeQueueNums": "2",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
            "attributes": "+message.type=FIFO,-reserve.time",
            "force": "false",
        }
        with pytest.raises(InvalidParameter):
            await admin.create_topic("a:10911", TopicConfig("a/b"))

    ask(work)


def test_topic_is_deleted_at_masters_and_name_servers(ask):
    async def work(admin, c):
        for peer in c.brokers.values():
            peer.answers[RequestCode.DELETE_TOPIC_IN_BROKER] = Command(0)
        c.ns.answers[RequestCode.DELETE_TOPIC_IN_NAMESRV] = Command(0)
        assert await admin.delete_topic("T", "C") == ("a:10911", "b:10911")
        assert [p.of(RequestCode.DELETE_TOPIC_IN_BROKER)[0].ext for p in c.brokers.values()] == [{"topic": "T"}] * 2
        assert c.ns.of(RequestCode.DELETE_TOPIC_IN_NAMESRV)[0].ext == {"topic": "T", "clusterName": "C"}

    ask(work)


def test_members_of_a_group_as_one_broker_sees_them(ask):
    async def work(admin, c):
        listed = Command(0, body=b'{"consumerIdList":["c2@1","c1@1","c2@1"]}')
        nobody = Command(1, remark="no consumer for this group, g")
        c.brokers["a"].answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = listed
        c.brokers["b"].answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = nobody
        assert await admin.members("a:10911", "g") == ("c1@1", "c2@1", "c2@1")
        assert await admin.members("b:10911", "g") == ()
        assert c.brokers["a"].asked[-1].ext["consumerGroup"] == "g"
        c.brokers["a"].answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = Command(1, remark="disk full")
        with pytest.raises(BrokerRefused, match="disk full"):
            await admin.members("a:10911", "g")

    ask(work)


def test_route_of_an_unknown_topic_is_a_sentence_without_commands_of_a_shell(ask):
    async def work(admin, c):
        with pytest.raises(NoRoute, match="^no name server knows topic Nope$"):
            await admin.route("Nope")
        assert len((await admin.route("T")).queues) == 2

    ask(work)


def test_one_name_server_is_asked_by_its_address(ask):
    async def work(admin, c):
        assert (await admin.clusters(c.namesrv)).masters("C")
        with pytest.raises(ConnectFailed):
            await admin.clusters("gone:1")

    ask(work)


def test_refusals_and_garbled_replies_are_raised(ask):
    async def work(admin, c):
        with pytest.raises(BrokerRefused, match=r"a:10911 does not serve GET_BROKER_RUNTIME_INFO \(28\): "):
            await admin.runtime_info("a:10911")
        c.brokers["a"].answers[RequestCode.GET_BROKER_RUNTIME_INFO] = Command(0, body=b"[]")
        c.brokers["a"].answers[RequestCode.GET_TOPIC_STATS_INFO] = Command(
            0, body=b'{"offsetTable":{{"topic":"T"}:{}}}'
        )
        with pytest.raises(FormatError):
            await admin.runtime_info("a:10911")
        with pytest.raises(FormatError):
            await admin.topic_stats("a:10911", "T")
        c.ns.answers[CLUSTERS] = Command(1, remark="off")
        with pytest.raises(BrokerRefused, match="off"):
            await admin.clusters()

    ask(work)


def test_admin_that_is_not_started_says_so():
    with pytest.raises(ClientError, match="async with"):
        Admin().name_servers  # noqa: B018
