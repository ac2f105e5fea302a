"""Every call of `client.admin` on Java's servers 4.9.7 and 5.3.3 and on ours."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from harness import GantryServer
from polling import until

from gantrymq.client import Admin, Client, Message, ReceivedMessage
from gantrymq.client.admin import CLEANINGS, OffsetTarget, RequestNotServed
from gantrymq.errors import BrokerRefused, GroupNotExist, NoMessageFound, NoRoute
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig

pytestmark = pytest.mark.interop

DEADLINE_S = 60.0
QUEUES = 2
MANY = 200
OLD = r"does not serve {} \({}\): RocketMQ 4.9 does not, 5.x does"
Got = TypeVar("Got")


class Servers:
    def __init__(self, version: str, namesrv: str) -> None:
        self.version = version
        self.namesrv = namesrv

    def ask(self, work: Callable[[Client, str], Awaitable[Got]]) -> Got:
        """Call *work* with a client and the broker's address, and return its result."""

        async def run() -> Got:
            async with Client(self.namesrv) as client:
                (broker,) = await client.admin.masters()
                return await work(client, broker)

        return asyncio.run(run())


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3", "ours"])
def servers(
    request: pytest.FixtureRequest, java_servers: Callable[[str], tuple[str, str]], ours: GantryServer
) -> Servers:
    return Servers(request.param, ours.namesrv if request.param == "ours" else java_servers(request.param)[0])


async def routed(admin: Admin, topic: str) -> None:
    """Wait until name servers know a topic."""

    async def known() -> bool:
        return topic in await admin.topics()

    await until(known, f"topic {topic} at the name server")


async def sent(client: Client, topic: str, count: int) -> list[tuple[str, str]]:
    """Send to each queue in turn; unique and offset ids."""
    producer = client.producer(f"{topic}-producers")
    queues = await producer.queues(topic)
    results = [
        await producer.send(Message(topic, b"%d" % n, keys=f"key{n}"), queues[n % len(queues)]) for n in range(count)
    ]
    return [(each.message_id, each.offset_id) for each in results]


def test_topics(servers: Servers, topic: str) -> None:
    async def work(client: Client, broker: str) -> None:
        admin = client.admin
        assert await admin.create_topic_in(TopicConfig(topic, QUEUES, QUEUES)) == (broker,)
        await routed(admin, topic)
        (cluster,) = (await admin.clusters()).clusters
        assert await admin.topic_clusters(topic) == (cluster,)
        assert topic in await admin.topics_of_cluster(cluster)
        assert (await admin.topic_configs(broker))[topic].read_queues == QUEUES
        if servers.version == "4.9.7":
            with pytest.raises(RequestNotServed, match=OLD.format("GET_TOPIC_CONFIG", 351)):
                await admin.topic_config(broker, topic)
        else:
            assert (await admin.topic_config(broker, topic)).write_queues == QUEUES
        await sent(client, topic, 3)
        stats = list((await admin.topic_status(topic)).values())
        assert ([each.count for each in stats], all(each.updated_ms for each in stats)) == ([2, 1], True)
        if servers.version == "5.3.3":  # its timer is off in these tests, and this call fails without it
            with pytest.raises(BrokerRefused, match="TimerMessageStore"):
                await admin.delete_topic(topic)
            return
        assert await admin.delete_topic(topic) == (broker,)
        assert topic not in await admin.topics()
        with pytest.raises(NoRoute, match=f"no name server knows topic {topic}"):
            await admin.route(topic)

    servers.ask(work)


def test_groups(servers: Servers, topic: str) -> None:
    async def work(client: Client, broker: str) -> None:
        admin, group = client.admin, f"{topic}-group"
        assert await admin.create_group_in(GroupConfig(group, retry_max_times=3)) == (broker,)
        assert (await admin.groups(broker))[group].retry_max_times == 3
        assert (await admin.group_config(broker, group)).retry_max_times == 3
        assert await admin.consumer_connections(broker, group) is None
        assert await admin.members(broker, group) == ()
        await admin.delete_group(broker, group, clean_offsets=True)
        assert group not in await admin.groups(broker)
        if servers.version == "4.9.7":
            with pytest.raises(GroupNotExist, match=f"broker {broker} knows no group {group}"):
                await admin.group_config(broker, group)

    servers.ask(work)


