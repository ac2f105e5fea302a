import pytest

from gantrymq.client import Client, PullStatus
from gantrymq.errors import BrokerRefused, CallTimeout, ClientError, InvalidParameter, NoRoute
from gantrymq.loose_json import loads
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

PULL = RequestCode.PULL_MESSAGE
QUEUE = MessageQueue("T", "a", 2)


def found(*records: bytes, suggest: int = 0) -> Command:
    ext = {"suggestWhichBrokerId": str(suggest), "nextBeginOffset": "9", "minOffset": "0", "maxOffset": "20"}
    return Command(0, ext=ext, body=b"".join(records))


def test_queues_are_sorted_and_asked_afresh(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "ba", queues=2) as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            assert [f"{q.broker_name}{q.queue_id}" for q in await consumer.queues("T")] == ["a0", "a1", "b0", "b1"]
            c.queues = 1
            assert len(await consumer.queues("T")) == 2

    simulate(work)


def test_pull_asks_what_java_asks(simulate, cluster, golden, record):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="CG_pull") as consumer,
        ):
            c.brokers["a"].answers[PULL] = found(record())
            await consumer.pull(QUEUE, 0, expression="t0")
            (asked,) = c.brokers["a"].of(PULL)
            recorded = golden("pull").ext
            differs = {name for name in {*asked.ext, *recorded} if asked.ext.get(name) != recorded.get(name)}
            assert differs == {"ReqT", "topic", "bname", "queueId", "suspendTimeoutMillis"}
            assert (asked.ext["topic"], asked.ext["bname"], asked.ext["queueId"]) == ("T", "a", "2")

    simulate(work)


def test_messages_come_with_where_to_go_on(simulate, cluster, record):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[PULL] = found(record(queue_offset=7), record(queue_offset=8))
            result = await consumer.pull(QUEUE, 7, max_count=2)
            assert [message.queue_offset for message in result.messages] == [7, 8]
            assert (result.status, result.next_offset, result.max_offset) == (PullStatus.FOUND, 9, 20)
            assert c.brokers["a"].of(PULL)[0].ext["maxMsgNums"] == "2"

    simulate(work)


def test_tags_are_filtered_a_second_time(simulate, cluster, record):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[PULL] = found(
                record(properties=b"TAGS\x01Aa\x02"), record(properties=b"TAGS\x01BB\x02")
            )
            c.brokers["a"].answers[RequestCode.CHECK_CLIENT_CONFIG] = Command(0)
            result = await consumer.pull(QUEUE, 0, expression="BB || C")
            assert [message.tags for message in result.messages] == ["BB"]
            whole = await consumer.pull(QUEUE, 0, expression="a > 1", expression_type="SQL92")
            assert len(whole.messages) == 2
            assert c.brokers["a"].of(PULL)[1].ext["expressionType"] == "SQL92"

    simulate(work)


def test_records_are_pulled_as_they_are_sent(simulate, cluster, record):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            records = [record(properties=b"TAGS\x01" + tag) for tag in (b"Aa", b"BB")]
            c.brokers["a"].answers[PULL] = found(*records, suggest=0)
            pulled = await consumer.pull_records(QUEUE, 3, expression="Aa", max_count=7)
            (asked,) = c.brokers["a"].of(PULL)
            assert (asked.ext["queueOffset"], asked.ext["maxMsgNums"], asked.ext["subscription"]) == ("3", "7", "Aa")
            assert (pulled.status, pulled.records, pulled.next_offset) == (PullStatus.FOUND, b"".join(records), 9)

    simulate(work)


