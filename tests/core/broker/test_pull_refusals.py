"""Refusals of pulls, in RocketMQ's order: each test has everything wrong that is checked later."""

from __future__ import annotations

import pytest
from broker_desk import pull_ext

from gantrymq.loose_json import dumps
from gantrymq.model.data_version import DataVersion

HEARTBEAT_S = {"sysFlag": "0", "subscription": ""}  # a pull that relies on the group's heartbeat
WRONG = {"topic": "Unknown", "queueId": "99", "consumerGroup": "no good!", "sysFlag": "0"}


def test_1_a_broker_that_may_not_be_read(broker):
    async def main(desk):
        answer = await desk.ask(11, {**pull_ext("T"), **WRONG})
        assert (answer.code, answer.ext) == (16, {"forbiddenType": "1"})

    broker(main, brokerPermission=2)


def test_2_lite_pull_that_is_switched_off(broker):
    async def main(desk):
        answer = await desk.ask(361, {**pull_ext("T"), **WRONG})
        assert (answer.code, answer.ext) == (16, {"forbiddenType": "1"})
        assert "litePullMessageEnable" in answer.remark

    broker(main, litePullMessageEnable=False)


def test_3_a_group_that_cannot_be(broker):
    async def main(desk):
        assert (await desk.ask(11, {**pull_ext("T"), **WRONG})).code == 26

    broker(main)


def test_4_a_group_that_is_switched_off(broker):
    async def main(desk):
        await desk.ask(200, None, dumps({"groupName": "CG", "consumeEnable": False}))
        answer = await desk.ask(11, {**pull_ext("T"), **WRONG, "consumerGroup": "CG"})
        assert (answer.code, answer.ext) == (16, {"forbiddenType": "2"})

    broker(main)


def test_5_a_topic_that_is_not_there(broker):
    async def main(desk):
        answer = await desk.ask(11, {**pull_ext("T"), **WRONG, "consumerGroup": "CG"})
        assert answer.code == 17
        assert "gantrymq topic create -t Unknown" in answer.remark

    broker(main)


def test_6_a_topic_that_may_not_be_read(broker):
    async def main(desk):
        topic = {"topicName": "T", "perm": 2}
        await desk.ask(18, None, dumps({"topicConfigList": [topic]}))
        answer = await desk.ask(11, {**pull_ext("T"), "queueId": "99"})
        assert (answer.code, answer.ext) == (16, {"forbiddenType": "3"})

    broker(main)


@pytest.mark.parametrize("queue_id", ["4", "-1"])
def test_7_a_queue_outside_the_read_queues(broker, queue_id):
    async def main(desk):
        await desk.send("T")
        assert (await desk.ask(11, {**pull_ext("T"), **HEARTBEAT_S, "queueId": queue_id})).code == 29

    broker(main)


def test_8_a_group_that_is_not_online(broker):
    async def main(desk):
        await desk.send("T")
        assert (await desk.ask(11, {**pull_ext("T"), **HEARTBEAT_S})).code == 24

    broker(main)


def test_9_a_group_that_may_not_broadcast(broker):
    async def main(desk):
        await desk.send("T")
        await desk.ask(200, None, dumps({"groupName": "CG", "consumeBroadcastEnable": False}))
        await desk.heartbeat("CG", "Other", messageModel="BROADCASTING")
        answer = await desk.ask(11, {**pull_ext("T"), **HEARTBEAT_S})
        assert (answer.code, answer.ext) == (16, {"forbiddenType": "4"})

    broker(main)


def test_10_a_topic_that_is_forbidden_to_the_group(broker):
    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("CG", "Other")
        desk.tables.groups.load({}, {"CG": {"T": 4}}, DataVersion())
        answer = await desk.ask(11, {**pull_ext("T"), **HEARTBEAT_S})
        assert (answer.code, answer.ext) == (16, {"forbiddenType": "5"})

    broker(main)


def test_11_a_topic_the_group_does_not_subscribe_to(broker):
    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("CG", "Other")
        assert (await desk.ask(11, {**pull_ext("T"), **HEARTBEAT_S})).code == 24

    broker(main)


def test_12_a_subscription_newer_than_the_one_known(broker):
    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("CG", "T")
        assert (await desk.ask(11, {**pull_ext("T"), **HEARTBEAT_S, "subVersion": "2"})).code == 25
        assert (await desk.ask(11, {**pull_ext("T"), **HEARTBEAT_S, "subVersion": "1"})).code == 0

    broker(main)


def test_13_a_filter_type_that_is_switched_off_or_that_no_plugin_serves(broker):
    async def main(desk):
        await desk.send("T")
        answer = await desk.pull("T", expressionType="SQL92", subscription="a = 1")
        return answer.code, answer.remark

    code, remark = broker(main, enablePropertyFilter=False)
    assert code == 1
    assert "enablePropertyFilter=false" in remark
    code, remark = broker(main)
    assert code == 1
    assert "no plugin serves" in remark


def test_a_pull_without_a_needed_field_is_refused_by_name(broker):
    async def main(desk):
        ext = pull_ext("T")
        del ext["queueOffset"]
        answer = await desk.ask(11, ext)
        assert answer.code != 0
        assert "queueOffset" in answer.remark

    broker(main)
