"""Requests about groups: 200, 225, 201, 352, 207."""

from __future__ import annotations

import pytest
from broker_desk import body_of

from gantrymq.loose_json import dumps, loads


def test_a_created_group_is_told_member_by_member(broker):
    async def main(desk):
        assert (await desk.ask(200, None, dumps({"groupName": "CG", "retryMaxTimes": 3}))).code == 0
        assert body_of(await desk.ask(352, {"group": "CG"})) == {
            "attributes": {},
            "brokerId": 0,
            "consumeBroadcastEnable": True,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeMessageOrderly": False,
            "consumeTimeoutMinute": 15,
            "groupName": "CG",
            "groupRetryPolicy": {"type": "CUSTOMIZED"},
            "groupSysFlag": 0,
            "notifyConsumerIdsChangedEnable": True,
            "retryMaxTimes": 3,
            "retryQueueNums": 1,
            "whichBrokerWhenConsumeSlowly": 1,
        }
        assert (await desk.ask(352, {"group": "Unknown"})).code == 26

    broker(main)


@pytest.mark.parametrize("name", ["a b", "", "g" * 121, None])
def test_a_group_whose_name_is_illegal_is_refused(broker, name):
    async def main(desk):
        assert (await desk.ask(200, None, dumps({"groupName": name}))).code == 29

    broker(main)


def test_several_groups_come_at_once_and_the_table_page_by_page(broker):
    async def main(desk):
        wanted = [{"groupName": f"G{number}"} for number in range(7)]
        assert (await desk.ask(225, None, dumps({"groupConfigList": wanted}))).code == 0
        everything = body_of(await desk.ask(201))
        assert set(everything) == {"dataVersion", "forbiddenTable", "subscriptionGroupTable"}
        table = everything["subscriptionGroupTable"]
        assert {"G0", "G6", "TOOLS_CONSUMER"} <= set(table)
        paged = {}
        while len(paged) < len(table):
            answer = await desk.ask(201, {"groupSeq": str(len(paged)), "maxGroupNum": "4"})
            assert answer.ext["totalGroupNum"] == str(len(table))
            paged.update(body_of(answer)["subscriptionGroupTable"])
        assert paged == table

    broker(main)


@pytest.mark.parametrize(("clean", "left"), [("true", {}), ("false", {"T@CG": {0: 1}})])
def test_a_deleted_group_keeps_its_offsets_unless_asked(broker, clean, left):
    async def main(desk):
        await desk.send("T")
        await desk.ask(200, None, dumps({"groupName": "CG"}))
        await desk.ask(15, {"consumerGroup": "CG", "topic": "T", "queueId": "0", "commitOffset": "1"})
        assert (await desk.ask(207, {"groupName": "CG", "cleanOffset": clean})).code == 0
        assert (await desk.ask(352, {"group": "CG"})).code == 26
        assert body_of(await desk.ask(43))["offsetTable"] == left
        if clean == "true":  # by the time of the answer
            saved = desk.world.files.read(desk.server.root / "config" / "consumerOffset.json")
            assert loads(saved)["offsetTable"] == left

    broker(main)


def test_created_groups_are_there_after_a_restart(broker):
    async def main(desk):
        await desk.ask(200, None, dumps({"groupName": "CG", "retryQueueNums": 4}))
        stored = desk.world.files.read(desk.server.root / "config" / "subscriptionGroup.json")
        assert b'"retryQueueNums":4' in stored

    broker(main)


@pytest.mark.parametrize(
    ("code", "body"), [(200, lambda group: group), (225, lambda group: {"groupConfigList": [group]})]
)
def test_a_change_keeps_the_attributes_that_it_does_not_name(broker, code, body):
    async def main(desk):
        for change in ({"attributes": {"+filter": "TAG:: A"}}, {"retryMaxTimes": 3}):
            assert (await desk.ask(code, None, dumps(body({"groupName": "CG", **change})))).code == 0
        config = body_of(await desk.ask(352, {"group": "CG"}))
        assert (config["retryMaxTimes"], config["attributes"]) == (3, {"filter": "TAG:: A"})
        wrong = {"groupName": "CG", "retryMaxTimes": 4, "attributes": {"+no.such": "1"}}
        assert (await desk.ask(code, None, dumps(body(wrong)))).code == 1
        assert body_of(await desk.ask(352, {"group": "CG"})) == config

    broker(main)


