import pytest

from gantrymq.client import Client, Message, QueueStats
from gantrymq.client.admin import NotABroker, NotANameServer, RequestNotServed
from gantrymq.errors import BrokerRefused, ClientError, ConnectFailed, FormatError, InvalidParameter, NoRoute
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

CLUSTERS = RequestCode.GET_BROKER_CLUSTER_INFO


@pytest.fixture
def ask(simulate, cluster):
    """Run a function with an Admin and a cluster; its name server knows clusters C (a, b) and D (no master)."""

    def run(work):
        async def outer(world):
            async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.admin as admin:
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
        for cluster, word in (
            (None, "C, D"),
            ("X", "no cluster is named X"),
            ("D", r"D has no master now, only slaves \(d1:10911\); "),
        ):
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


def test_admin_of_a_closed_client_says_so(simulate):
    async def work(world):
        async with Client("ns:1", world=world) as client:
            admin = client.admin
        with pytest.raises(ClientError, match="this Admin is closed"):
            admin.name_servers  # noqa: B018
        with pytest.raises(ClientError, match="async with"):
            client.admin  # noqa: B018

    simulate(work)


REMARKS = ("request type {} not supported", " request type {} not supported", "")  # of Java's servers


@pytest.mark.parametrize("remark", REMARKS)
def test_a_broker_that_is_asked_for_what_name_servers_do_is_named(ask, remark):
    async def work(admin, c):
        for peer in (c.ns, c.brokers["a"]):
            for code in RequestCode:
                peer.answers[code] = Command(3, remark=remark.format(int(code)))
        for asked in (
            admin.topics(),
            admin.clusters(),
            admin.route("T"),
            admin.masters(),
            admin.delete_topic("T", "C"),
            admin.wipe_write_permission("a"),
            admin.name_server_settings(),
            admin.clusters("a:10911"),
        ):
            with pytest.raises(NotANameServer, match=r"^a broker listens at (ns:9876|a:10911), not a name server") as e:
                await asked
            assert e.value.response_code == 3

    ask(work)


@pytest.mark.parametrize("remark", REMARKS)
def test_a_name_server_that_is_asked_for_what_brokers_do_is_named(ask, remark):
    async def work(admin, c):
        for code in RequestCode:
            c.ns.answers.setdefault(code, Command(3, remark=remark.format(int(code))))
        for asked in (
            admin.runtime_info("ns:9876"),
            admin.groups("ns:9876"),
            admin.group_config("ns:9876", "G"),
            admin.topic_config("ns:9876", "T"),
            admin.group_progress("ns:9876", "G"),
        ):
            with pytest.raises(NotABroker, match=r"^a name server listens at ns:9876, not a broker"):
                await asked

    ask(work)


def test_a_broker_that_says_which_plugin_is_missing_is_repeated(ask):
    async def work(admin, c):
        remark = "request 200050 POP_MESSAGE needs a plugin; install it with: pip install gantrymq-pop"
        c.brokers["a"].answers[RequestCode.GET_BROKER_RUNTIME_INFO] = Command(3, remark=remark)
        with pytest.raises(RequestNotServed, match=f"does not serve .*: {remark}$"):
            await admin.runtime_info("a:10911")

    ask(work)


def test_a_name_server_that_lacks_a_request_is_not_called_a_broker(ask):
    async def work(admin, c):
        c.ns.answers[RequestCode.WIPE_WRITE_PERM_OF_BROKER] = Command(3, remark="request type 205 not supported")
        c.ns.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = Command(0, body=b"{}")
        with pytest.raises(RequestNotServed, match="^ns:9876 does not serve .*: it is too old"):
            await admin.wipe_write_permission("a")

    ask(work)


def test_a_broker_that_denies_what_is_not_its_own_is_not_called_a_name_server(ask):
    """With access control, a broker may answer NO_PERMISSION to an unknown request."""

    async def work(admin, c):
        broker = c.brokers["a"]
        broker.answers[RequestCode.GET_BROKER_RUNTIME_INFO] = Command(3, remark="request type 28 not supported")
        broker.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = Command(16, remark="denied")
        with pytest.raises(RequestNotServed):
            await admin.runtime_info("a:10911")

    ask(work)


@pytest.mark.parametrize("kind", ["producer", "reader", "consumer", "wait_ready"])
def test_a_client_that_is_given_a_broker_for_a_name_server_says_so(simulate, cluster, caplog, kind):
    async def work(world):
        async with cluster(world, "a") as c, Client("a:10911", world=world) as client:
            if kind == "consumer":
                client.consumer("G", "T")
                await world.clock.sleep(200)
                texts = [text for text in caplog.messages if "a broker listens at a:10911" in text]
                assert 1 <= len(texts) <= 8  # T and the retry topic, once a minute
                return
            asked = {
                "producer": lambda: client.producer("P").send(Message("T", b"x")),
                "reader": lambda: client.reader("T").queues(),
                "wait_ready": lambda: client.wait_ready("T", 1.0),
            }[kind]
            with pytest.raises(ClientError, match="a broker listens at a:10911, not a name server"):
                await asked()
            assert c.brokers["a"].asked

    simulate(work)


def test_answers_about_five_thousand_topics_are_read(ask):
    """Topics and groups of one broker, and a group's progress in all queues, which is 7 MB with objects as keys."""

    async def work(admin, c):
        broker = c.brokers["a"]
        topics = ",".join(
            f'"{name}":{{"attributes":{{}},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG",'
            f'"topicName":"{name}","topicSysFlag":0,"writeQueueNums":8}}'
            for name in (f"A-topic-with-quite-a-long-name-{number}" for number in range(5000))
        )
        groups = ",".join(f'"G{number}":{{"groupName":"G{number}","retryQueueNums":1}}' for number in range(2000))
        progress = ",".join(
            f'{{"brokerName":"a","queueId":{number % 8},"topic":"A-topic-with-quite-a-long-name-{number // 8}"}}:'
            f'{{"brokerOffset":{number + 10**7},"consumerOffset":{number},"lastTimestamp":1700000000000,'
            f'"pullOffset":0}}'
            for number in range(40_000)
        )
        broker.answers[RequestCode.GET_ALL_TOPIC_CONFIG] = Command(
            0, body=b'{"topicConfigTable":{%s}}' % topics.encode()
        )
        broker.answers[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = Command(
            0, body=b'{"subscriptionGroupTable":{%s}}' % groups.encode()
        )
        body = b'{"consumeTps":0.5,"offsetTable":{%s}}' % progress.encode()
        assert len(body) > 6_000_000
        broker.answers[RequestCode.GET_CONSUME_STATS] = Command(0, body=body)
        assert len(await admin.topic_configs("a:10911")) == 5000
        assert len(await admin.groups("a:10911")) == 2000
        found = await admin.group_progress("a:10911", "G")
        assert len(found) == 40_000
        at = found[MessageQueue("A-topic-with-quite-a-long-name-4999", "a", 7)]
        assert (at.max_offset, at.committed) == (39_999 + 10**7, 39_999)

    ask(work)
