import copy
import pickle

import attrs
import pytest
from header_classes import CLASSES

from gantrymq.errors import RequestRefused
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Int32, RequestHeader, fields_of, header_of
from gantrymq.remoting.headers.nameserver import RegisterBrokerRequest
from gantrymq.remoting.headers.offsets import GetMaxOffsetRequest, UpdateConsumerOffsetRequest
from gantrymq.remoting.headers.pull import PullMessageRequest
from gantrymq.remoting.headers.send import SendMessageRequest, SendMessageResponse, read_send_header
from gantrymq_nameserver.headers import RegisterBrokerResponse

LETTERS = {"a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "1700000000000", "h": "2000"}
NAMES = {
    "producerGroup": "PG",
    "topic": "T",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "-1",
    "sysFlag": "0",
    "bornTimestamp": "1700000000000",
    "flag": "2000",
}
PULL = {
    "consumerGroup": "CG",
    "topic": "T",
    "queueId": "3",
    "queueOffset": "9223372036854775807",
    "maxMsgNums": "32",
    "sysFlag": "2",
    "commitOffset": "-1",
    "suspendTimeoutMillis": "15000",
    "subVersion": "0",
}


def by_letters(ext):
    return read_send_header(Command(310, ext=ext))


def refusal(action) -> str:
    with pytest.raises(RequestRefused) as caught:
        action()
    assert caught.value.response_code == 1
    return str(caught.value)


def test_fields_have_their_rocketmq_names():
    header = UpdateConsumerOffsetRequest(consumer_group="CG", topic="T", queue_id=1, commit_offset=2**40, nsd=True)
    ext = {"nsd": "true", "consumerGroup": "CG", "topic": "T", "queueId": "1", "commitOffset": "1099511627776"}
    assert header.to_ext() == ext
    assert UpdateConsumerOffsetRequest.from_ext({**ext, "unknown": "ignored"}) == header
    assert RegisterBrokerRequest.from_ext(
        {
            "brokerName": "b",
            "brokerAddr": "a",
            "clusterName": "c",
            "haServerAddr": "h",
            "brokerId": "0",
            "bodyCrc32": "7",
        }
    ).to_ext() == {
        "brokerName": "b",
        "brokerAddr": "a",
        "clusterName": "c",
        "haServerAddr": "h",
        "brokerId": "0",
        "compressed": "false",
        "bodyCrc32": "7",
    }


def test_missing_and_wrong_fields_are_refused_with_a_sentence():
    assert refusal(lambda: GetMaxOffsetRequest.from_ext({"topic": "T"})) == (
        "GET_MAX_OFFSET: missing field queueId, expected int32"
    )
    assert refusal(lambda: GetMaxOffsetRequest.from_ext(None)) == "GET_MAX_OFFSET: missing field topic, expected string"
    assert refusal(lambda: GetMaxOffsetRequest.from_ext({"topic": "T", "queueId": "x" * 99})) == (
        f"GET_MAX_OFFSET: field queueId is '{'x' * 40}', expected int32"
    )
    assert refusal(lambda: PullMessageRequest.from_ext({**PULL, "maxMsgBytes": "much"}, 361)) == (
        "LITE_PULL_MESSAGE: field maxMsgBytes is 'much', expected int32"
    )
    assert refusal(lambda: read_send_header(Command(320, ext={**LETTERS, "g": "1.5"}))) == (
        "SEND_BATCH_MESSAGE: field g is '1.5', expected int64"
    )
    assert refusal(lambda: read_send_header(Command(310))) == "SEND_MESSAGE_V2: missing field a, expected string"
    assert refusal(lambda: read_send_header(Command(10, ext={**NAMES, "queueId": ""}))) == (
        "SEND_MESSAGE: field queueId is '', expected int32"
    )


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "1_0", " 1", "1 ", "0x1", "", "+", "1e3", "9" * 5000])
def test_int32_as_java_reads_it(text):
    for ext in ({**PULL, "queueId": text}, {**PULL, "sysFlag": text}):
        refusal(lambda ext=ext: PullMessageRequest.from_ext(ext))
    refusal(lambda: GetMaxOffsetRequest.from_ext({"topic": "T", "queueId": text}))
    refusal(lambda: by_letters({**LETTERS, "e": text}))


@pytest.mark.parametrize("text", ["2147483647", "-2147483648", "+5", "007"])
def test_int32_bounds_and_signs(text):
    assert GetMaxOffsetRequest.from_ext({"topic": "T", "queueId": text}).queue_id == int(text)
    assert PullMessageRequest.from_ext({**PULL, "queueId": text}).queue_id == int(text)
    assert by_letters({**LETTERS, "e": text}).queue_id == int(text)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False)]
)
def test_booleans_are_true_only_for_the_word(text, value):
    assert GetMaxOffsetRequest.from_ext({"topic": "T", "queueId": "0", "committed": text}).committed is value
    assert by_letters({**LETTERS, "m": text}).batch is value
    assert SendMessageRequest.from_ext({**NAMES, "batch": text}).batch is value


def test_optional_numbers_without_characters_count_as_missing():
    assert PullMessageRequest.from_ext({**PULL, "maxMsgBytes": ""}).max_msg_bytes is None
    assert by_letters({**LETTERS, "j": "", "l": ""}).reconsume_times == 0
    assert (
        RegisterBrokerRequest.from_ext(
            {
                "brokerName": "b",
                "brokerAddr": "a",
                "clusterName": "c",
                "haServerAddr": "",
                "brokerId": "0",
                "bodyCrc32": "",
            }
        ).body_crc32
        == 0
    )


