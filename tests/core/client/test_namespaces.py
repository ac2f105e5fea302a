"""Names with a namespace: as in Java's client, and only in fields that contain names."""

import pytest

from gantrymq.client.calls.namespaces import Namespace, namespace_of_endpoint
from gantrymq.errors import InvalidParameter
from gantrymq.loose_json import dumps, loads
from gantrymq.model import properties
from gantrymq.remoting import command
from gantrymq.remoting.codes import RequestCode

NS = Namespace("NS")


@pytest.mark.parametrize(
    ("own", "at_servers"),
    [
        ("T", "NS%T"),
        ("%RETRY%G", "%RETRY%NS%G"),
        ("%DLQ%G", "%DLQ%NS%G"),
        ("OTHER%T", "NS%OTHER%T"),
        ("NST", "NS%NST"),
    ],
)
def test_a_name_gets_the_namespace_and_loses_it(own, at_servers):
    assert NS.wrap(own) == at_servers
    assert NS.wrap(at_servers) == at_servers
    assert NS.unwrap(at_servers) == own


@pytest.mark.parametrize(
    "name",
    [
        *("TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "BenchmarkTest"),
        *("CID_RMQ_SYS_X", "TOOLS_CONSUMER", "DefaultCluster_REPLY_TOPIC", "", "%RETRY%"),
    ],
)
def test_what_every_broker_has_is_left_alone(name):
    assert NS.wrap(name) == name
    assert NS.unwrap(name) == name


@pytest.mark.parametrize("name", ["OTHER%T", "%RETRY%OTHER%G", "T", "NS"])
def test_names_of_others_are_not_touched_when_read(name):
    assert NS.unwrap(name) == name


@pytest.mark.parametrize("name", ["", "a%b", "a b", "n" * 65, "ü"])
def test_a_namespace_is_a_word(name):
    with pytest.raises(InvalidParameter, match="is not 1 to 64 letters"):
        Namespace(name)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("MQ_INST_123_Abc.mq.example.com:80", "MQ_INST_123_Abc"),
        ("http://MQ_INST_123_Abc.mq.example.com:80", "MQ_INST_123_Abc"),
        ("mq.example.com:80", None),
        ("MQ_INST_1:80", None),
        (None, None),
    ],
)
def test_an_endpoint_of_a_cloud_says_its_namespace(given, found):
    assert namespace_of_endpoint(given) == found


def leaving(code, ext=None, body=None):
    request = command.request(code, ext, body)
    NS.wrap_request(request)
    return request


def test_a_send_names_everything_with_it():
    given = properties.encode_text({"KEYS": "k", "PGROUP": "P", "RETRY_TOPIC": "T"})
    ext = leaving(RequestCode.SEND_MESSAGE_V2, {"a": "P", "b": "T", "c": "TBW102", "d": "4", "i": given}).ext
    assert (ext["a"], ext["b"], ext["c"], ext["d"]) == ("NS%P", "NS%T", "TBW102", "4")
    assert properties.decode_text(ext["i"]) == {
        "KEYS": "k",
        "PGROUP": "NS%P",
        "RETRY_TOPIC": "NS%T",
        "INSTANCE_ID": "NS",
    }


def test_a_send_without_properties_says_the_namespace():
    ext = leaving(RequestCode.SEND_BATCH_MESSAGE, {"a": "P", "b": "T"}, b'{"topic":"T"}').ext
    assert properties.decode_text(ext["i"]) == {"INSTANCE_ID": "NS"}


def test_bodies_of_sends_are_left_alone():
    assert leaving(RequestCode.SEND_MESSAGE_V2, {"b": "T"}, b'{"topic":"T"}').body == b'{"topic":"T"}'


def test_other_requests_are_named_by_their_fields():
    ext = leaving(RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "G", "originTopic": "T", "a": "x"}).ext
    assert ext == {"group": "NS%G", "originTopic": "NS%T", "a": "x"}
    assert leaving(RequestCode.GET_BROKER_CLUSTER_INFO).ext is None


def test_heartbeats_and_locks_have_names_in_their_bodies():
    body = {
        "clientID": "1@2",
        "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [{"topic": "%RETRY%G"}, {"subString": "topic"}]}],
        "producerDataSet": [{"groupName": "P"}],
    }
    found = loads(leaving(RequestCode.HEART_BEAT, {}, dumps(body)).body)
    assert found["consumerDataSet"][0]["groupName"] == "NS%G"
    assert found["consumerDataSet"][0]["subscriptionDataSet"] == [{"topic": "%RETRY%NS%G"}, {"subString": "topic"}]
    assert found["producerDataSet"] == [{"groupName": "NS%P"}]
    body = dumps({"consumerGroup": "G", "mqSet": [{"brokerName": "T", "queueId": 0, "topic": "T"}]})
    assert loads(leaving(RequestCode.LOCK_BATCH_MQ, None, body).body) == {
        "consumerGroup": "NS%G",
        "mqSet": [{"brokerName": "T", "queueId": 0, "topic": "NS%T"}],
    }


def test_acknowledgements_in_a_batch_have_short_names():
    body = dumps({"brokerName": "b", "acks": [{"c": "G", "t": "T", "r": "0"}]})
    assert loads(leaving(RequestCode.BATCH_ACK_MESSAGE, None, body).body)["acks"] == [
        {"c": "NS%G", "t": "NS%T", "r": "0"}
    ]


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        (RequestCode.LOCK_BATCH_MQ, b'{"lockOKMQSet":[{"topic":"NS%T"}]}', b'{"lockOKMQSet":[{"topic":"T"}]}'),
        (RequestCode.GET_CONSUME_STATS, b'{{"topic":"%RETRY%NS%G"}:1}', b'{{"topic":"%RETRY%G"}:1}'),
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, b'["NS%T","T"]', b'["NS%T","T"]'),
        (RequestCode.PULL_MESSAGE, b'"NS%T', b'"NS%T'),
    ],
)
def test_answers_about_what_was_named_lose_it(code, before, after):
    answer = command.Command(0, body=before)
    NS.unwrap_response(code, answer)
    assert answer.body == after


def test_a_broker_asks_with_it_and_is_answered_with_it():
    asked = command.request(220, {"topic": "NS%T", "group": "NS%G"}, b'{"offsetTable":{{"topic":"NS%T"}:7}}')
    NS.unwrap_request(asked)
    assert (asked.ext, asked.body) == ({"topic": "T", "group": "G"}, b'{"offsetTable":{{"topic":"T"}:7}}')
    answer = command.response_to(asked, body=b'{"messageQueueTable":{{"topic":"T"}:7}}')
    NS.wrap_response(answer)
    assert answer.body == b'{"messageQueueTable":{{"topic":"NS%T"}:7}}'
