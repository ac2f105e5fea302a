"""Lite topics: requests for them that are refused."""

import json

import pytest

pytest.importorskip("gantrymq_lite")

from gantrymq.remoting.codes import RequestCode

PLUGINS = "filter_tag,storage_mmap,lite"
LIGHT = {"plugins": PLUGINS, "enableLmq": True, "enableMultiDispatch": True}


def named(lite_topic):
    return f"__LITE_TOPIC\x01{lite_topic}\x02"


def subscribe(peer, group, *lite_topics):
    change = {"action": "PARTIAL_ADD", "clientId": "c", "group": group, "topic": "P", "liteTopicSet": lite_topics}
    return peer.ask(RequestCode.LITE_SUBSCRIPTION_CTL, {}, json.dumps({"subscriptionSet": [change]}).encode())


@pytest.fixture
def peer(broker_with):
    """A peer of a broker with the parent topic P, the group bound, and one subscription allowed."""
    with broker_with(**LIGHT, maxLiteSubscriptionCount=1).peer() as peer:
        assert peer.create_topic("P", attributes="+message.type=LITE").code == 0
        for group, attributes in (("bound", {"+lite.bind.topic": "P"}), ("free", {})):
            config = json.dumps({"groupName": group, "attributes": attributes}).encode()
            assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, config).code == 0
        yield peer


def test_bi416_a_lite_topic_of_a_topic_without_lite_topics(peer, row):
    answer = peer.send("T", b"x", named("a"))
    row.check(answer.remark, answer.code, lite_topic="a", topic="T")


@pytest.mark.parametrize("name", ["a b", "a$b", "%LMQ%a"])
def test_bi417_a_name_that_is_no_lite_topic_s(peer, row, name):
    for answer in (peer.send("P", b"x", named(name)), subscribe(peer, "bound", name)):
        row.check(answer.remark, answer.code, name=repr(name))
    assert peer.send("P", b"x", named("a" * 65)).code == 29


def test_bi418_lite_topics_without_light_queues(broker_with, row):
    with broker_with(plugins=PLUGINS).peer() as peer:
        assert peer.create_topic("P", attributes="+message.type=LITE").code == 0
        answer = peer.send("P", b"x", named("a"))
        row.check(answer.remark, answer.code, settings="enableLmq=true and enableMultiDispatch=true")


def test_bi419_a_group_that_is_not_bound(peer, row):
    answer = subscribe(peer, "free", "a")
    row.check(answer.remark, answer.code, group="free", topic="P", bound="no topic")


def test_bi420_one_subscription_too_many(peer, row):
    assert subscribe(peer, "bound", "a").code == 0
    answer = subscribe(peer, "bound", "b")
    row.check(answer.remark, answer.code, count=1, most=1)
