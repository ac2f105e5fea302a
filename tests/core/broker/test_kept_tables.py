"""The broker can start with the files of its tables after any request that changes them."""

from __future__ import annotations

import asyncio

import pytest
from broker_desk import START_MS, Desk, settings_for, topic_ext

from gantrymq.broker import BrokerServer
from gantrymq.loose_json import dumps, loads
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulated import simulate

NUMBERS = (-1, -(2**31), 2**31, 2**31 - 1, 2**40, 2**63, 2**200, 1.5, "x", "1_0", True, [], {})


@pytest.fixture
def restarted(plugins):
    """Run ``await main(desk)`` against a broker, stop it, and start it again on the same files for *then*."""

    def run(main, then=None, **values):
        async def in_world(world):
            for use in (main, then):
                settings = settings_for(plugins, brokerName="broker-a", **values)
                desk = Desk(world, BrokerServer(world, settings, plugins))
                await desk.server.start()
                try:
                    if use is not None:
                        await use(desk)
                finally:
                    await desk.client.close()
                    await desk.server.stop()
            await world.workers.close()

        simulate(1, in_world, start_ms=START_MS, limit_s=1000)

    return run


@pytest.mark.parametrize(
    "member",
    [
        "retryQueueNums",
        "retryMaxTimes",
        "brokerId",
        "whichBrokerWhenConsumeSlowly",
        "groupSysFlag",
        "consumeTimeoutMinute",
    ],
)
def test_no_number_of_a_group_keeps_the_broker_from_starting_again(restarted, member):
    kept = {}

    async def ask(desk):
        for place, number in enumerate(NUMBERS):
            group = f"G{place}"
            answer = await desk.ask(200, None, dumps({"groupName": group, member: number}))
            if answer.code == 0:
                kept[group] = number
            else:
                assert answer.code == 29
                assert member in answer.remark
                assert group in answer.remark
            assert (await desk.heartbeat(group)).code == 0

    async def look(desk):
        for group, number in kept.items():
            assert loads((await desk.ask(352, {"group": group})).payload)[member] == number

    restarted(ask, look)
    fits = [2**31 - 1] if member not in ("brokerId", "whichBrokerWhenConsumeSlowly") else [2**31, 2**31 - 1, 2**40]
    assert list(kept.values()) == ([] if member.startswith("retry") else fits)


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"groupRetryPolicy": [1]}, "groupRetryPolicy"),
        ({"groupRetryPolicy": {"type": "SOMETIMES"}}, "SOMETIMES"),
        ({"groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [-5]}}}, "next"),
        ({"groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": ["soon"]}}}, "next"),
        ({"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": -1}}}, "initial"),
        ({"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"multiplier": 2**70}}}, "multiplier"),
        ({"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": 3}}, "exponentialRetryPolicy"),
        ({"subscriptionDataSet": [None, None]}, "subscriptionDataSet"),
        ({"subscriptionDataSet": {"topic": "T"}}, "subscriptionDataSet"),
        ({"subscriptionDataSet": [{"topic": [5]}]}, "topic"),
        ({"subscriptionDataSet": [{"topic": "T", "version": 2**70}]}, "version"),
        ({"attributes": [1]}, "attributes"),
        ({"attributes": "+a=b"}, "attributes"),
        ({"consumeEnable": "perhaps"}, "consumeEnable"),
    ],
)
def test_members_of_another_kind_are_refused_and_nothing_of_the_group_is_kept(restarted, members, says):
    async def ask(desk):
        answer = await desk.ask(200, None, dumps({"groupName": "CG", **members}, keep_nulls=True))
        assert answer.code == 29
        assert "group CG" in answer.remark
        assert says in answer.remark
        assert "has no attribute" not in answer.remark  # no string of Python's own
        several = {"groupConfigList": [{"groupName": "Fine"}, {"groupName": "CG", **members}]}
        assert (await desk.ask(225, None, dumps(several, keep_nulls=True))).code == 29
        assert (await desk.ask(352, {"group": "Fine"})).code == 26

    restarted(ask)


def test_what_a_java_broker_keeps_of_a_group_is_kept(restarted):
    policy = {
        "type": "EXPONENTIAL",
        "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2},
        "customizedRetryPolicy": {"next": [1000, 5000]},
    }
    wanted = [{"topic": "T", "expressionType": "TAG", "expression": "*", "version": 5}]
    given = {"groupName": "CG", "groupRetryPolicy": policy, "subscriptionDataSet": wanted, "retryQueueNums": 0}

    async def ask(desk):
        assert (await desk.ask(200, None, dumps(given))).code == 0
        assert (await desk.ask(200, None, dumps({"groupName": "Nulls", "attributes": None}, keep_nulls=True))).code == 0

    async def look(desk):
        found = loads((await desk.ask(352, {"group": "CG"})).payload)
        assert {name: found[name] for name in given} == given

    restarted(ask, look)