def test_both_spellings_of_a_send_say_the_same():
    optional = {
        "properties": "p",
        "reconsumeTimes": "3",
        "unitMode": "true",
        "maxReconsumeTimes": "16",
        "batch": "true",
    }
    letters = {"i": "p", "j": "3", "k": "true", "l": "16", "m": "true", "n": "broker-a"}
    by_name = read_send_header(Command(324, ext={**NAMES, **optional, "bname": "broker-a"}))
    by_letter = read_send_header(Command(325, ext={**LETTERS, **letters}))
    assert by_name == by_letter
    assert by_letter.to_ext_v2() == {**LETTERS, **letters}
    assert by_letter.to_ext() == {**NAMES, **optional, "bname": "broker-a"}
    assert read_send_header(Command(310, ext=LETTERS)) == read_send_header(Command(10, ext=NAMES))


def test_pull_reads_what_it_writes_in_any_order():
    ext = {
        **PULL,
        "subscription": "*",
        "expressionType": "TAG",
        "proxyFrowardClientId": "c",
        "requestSource": "-1",
        "lo": "true",
    }
    header = PullMessageRequest.from_ext(dict(reversed(ext.items())))
    assert header.to_ext() == ext
    assert header.proxy_forward_client_id == "c"


def test_answers_of_old_brokers_may_lack_fields():
    assert RegisterBrokerResponse.from_ext(None) == RegisterBrokerResponse()
    assert RegisterBrokerResponse(master_addr="m").to_ext() == {"masterAddr": "m"}
    ext = {"msgId": "m", "queueId": "1", "queueOffset": "5"}
    assert SendMessageResponse.from_ext(ext).to_ext() == ext
    assert SendMessageResponse.from_ext({**ext, "TRACE_ON": "true"}).trace_on is True


@pytest.mark.parametrize("header", CLASSES)
def test_every_header_reads_what_it_writes(header):
    values = {"string": "text", "int32": -7, "int64": 2**40, "boolean": True}
    full = header(**{field.attribute: values[field.kind] for field in fields_of(header)})
    assert header.from_ext(full.to_ext()) == full
    assert full != object()
    least = header(**{field.attribute: values[field.kind] for field in fields_of(header) if field.required})
    assert header.from_ext(least.to_ext()) == least
    assert repr(least).startswith(header.__name__)


def test_a_header_is_constructed_by_the_names_of_its_fields():
    @header_of()
    class Base(RequestHeader):
        queue_id: "Int32"

    @header_of()
    class Derived(Base):
        topic: "str"
        bname: "str" = "b"

    for _ in range(2):  # the initializer is generated by the first call
        assert Base(queue_id=1).queue_id == 1  # not taken over by the class derived from it
        assert Derived(queue_id=1, topic="T").to_ext() == {"queueId": "1", "topic": "T", "bname": "b"}
        with pytest.raises(TypeError, match="topic"):
            Derived(queue_id=1)
        with pytest.raises(TypeError, match="unknown"):
            Derived(queue_id=1, topic="T", unknown=1)
    with pytest.raises(AttributeError):
        Derived(queue_id=1, topic="T").unknown = 1


def test_a_header_keeps_an_initializer_of_its_own():
    @header_of()
    class Base(RequestHeader):
        topic: "str"
        queue_id: "Int32" = 3

    class Derived(Base):
        def __init__(self, topic):
            super().__init__(topic=topic, queue_id=7)

    @header_of()
    class Own(RequestHeader):
        topic: "str"

        def __init__(self, topic):
            RequestHeader.__init__(self)
            self.topic = topic.upper()

    for topic in ("T", "U"):
        assert Derived(topic).to_ext() == {"topic": topic, "queueId": "7"}
        assert Base(topic=topic).to_ext() == {"topic": topic, "queueId": "3"}
        assert Own(topic.lower()).to_ext() == {"topic": topic}


class Outer:
    @header_of()
    class Inner(RequestHeader):
        topic: "str"
        queue_id: "Int32 | None" = None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda header: pickle.loads(pickle.dumps(header))])
def test_headers_can_be_copied(copied):
    assert copied(Outer.Inner(topic="T")).to_ext() == {"topic": "T"}


def test_names_of_requests():
    assert request_name(310) == "SEND_MESSAGE_V2"
    assert request_name(9999) == "request 9999"


@pytest.mark.parametrize("kind", [str, "float"])
def test_a_field_of_another_type_is_refused_with_a_sentence(kind):
    wrong = header_of()(type("Wrong", (RequestHeader,), {"__annotations__": {"group": kind}}))
    with pytest.raises(TypeError, match="field group of a header has the type .* 'from __future__ import annotations'"):
        wrong.from_ext({"group": "billing"})


@pytest.mark.parametrize("declared", [attrs.field(default=None), attrs.field(metadata={"wire": "G"})])
def test_a_field_declared_with_attrs_is_refused_with_a_sentence(declared):
    wrong = header_of()(type("Wrong", (RequestHeader,), {"__annotations__": {"group": "str"}, "group": declared}))
    with pytest.raises(TypeError, match=r"field group of a header is declared with attrs\.field; "):
        wrong.from_ext({"group": "billing"})