def test_an_expression_is_checked_once_before_the_first_pull_with_it(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            broker = c.brokers["a"]
            broker.answers.update({PULL: found(), RequestCode.CHECK_CLIENT_CONFIG: Command(0)})
            for _ in range(2):
                await consumer.pull(QUEUE, 0, expression="a > 1", expression_type="SQL92")
            (checked,) = broker.of(RequestCode.CHECK_CLIENT_CONFIG)
            body = loads(checked.payload)
            assert (body["group"], body["clientId"] != "") == ("G", True)
            assert (body["subscriptionData"]["subString"], body["subscriptionData"]["topic"]) == ("a > 1", "T")
            await consumer.pull(QUEUE, 0, expression="a > 2", expression_type="SQL92")
            await consumer.pull(QUEUE, 0, expression="A || B")
            assert len(broker.of(RequestCode.CHECK_CLIENT_CONFIG)) == 2

    simulate(work)


def test_an_expression_that_the_broker_cannot_read_is_refused_and_nothing_pulled(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            broker = c.brokers["a"]
            broker.answers[RequestCode.CHECK_CLIENT_CONFIG] = Command(23, remark="character 4: a number is expected")
            for _ in range(2):
                with pytest.raises(BrokerRefused, match="character 4: a number is expected") as refused:
                    await consumer.pull(QUEUE, 0, expression="a >", expression_type="SQL92")
                assert refused.value.response_code == 23
            assert broker.of(PULL) == []

    simulate(work)


def test_held_pull_waits_longer_than_the_broker_holds_it(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[PULL] = None
            begun = world.clock.monotonic()
            with pytest.raises(CallTimeout):
                await consumer.pull(QUEUE, 0, suspend_ms=15_000)
            assert 24.9 < world.clock.monotonic() - begun < 25.5
            ext = c.brokers["a"].of(PULL)[0].ext
            assert (ext["sysFlag"], ext["suspendTimeoutMillis"]) == ("6", "15000")

    simulate(work)


def test_suggested_replica_is_asked_next(simulate, cluster, peer, record):
    async def work(world):
        slave = await peer(world, "slave", 10911).start()
        slave.answers[PULL] = found(record())
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.ns.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = Command(
                0,
                body=b'{"brokerDatas":[{"brokerAddrs":{0:"a:10911",1:"slave:10911"},"brokerName":"a","cluster":"C"}],'
                b'"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":4}]}',
            )
            c.brokers["a"].answers[PULL] = found(record(), suggest=1)
            for _ in range(3):
                await consumer.pull(QUEUE, 0)
            assert (len(c.brokers["a"].of(PULL)), len(slave.of(PULL))) == (2, 1)  # the slave suggests the master again
        await slave.stop()

    simulate(work)


def test_refused_pull_is_raised(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[PULL] = Command(16, remark="not readable")
            with pytest.raises(BrokerRefused, match="a:10911 answered code 16: not readable"):
                await consumer.pull(QUEUE, 0)
            with pytest.raises(NoRoute, match="broker z has no address"):
                await consumer.pull(MessageQueue("T", "z", 0), 0)

    simulate(work)


def test_offsets_are_asked_of_the_queues_broker(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.reader(group="G") as consumer:
            answers = c.brokers["a"].answers
            answers[RequestCode.GET_MIN_OFFSET] = Command(0, ext={"offset": "3"})
            answers[RequestCode.GET_MAX_OFFSET] = Command(0, ext={"offset": "20"})
            answers[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = Command(0, ext={"offset": "11"})
            assert (await consumer.min_offset(QUEUE), await consumer.max_offset(QUEUE)) == (3, 20)
            assert await consumer.offset_for_timestamp(QUEUE, 1_700_000_000_123) == 11
            asked = c.brokers["a"].of(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)[0].ext
            assert (asked["timestamp"], asked["boundaryType"], asked["queueId"]) == ("1700000000123", "LOWER", "2")

    simulate(work)


def test_offset_is_committed_and_read_back(simulate, cluster):
    async def work(world):
        kept: dict[str, str] = {}

        def commit(request):
            kept[request.ext["queueId"]] = request.ext["commitOffset"]
            return Command(0)

        def query(request):
            at = kept.get(request.ext["queueId"])
            return Command(22, remark="none") if at is None else Command(0, ext={"offset": at})

        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[RequestCode.UPDATE_CONSUMER_OFFSET] = commit
            c.brokers["a"].answers[RequestCode.QUERY_CONSUMER_OFFSET] = query
            c.brokers["a"].answers[RequestCode.GET_MAX_OFFSET] = Command(0, ext={"offset": "12"})
            assert await consumer.committed(QUEUE) is None
            await consumer.commit(QUEUE, 12)
            assert await consumer.committed(QUEUE) == 12
            c.brokers["a"].answers[RequestCode.QUERY_CONSUMER_OFFSET] = Command(1)
            with pytest.raises(BrokerRefused):
                await consumer.committed(QUEUE)

    simulate(work)


def test_places_outside_the_queue_are_not_committed(simulate, cluster, record):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            broker = c.brokers["a"]
            broker.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = Command(0)
            broker.answers[RequestCode.GET_MAX_OFFSET] = Command(0, ext={"offset": "30"})
            broker.answers[PULL] = found(record())
            with pytest.raises(InvalidParameter, match="offset -5 cannot be committed; the first one"):
                await consumer.commit(QUEUE, -5)
            assert (await consumer.pull(QUEUE, 0)).max_offset == 20
            await consumer.commit(QUEUE, 20)
            assert broker.of(RequestCode.GET_MAX_OFFSET) == []  # known from the pull
            with pytest.raises(ClientError, match="offset 31 cannot be committed: T, a, queue 2 ends at 30"):
                await consumer.commit(QUEUE, 31)
            await consumer.commit(QUEUE, 30)
            assert [r.ext["commitOffset"] for r in broker.of(RequestCode.UPDATE_CONSUMER_OFFSET)] == ["20", "30"]

    simulate(work)


@pytest.mark.parametrize("use", ["queues", "min_offset"])
def test_a_reader_that_is_closed_says_so(simulate, use):
    async def work(world):
        async with Client("ns:1", world=world) as client:
            reader = client.reader(group="G")
            await reader.close()
            with pytest.raises(ClientError, match="this Reader is closed; a Client creates a new one"):
                await getattr(reader, use)("T" if use == "queues" else QUEUE)

    simulate(work)
