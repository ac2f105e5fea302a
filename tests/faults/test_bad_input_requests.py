"""Whole requests that cannot be served: codes, header fields, JSON bodies."""

import json
import zlib

import pytest

from gantrymq.broker.wire.router import NOT_BUILT
from gantrymq.model.json_members import INT32, INT64
from gantrymq.remoting.codes import RequestCode, request_name

REGISTRATION = {
    "brokerName": "b",
    "brokerAddr": "127.0.0.1:1",
    "clusterName": "c",
    "haServerAddr": "127.0.0.1:2",
    "brokerId": 0,
    "compressed": "false",
}


@pytest.fixture
def refuses(broker, row):
    """Send the request; compare code and sentence with the row."""

    def check(code, ext=None, body=None, /, **values):
        with broker.peer() as peer:
            answer = peer.ask(code, ext, body)
            row.check(answer.remark, answer.code, **values)

    return check


def heartbeat(**members):
    return json.dumps({"clientID": "1@2", **members}).encode()


def consumer(**members):
    return heartbeat(consumerDataSet=[{"groupName": "G", **members}])


def test_bi11_an_unknown_request_code(refuses):
    refuses(9999, code=9999)


def test_bi12_a_request_without_a_handler(refuses):
    refuses(RequestCode.QUERY_BROKER_OFFSET, code=13, name="QUERY_BROKER_OFFSET")


def test_bi13_a_request_that_needs_what_is_not_built(refuses):
    assert {513, 2002} <= set(NOT_BUILT)
    for code, part in NOT_BUILT.items():
        refuses(code, code=int(code), name=request_name(code), part=part)


def test_bi14_a_missing_field(refuses):
    refuses(RequestCode.GET_MAX_OFFSET, {"queueId": 0}, name="GET_MAX_OFFSET", field="topic", type="string")


def test_bi15_a_field_of_the_wrong_type(refuses):
    ext = {"topic": "T", "queueId": "x"}
    refuses(RequestCode.GET_MAX_OFFSET, ext, name="GET_MAX_OFFSET", field="queueId", value="'x'", type="int32")


def test_bi16_an_empty_body_where_json_belongs(refuses):
    refuses(RequestCode.HEART_BEAT, name="HEART_BEAT")


def test_bi17_a_body_that_is_not_json(refuses):
    refuses(RequestCode.HEART_BEAT, {}, b"hello", name="HEART_BEAT", place=0, expected="a value", found="'hello'")


def test_bi18_a_body_that_is_no_object(refuses):
    refuses(RequestCode.LOCK_BATCH_MQ, {}, b"[1]", name="LOCK_BATCH_MQ", body="[1]")


@pytest.mark.parametrize(
    ("code", "body", "member"),
    [
        (RequestCode.HEART_BEAT, heartbeat(consumerDataSet=5), "consumerDataSet"),
        (RequestCode.HEART_BEAT, heartbeat(producerDataSet=5), "producerDataSet"),
        (RequestCode.HEART_BEAT, consumer(subscriptionDataSet=5), "subscriptionDataSet"),
        (RequestCode.LOCK_BATCH_MQ, b'{"mqSet":5}', "mqSet"),
        (RequestCode.UNLOCK_BATCH_MQ, b'{"mqSet":5}', "mqSet"),
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, b'{"topicConfigList":5}', "topicConfigList"),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, b'{"groupConfigList":5}', "groupConfigList"),
    ],
)
def test_bi19_a_member_that_should_be_a_list(refuses, code, body, member):
    refuses(code, {}, body, member=member, value=5)


@pytest.mark.parametrize(
    ("code", "body", "member"),
    [
        (RequestCode.HEART_BEAT, heartbeat(consumerDataSet=[7]), "consumerDataSet"),
        (RequestCode.HEART_BEAT, heartbeat(producerDataSet=[7]), "producerDataSet"),
        (RequestCode.LOCK_BATCH_MQ, b'{"mqSet":[7]}', "mqSet"),
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, b'{"topicConfigList":[7]}', "topicConfigList"),
    ],
)
def test_bi20_a_list_of_something_else(refuses, code, body, member):
    refuses(code, {}, body, member=member, value=7)


@pytest.mark.parametrize(
    ("code", "body", "member", "bounds"),
    [
        (RequestCode.HEART_BEAT, heartbeat(heartbeatFingerprint="x"), "heartbeatFingerprint", INT32),
        (
            RequestCode.HEART_BEAT,
            consumer(subscriptionDataSet=[{"subVersion": "x"}]),
            "subscriptionDataSet of group G: subVersion",
            INT64,
        ),
        (
            RequestCode.CHECK_CLIENT_CONFIG,
            b'{"subscriptionData":{"subVersion":"x"}}',
            "subscriptionData: subVersion",
            INT64,
        ),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            b'{"topicConfigList":[{"perm":"x"}]}',
            "topicConfigList: perm",
            (0, 2**31 - 1),
        ),
    ],
)
def test_bi21_a_number_that_is_none_in_a_body(broker, refuses, code, body, member, bounds):
    refuses(code, {}, body, member=member, value="'x'", least=bounds[0], most=bounds[1])
    with broker.peer() as peer:  # no member joined, and no group was created
        assert peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"}).code == 1
        assert peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G"}).code == 26


def test_bi22_a_queue_without_all_its_members(refuses):
    refuses(RequestCode.LOCK_BATCH_MQ, {}, b'{"mqSet":[{"topic":"T"}]}', queue="{'topic': 'T'}")


def test_bi23_a_route_of_an_unknown_topic(name_server, row):
    with name_server.peer() as peer:
        answer = peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Nope"})
        row.check(answer.remark, answer.code, topic="Nope")


def test_bi24_a_registration_with_the_wrong_check_sum(name_server, row):
    with name_server.peer() as peer:
        answer = peer.ask(RequestCode.REGISTER_BROKER, {**REGISTRATION, "bodyCrc32": 1}, b"junk")
        row.check(answer.remark, answer.code, found=zlib.crc32(b"junk"), said=1)


def test_bi25_a_registration_that_cannot_be_read(name_server, row):
    with name_server.peer() as peer:
        answer = peer.ask(RequestCode.REGISTER_BROKER, {**REGISTRATION, "bodyCrc32": zlib.crc32(b"junk")}, b"junk")
        row.check(answer.remark, answer.code, size=4, why="JSON at 0: expected a value, got 'junk'")
        assert b"127.0.0.1:1" not in peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).payload


def test_bi125_a_line_break_in_the_value_of_a_setting(name_server, row):
    with name_server.peer() as peer:
        answer = peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"productEnvName=center\\nkvConfigPath=/elsewhere")
        row.check(answer.remark, answer.code)
        assert b"elsewhere" not in peer.ask(RequestCode.GET_NAMESRV_CONFIG).payload
