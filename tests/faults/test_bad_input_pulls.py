"""Pulls and offsets that cannot be served."""

import pytest

from gantrymq.remoting.codes import RequestCode


@pytest.fixture
def stocked(broker):
    """A broker whose topic T has 4 queues and a message in the first."""
    with broker.peer() as peer:
        assert peer.send("T", e=0).code == 0
    return broker


@pytest.fixture
def refuses(stocked, row):
    """Pull from the broker; compare code and sentence with the row."""

    def check(topic="T", fields=(), /, **values):
        with stocked.peer() as peer:
            answer = peer.pull(topic, **dict(fields))
            row.check(answer.remark, answer.code, **values)
            return answer

    return check


def test_bi48_a_pull_from_an_unknown_topic(refuses):
    refuses("Nope", topic="Nope")


def test_bi49_a_pull_from_a_topic_that_may_not_be_read(stocked, refuses):
    with stocked.peer() as peer:
        assert peer.create_topic("WriteOnly", perm=2).code == 0
    assert refuses("WriteOnly", topic="WriteOnly", perm=2).ext == {"forbiddenType": "3"}


@pytest.mark.parametrize("queue", [-1, 4])
def test_bi50_a_pull_from_a_queue_that_the_topic_does_not_have(refuses, queue):
    refuses("T", {"queueId": queue}, queue=queue, topic="T", count=4)


def test_bi51_a_pull_of_an_unknown_group_that_may_not_be_made(broker_with, row):
    broker = broker_with(autoCreateSubscriptionGroup=False)
    with broker.peer() as peer:
        assert peer.create_topic("T").code == 0
        answer = peer.pull("T", consumerGroup="Nobody")
        row.check(answer.remark, answer.code, group="Nobody")


def test_bi52_a_group_name_with_a_slash(refuses):
    refuses("T", {"consumerGroup": "a/b"}, group="'a/b'")


def test_bi53_a_pull_before_the_heartbeat(refuses):
    refuses("T", {"consumerGroup": "Early", "sysFlag": 0}, group="Early")


def test_bi54_a_tag_expression_of_separators_only(refuses):
    refuses("T", {"subscription": "||"}, expression="'||'")


@pytest.mark.parametrize("kind", ["SQL92", "COLOUR"])
def test_bi55_a_filter_type_that_no_plugin_serves(refuses, kind):
    refuses("T", {"expressionType": kind, "subscription": "a = 1"}, type=kind)


def test_bi56_a_pull_far_behind_the_end(refuses):
    answer = refuses("T", {"queueOffset": 2**62})
    assert answer.ext["nextBeginOffset"] == answer.ext["maxOffset"]


def test_bi57_an_offset_of_an_unknown_group(broker, row):
    ext = {"consumerGroup": "Nobody", "topic": "T", "queueId": 0, "commitOffset": 1}
    with broker.peer() as peer:
        answer = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        row.check(answer.remark, answer.code, group="Nobody")


def test_bi58_a_search_by_time_with_another_boundary(stocked, row):
    ext = {"topic": "T", "queueId": 0, "timestamp": 1, "boundaryType": "MIDDLE"}
    with stocked.peer() as peer:
        answer = peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext)
        row.check(answer.remark, answer.code, boundary="'MIDDLE'")