def test_members_and_what_they_do(servers: Servers, topic: str) -> None:
    """Our producer and consumer are online; the consumer reports its state, and consumes one message directly."""

    async def work(client: Client, broker: str) -> None:
        admin, group, taken = client.admin, f"{topic}-group", list[ReceivedMessage]()
        await admin.create_topic(broker, TopicConfig(topic, QUEUES, QUEUES))
        await routed(admin, topic)
        ids = await sent(client, topic, 4)

        async def take(message: ReceivedMessage) -> None:
            taken.append(message)

        consumer = client.consumer(group, topic, expression="*", consume_from="first")
        run = asyncio.create_task(consumer.run(take))
        await consumer.wait_assigned(DEADLINE_S)

        async def consumed() -> bool:
            return len(taken) >= 4 and group in await admin.groups_of_topic(broker, topic)

        await until(consumed, "four messages")
        (member,) = await admin.members(broker, group)
        found = await admin.consumer_connections(broker, group)
        assert found is not None
        assert [each.client_id for each in found.clients] == [member]
        assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
        assert topic in [each.topic for each in found.subscriptions]
        (producing,) = await admin.producer_connections(broker, f"{topic}-producers")
        assert producing.client_id == member
        assert [each.client_id for each in (await admin.producers(broker))[f"{topic}-producers"]] == [member]
        if servers.version == "4.9.7":
            with pytest.raises(RequestNotServed, match=OLD.format("QUERY_TOPICS_BY_CONSUMER", 343)):
                await admin.topics_of_group(broker, group)
            with pytest.raises(RequestNotServed, match=OLD.format("QUERY_SUBSCRIPTION_BY_CONSUMER", 345)):
                await admin.subscription(broker, group, topic)
        else:
            assert topic in await admin.topics_of_group(broker, group)
            wanted = await admin.subscription(broker, group, topic)
            assert (wanted is not None and wanted.expression) == "*"
        info = await admin.running_info(broker, group, member)
        assert {queue.queue_id for queue in info.queues if queue.topic == topic} == set(range(QUEUES))
        assert info.properties["consumerGroup"] == group
        assert topic in [each.topic for each in info.subscriptions]
        given = await admin.consume_directly(broker, group, member, ids[0][1])
        assert (given.succeeded, given.remark, given.orderly) == (True, "", False)
        assert [message.body for message in taken[4:]] == [b"0"]
        await consumer.close()
        await run
        progress = await admin.group_progress(broker, group, topic)
        assert [(each.committed, each.lag) for each in progress.values()] == [(2, 0)] * QUEUES
        assert [each.committed for each in (await admin.broker_progress(broker))[group].values()][-QUEUES:] == [2, 2]
        times = await admin.group_times(broker, group, topic)
        assert [each.late_ms for each in times.values()] == [0, 0]
        assert all(0 < each.oldest_ms <= each.newest_ms for each in times.values())

    servers.ask(work)


def test_offsets_and_resets(servers: Servers, topic: str) -> None:
    async def work(client: Client, broker: str) -> None:
        admin, group, copy = client.admin, f"{topic}-group", f"{topic}-copy"
        await admin.create_topic(broker, TopicConfig(topic, QUEUES, QUEUES))
        await admin.create_group(broker, GroupConfig(group))
        await routed(admin, topic)
        await sent(client, topic, 6)
        queues = sorted(await admin.topic_status(topic))
        first = queues[0]
        assert [await admin.min_offset(each) for each in queues] == [0, 0]
        assert [await admin.max_offset(each) for each in queues] == [3, 3]
        oldest = await admin.oldest_stored_ms(first)
        assert oldest is not None
        assert await admin.offset_for_timestamp(first, oldest) == 0
        await admin.commit_offset(group, first, 2)
        assert await admin.committed_offset(group, first) == 2

        def places(name: str) -> Awaitable[dict[MessageQueue, int]]:
            return admin.committed_offsets(name, topic)

        for target, there in (
            (OffsetTarget.earliest(), 0),
            (OffsetTarget.at_offset(2), 2),
            (OffsetTarget.at_time(oldest), 0),
            (OffsetTarget.latest(), 3),
            (OffsetTarget.at_offset(1), 1),
        ):
            looked = await admin.reset_offsets(group, topic, target, dry_run=True)
            done = await admin.reset_offsets(group, topic, target)
            assert looked.moves == done.moves
            assert await places(group) == dict.fromkeys(queues, there)
        await admin.reset_offsets(group, topic, OffsetTarget.latest(), queue_id=1)
        (cloned,) = await admin.clone_offsets(group, copy, topic)
        assert (cloned.topic, await places(copy)) == (topic, {queues[0]: 1, queues[1]: 3})
        assert (await admin.skip_messages(copy, topic)).skipped == 2
        assert await places(copy) == dict.fromkeys(queues, 3)

    servers.ask(work)


