"""Subscriptions of lite topics."""

import asyncio

import pytest

from gantrymq.errors import (
    GroupNotExist,
    LiteGroupMismatch,
    LiteSubscriptionQuotaExceeded,
    LiteTopicIllegal,
    NoPermission,
    RequestError,
    TopicNotExist,
)
from gantrymq.interfaces import LiteAction, LiteGroup, OffsetKind, OffsetOption
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig


def test_consumers_of_a_shared_group_share_a_lite_topic_in_turn(lite):
    async def work(served):
        first, second = served.client(), served.client("c2")
        await first.subscribe("a")
        await second.subscribe("a")
        waiting = {client: asyncio.ensure_future(client.receive(wait_ms=600_000)) for client in (first, second)}
        got = []
        for number in range(4):
            await served.clock.sleep(0.1)
            await served.send("a", str(number).encode())
            done, _ = await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
            ((client, task),) = [each for each in waiting.items() if each[1] in done]
            (message,) = task.result()
            got.append((client.client_id, message.body))
            await message.ack()
            waiting[client] = asyncio.ensure_future(client.receive(wait_ms=600_000))
        assert [body for _, body in got] == [b"0", b"1", b"2", b"3"]
        assert [who for who, _ in got] == ["c1", "c2", "c1", "c2"]
        for task in waiting.values():
            task.cancel()
        await asyncio.gather(*waiting.values(), return_exceptions=True)

    lite(work)


def test_groups_get_all_messages_each(lite):
    async def work(served):
        served.group("G2")
        first, second = served.client(), served.client("c1", "G2")
        for client in (first, second):
            await client.subscribe("a")
        await served.send("a", b"1")
        assert [await client.bodies() for client in (first, second)] == [[b"1"], [b"1"]]

    lite(work)


@pytest.mark.parametrize("reset", [False, True])
def test_a_new_consumer_of_an_exclusive_group_pushes_the_old_one_out(lite, reset):
    async def work(served):
        served.group("E", lite_sub_model="Exclusive", lite_sub_reset_offset_exclusive=str(reset).lower())
        first, second = served.client("c1", "E"), served.client("c2", "E")
        await first.subscribe("a", "b")
        await served.send("a", b"1")
        (message,) = await first.receive()
        await message.ack()
        await second.subscribe("a")
        (news,) = first.unsubscribed
        assert news == ("E", "c1", "P", "a")
        await served.send("a", b"2")
        await served.send("b", b"b1")
        assert await first.bodies() == [b"b1"]
        assert await second.bodies() == ([b"1", b"2"] if reset else [b"2"])
        await first.complete("a", "b")  # it did not get the news
        assert first.unsubscribed[1:] == [news]
        await served.send("a", b"3")
        assert await first.bodies() == []
        assert second.unsubscribed == []

    lite(work)