RETRIES = ("%RETRY%CG", "%RETRY%CG_T", "%RETRY%CG+T", "%RETRY%CG_Other")


@pytest.mark.parametrize(
    ("clean", "gone"), [("true", {"%RETRY%CG", "%RETRY%CG_T", "%RETRY%CG+T"}), ("false", set())], ids=["clean", "keep"]
)
def test_retry_topics_go_with_a_group_that_is_deleted_with_its_offsets(broker, clean, gone):
    async def main(desk):
        await desk.send("T")
        for name in (*RETRIES, "%DLQ%CG"):
            desk.tables.topics.create_retry(name, 1)
        for name in ("CG", "CG_Other"):
            await desk.ask(200, None, dumps({"groupName": name}))
        for topic in ("T", "Other"):  # a topic name for which the retry topic equals another group's own
            await desk.send(topic)
            await desk.ask(15, {"consumerGroup": "CG", "topic": topic, "queueId": "0", "commitOffset": "1"})
        desk.tables.stats.dead_letters["T", "CG"] += 1
        await desk.pull("T")
        assert (await desk.ask(207, {"groupName": "CG", "cleanOffset": clean})).code == 0
        topics = set(desk.tables.topics.view)
        assert set(RETRIES) - topics == gone
        assert {"%DLQ%CG", "T", "Other"} <= topics
        stats = desk.tables.stats
        assert bool(stats.dead_letters) == bool(stats.gets.known()) == (clean == "false")
        saved = loads(desk.world.files.read(desk.server.root / "config" / "topics.json"))
        assert not gone & set(saved["topicConfigTable"])

    broker(main)


def test_retry_topics_and_locks_of_a_deleted_group_stay_while_it_has_members(broker):
    """The next heartbeat creates the group again, and its retry topic has the messages sent back."""

    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("CG", "T")
        desk.tables.topics.create_retry("%RETRY%CG_T", 1)
        await desk.ask(15, {"consumerGroup": "CG", "topic": "T", "queueId": "0", "commitOffset": "1"})
        lock = {"consumerGroup": "CG", "clientId": "c1", "mqSet": [{"brokerName": "b", "topic": "T", "queueId": 0}]}
        await desk.ask(41, None, dumps(lock))
        assert desk.tables.locks.any_held("CG")
        assert (await desk.ask(207, {"groupName": "CG", "cleanOffset": "true"})).code == 0
        assert desk.tables.groups.get("CG") is None
        assert not desk.tables.offsets.topics_of("CG")
        assert {"%RETRY%CG", "%RETRY%CG_T"} <= set(desk.tables.topics.view)
        assert desk.tables.locks.any_held("CG")

    broker(main)


@pytest.mark.parametrize("request_", [(207, {"groupName": "a_b", "cleanOffset": "true"}), (215, {"topic": "c"})])
def test_a_retry_topic_that_another_group_has_too_stays(broker, request_):
    """Group a_b pops topic c, and group a pops topic b_c: both have %RETRY%a_b_c."""

    async def main(desk):
        for group, topic in (("a_b", "c"), ("a", "b_c"), ("a_b", "d")):
            await desk.send(topic)
            await desk.ask(200, None, dumps({"groupName": group}))
            await desk.ask(15, {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "1"})
            desk.tables.topics.create_retry(f"%RETRY%{group}_{topic}", 1)
        assert (await desk.ask(*request_)).code == 0
        assert "%RETRY%a_b_c" in desk.tables.topics.view
        assert ("%RETRY%a_b_d" in desk.tables.topics.view) == (request_[0] == 215)

    broker(main)


def test_nothing_goes_with_a_topic_that_must_not_be_deleted(broker):
    async def main(desk):
        await desk.ask(200, None, dumps({"groupName": "CG"}))
        await desk.ask(15, {"consumerGroup": "CG", "topic": "SELF_TEST_TOPIC", "queueId": "0", "commitOffset": "0"})
        desk.tables.topics.create_retry("%RETRY%CG_SELF_TEST_TOPIC", 1)
        assert (await desk.ask(215, {"topic": "SELF_TEST_TOPIC"})).code != 0
        assert "%RETRY%CG_SELF_TEST_TOPIC" in desk.tables.topics.view

    broker(main)