def test_messages_and_entries(servers: Servers, topic: str) -> None:
    async def work(client: Client, broker: str) -> None:
        admin = client.admin
        await admin.create_topic(broker, TopicConfig(topic, QUEUES, QUEUES))
        await routed(admin, topic)
        ids = await sent(client, topic, 4)

        async def indexed() -> list[ReceivedMessage]:
            try:
                return await admin.query_message(topic, "key3")
            except NoMessageFound:
                return []

        (found,) = await until(indexed, "a message by its key")
        assert (found.body, found.message_id, found.offset_id) == (b"3", *ids[3])
        assert [each.body for each in await admin.query_unique(topic, ids[3][0])] == [b"3"]
        assert (await admin.view_message(ids[1][1])).body == b"1"
        with pytest.raises(NoMessageFound):
            await admin.query_message(topic, "key3", end_ms=found.store_timestamp - 5000)
        entries = await admin.queue_entries(broker, topic, 1, 0, 10)
        assert (entries.min_offset, entries.max_offset, len(entries.entries)) == (0, 2, 2)
        assert found.log_offset == entries.entries[1].log_offset

        producer = client.producer(f"{topic}-producers")
        for number in range(MANY):
            await producer.send(Message(topic, b"%d" % number, keys="same", tags="A" if number % 10 == 0 else "B"))

        async def last_indexed() -> bool:
            page = await admin.query_message_page(topic, "same")
            return bool(page.messages) and page.messages[0].body == b"%d" % (MANY - 1)

        await until(last_indexed, "the last message by its key")
        page = await admin.query_message_page(topic, "same")
        by_key, hidden = list(page.messages), page.hidden
        assert page.more
        while page.next_end_ms is not None:
            page = await admin.query_message_page(topic, "same", end_ms=page.next_end_ms)
            by_key += page.messages
            hidden = hidden or page.hidden
        numbers = [int(each.body) for each in by_key]
        assert numbers == sorted(set(numbers), reverse=True)
        assert len(numbers) == MANY or (hidden and len(numbers) >= 64)  # if they were stored within a second

        reader = client.reader(topic)
        first = await reader.read_back(max_count=60)
        rest = await reader.read_back(first.ends, max_count=1000)
        assert (len(first.messages), len(rest.messages), first.more, rest.more) == (60, MANY + 4 - 60, True, False)
        times = [each.store_timestamp for each in (*first.messages, *rest.messages)]
        assert times == sorted(times, reverse=True)
        tagged = await reader.read_back(expression="A", max_count=1000)
        assert sorted(int(each.body) for each in tagged.messages) == list(range(0, MANY, 10))
        before = await reader.read_back(before_ms=times[50], max_count=1000)
        assert [each.store_timestamp for each in before.messages] == [each for each in times if each < times[50]]

    servers.ask(work)


def test_settings_and_the_key_value_table(servers: Servers, topic: str) -> None:
    async def work(client: Client, broker: str) -> None:
        admin = client.admin
        for value in ("false", "true"):  # the latter again, for other tests that share it
            await admin.change_broker_settings(broker, {"traceOn": value})
            assert (await admin.broker_settings(broker))["traceOn"] == value
        assert await admin.change_name_server_settings({"orderMessageEnable": "false"}) == admin.name_servers
        assert (await admin.name_server_settings())["orderMessageEnable"] == "false"
        assert (await admin.kv_value(topic, "k"), await admin.kv_values(topic)) == (None, {})
        await admin.put_kv_value(topic, "k", "v:1;w:2")
        assert (await admin.kv_value(topic, "k"), await admin.kv_values(topic)) == ("v:1;w:2", {"k": "v:1;w:2"})
        await admin.delete_kv_value(topic, "k")
        assert await admin.kv_value(topic, "k") is None

    servers.ask(work)


def test_a_broker(servers: Servers, topic: str) -> None:
    async def work(client: Client, broker: str) -> None:
        admin = client.admin
        await admin.create_topic(broker, TopicConfig(topic, QUEUES, QUEUES))
        await routed(admin, topic)
        await sent(client, topic, 2)
        assert (await admin.runtime_info(broker))["brokerVersionDesc"]
        assert [await admin.clean(broker, what) is None for what in CLEANINGS] == [False] * 3

        async def counted() -> bool:
            try:
                return (await admin.counter(broker, "TOPIC_PUT_NUMS", topic)).minute.sum == 2
            except BrokerRefused:
                return False

        await until(counted, "a counter of two messages")  # Java's brokers check them every 10 s
        name = (await admin.route(topic)).brokers[0].name
        (wiped,) = (await admin.wipe_write_permission(name)).values()
        assert wiped > 0
        assert (await admin.route(topic)).publish_queues(topic) == ()
        (added,) = (await admin.add_write_permission(name)).values()
        assert (added, len((await admin.route(topic)).publish_queues(topic))) == (wiped, QUEUES)

    servers.ask(work)