def test_a_complete_set_replaces_the_subscriptions(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a", "b")
        await client.complete("b", "c")
        for lite_topic in ("a", "b", "c"):
            await served.send(lite_topic, lite_topic.encode())
        assert sorted(await client.bodies()) == [b"b", b"c"]
        await client.unsubscribe("b")
        await client.subscribe(action=LiteAction.COMPLETE_REMOVE)
        await served.send("c", b"more")
        assert await client.bodies() == []
        await client.complete("a", "b", "c")
        assert sorted(await client.bodies()) == [b"a"]  # the others are delivered

    lite(work)


@pytest.mark.parametrize(
    ("option", "left"),
    [
        (None, [b"2"]),
        (OffsetOption(OffsetKind.POLICY, 0), [b"2"]),
        (OffsetOption(OffsetKind.POLICY, 1), [b"0", b"1", b"2"]),
        (OffsetOption(OffsetKind.POLICY, 2), []),
        (OffsetOption(OffsetKind.OFFSET, 1), [b"1", b"2"]),
        (OffsetOption(OffsetKind.OFFSET, 99), []),
        (OffsetOption(OffsetKind.TAIL_N, 1), [b"1", b"2"]),
        (OffsetOption(OffsetKind.TIMESTAMP, 0), [b"0", b"1", b"2"]),
    ],
)
def test_a_subscription_says_where_the_group_begins(lite, option, left):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        for number in range(3):
            await served.send("a", str(number).encode())
        for message in await client.receive(most=2):
            await message.ack()
        await client.unsubscribe("a")
        await client.subscribe("a", offset=option)
        assert await client.bodies() == left

    lite(work)


def test_an_unsubscription_may_reset_the_group(lite):
    async def work(served):
        served.group("R", lite_sub_reset_offset_unsubscribe="true")
        client = served.client("c1", "R")
        await client.subscribe("a")
        await served.send("a", b"1")
        (message,) = await client.receive()
        await message.ack()
        await client.unsubscribe("a")
        await client.subscribe("a")
        assert await client.bodies() == [b"1"]

    lite(work)


def test_a_reset_by_an_operator_is_seen_with_the_next_complete_set(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        await served.send("a", b"1")
        (message,) = await client.receive()
        await message.ack()
        served.broker.offsets.reset("G", Queue("%LMQ%$P$a", 0), 0)
        await client.complete("a")
        assert await client.bodies() == [b"1"]

    lite(work)


def test_more_subscriptions_than_allowed_are_refused_before_an_addition(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a", "b")
        await client.subscribe("c", "d")  # beyond the limit, as in RocketMQ
        with pytest.raises(LiteSubscriptionQuotaExceeded, match="maxLiteSubscriptionCount is 3"):
            await client.subscribe("e")
        await client.complete("a")
        await client.subscribe("e")

    lite(work, {"maxLiteSubscriptionCount": 3})


def test_a_silent_client_loses_its_subscriptions(lite):
    async def work(served):
        client, other = served.client(), served.client("c2")
        await client.subscribe("a")
        await other.subscribe("a")
        for _ in range(4):
            await served.clock.sleep(150.0)
            assert await other.bodies() == []
        subscriptions = served.lite._subscriptions
        assert (subscriptions.count, subscriptions.get("G", "c1")) == (1, None)
        served.lite.client_gone("G", "c2")
        assert subscriptions.count == 0

    lite(work)


def test_a_deleted_group_has_no_subscriptions(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        served.cluster.server.tables.groups.deleted("G")
        assert served.lite._subscriptions.count == 0

    lite(work)


@pytest.mark.parametrize(
    ("group", "topic", "error", "text"),
    [
        ("G", "none", TopicNotExist, r"-a \+message.type=LITE"),
        ("G", "plain", LiteGroupMismatch, "topic plain has no lite topics"),
        ("G", "P2", LiteGroupMismatch, r"group G asks for the lite topics of P2 and is bound to topic P; .*-a \+lite"),
        ("free", "P", LiteGroupMismatch, "is bound to no topic"),
        ("none", "P", GroupNotExist, r"create -g none -a \+lite.bind.topic=P"),
        ("off", "P", NoPermission, "consumeEnable=false"),
    ],
)
def test_who_may_not_consume_is_told_why(lite, group, topic, error, text):
    async def work(served):
        served.topic("P2")
        served.broker.topics.put(TopicConfig("plain"))
        groups = served.cluster.server.tables.groups
        groups.put(GroupConfig("free"))
        groups.put(GroupConfig("off", consume_enable=False, attributes={"lite.bind.topic": "P"}))
        client = served.client("c1", group)
        for call in (client.subscribe("a", topic=topic), client.complete("a"), client.receive(topic=topic)):
            if topic == "P" or call.__name__ != "complete":
                with pytest.raises(error, match=text):
                    await call
            else:
                call.close()
        assert served.lite.group("G") == LiteGroup("P", False, 2000)
        assert served.lite.group("free") is None

    lite(work)


def test_a_broker_without_light_queues_says_what_to_set(lite):
    async def work(served):
        client = served.client()
        for call in (client.subscribe("a"), client.receive(), served.send("a")):
            with pytest.raises(RequestError, match="set enableLmq=true and enableMultiDispatch=true"):
                await call

    lite(work, {"enableLmq": "false", "enableMultiDispatch": "false"})


def test_wrong_names_of_lite_topics_change_nothing(lite):
    async def work(served):
        client = served.client()
        for name in ("", "x" * 65, "a b", "a$b", "%a"):
            with pytest.raises(LiteTopicIllegal):
                await client.subscribe("good", name)
        assert served.lite._subscriptions.count == 0
        await client.subscribe()

    lite(work)