def test_the_limits_of_a_group_are_settings(restarted):
    async def ask(desk):
        answer = await desk.ask(200, None, dumps({"groupName": "CG", "retryQueueNums": 9}))
        assert answer.remark == "group CG: retryQueueNums 9 is not between 0 and 8 (the setting maxRetryQueueNums)"
        answer = await desk.ask(200, None, dumps({"groupName": "CG", "retryMaxTimes": 1001}))
        assert "retryMaxTimes 1001 is not between 0 and 1000" in answer.remark
        assert "maxRetryTimes" in answer.remark
        fits = {"groupName": "CG", "retryQueueNums": 8, "retryMaxTimes": 1000}
        assert (await desk.ask(200, None, dumps(fits))).code == 0

    restarted(ask, maxRetryQueueNums=8, maxRetryTimes=1000)


def test_a_group_above_a_limit_that_was_lowered_can_be_changed_but_gets_no_more(restarted):
    async def ask(desk):
        wide = {"groupName": "CG", "retryQueueNums": 64}
        assert (await desk.ask(200, None, dumps(wide))).code == 0
        desk.server.settings.set("maxRetryQueueNums", 4, "the test")
        assert (await desk.ask(200, None, dumps({**wide, "retryMaxTimes": 3}))).code == 0
        assert (await desk.ask(200, None, dumps({**wide, "retryQueueNums": 65}))).code == 29
        assert (await desk.heartbeat("CG")).code == 0
        assert desk.tables.topics.get("%RETRY%CG").read_queues == 4

    restarted(ask)


@pytest.mark.parametrize("number", [number for number in NUMBERS if number != 2**31 - 1])
@pytest.mark.parametrize("code", [17, 18])
def test_no_number_of_a_topic_keeps_the_broker_from_starting_again(restarted, number, code):
    async def ask(desk):
        for place, member in enumerate(("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")):
            members = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0, member: number}
            if code == 17:
                ext = {name: str(value) for name, value in members.items()}
                ext |= {"topic": f"T{place}", "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG"}
                answer = await desk.ask(17, ext)
            else:
                topics = [{"topicName": f"T{place}", **members}]
                answer = await desk.ask(18, None, dumps({"topicConfigList": topics}))
            assert answer.code != 0
            assert member in answer.remark

    restarted(ask)


def test_the_queues_of_a_topic_are_limited_by_a_setting(restarted):
    async def ask(desk):
        answer = await create(desk, "T", 17)
        assert answer.code == 29
        assert answer.remark == "topic T: readQueueNums 17 is not between 0 and 16 (the setting maxTopicQueueNums)"
        assert (await create(desk, "T", 16)).code == 0
        answer = await desk.send("Automatic", default_topic="TBW102", default_topic_queue_nums=1000)
        assert answer.code == 0
        assert desk.tables.topics.get("Automatic").read_queues == 16

    restarted(ask, maxTopicQueueNums=16, defaultTopicQueueNums=1024)


def test_a_topic_above_a_limit_that_was_lowered_can_be_changed_but_gets_no_more(restarted):
    async def ask(desk):
        assert (await create(desk, "T", 64)).code == 0
        desk.server.settings.set("maxTopicQueueNums", 4, "the test")
        assert (await create(desk, "T", 64, perm="4")).code == 0
        assert (await create(desk, "T", 65)).code == 29
        assert (await create(desk, "T", 5)).code == 0

    restarted(ask)


def test_what_a_plugin_or_a_setting_asks_for_passes_the_same_check(restarted):
    async def ask(desk):
        for topic in (TopicConfig("T", -1, 4), TopicConfig("T", 4, 2**31), TopicConfig("T", perm=-1)):
            with pytest.raises(Exception, match="topic T: .* is not between 0 and 2147483647"):
                desk.tables.topics.put(topic)
        assert desk.tables.topics.get("T") is None

    restarted(ask, defaultTopicQueueNums=65536)


async def create(desk, topic, queues, **fields):
    """Request 17."""
    return await desk.ask(17, topic_ext(topic, queues, **fields))


async def answered_in_slices(desk, monkeypatch, code):
    """Ask about a topic with many queues, and check that others are served meanwhile."""
    queues = 2000
    assert (await create(desk, "T", queues)).code == 0
    assert (await desk.ask(200, None, dumps({"groupName": "CG"}))).code == 0
    for number in range(40 if code == 308 else 1):
        for queue_id in range(queues):
            desk.tables.offsets.commit(f"CG{number or ''}", Queue("T", queue_id), 0)
    turns, seen, bounds = 0, [], desk.server.store.bounds

    async def others():
        nonlocal turns
        for _ in range(queues // 4):
            await desk.clock.sleep(0)
            turns += 1

    def counted(queue):
        if not seen:
            waiting.append(asyncio.ensure_future(others()))
        seen.append(turns)
        return bounds(queue)

    waiting = []
    monkeypatch.setattr(desk.server.store, "bounds", counted)
    fields = {"topic": "T", "group": "CG", "consumerGroup": "CG", "timestamp": "-1", "isForce": "true"}
    answer = await desk.ask(code, {**fields, "compareGroup": "CG", "filterGroups": ""})
    await waiting[0]
    assert answer.code == 0
    assert len(answer.payload) > queues * 5
    assert seen[-1] > 20


def test_an_answer_about_many_queues_is_made_in_slices(broker, monkeypatch):
    broker(lambda desk: answered_in_slices(desk, monkeypatch, 202))
