import enum
from types import MappingProxyType

import pytest

from gantrymq.client.message import Message
from gantrymq.client.sending.validation import check_batch, check_message, check_producer_group
from gantrymq.errors import InvalidParameter, MessageIllegal, NoPermission


@pytest.mark.parametrize(
    ("message", "error", "word"),
    [
        (Message("", b"x"), InvalidParameter, "blank"),
        (Message("a/b", b"x"), InvalidParameter, "a/b"),
        (Message("t" * 128, b"x"), InvalidParameter, "128"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), NoPermission, "broker itself"),
        (Message("T", b""), MessageIllegal, "empty"),
        (Message("T", None), MessageIllegal, "must be bytes"),
        (Message("T", b"x" * 11), MessageIllegal, "11 bytes"),
        (Message("T", b"x", properties={"a": ""}), MessageIllegal, "'a'"),
        (Message("T", b"x", properties={"": "b"}), MessageIllegal, "must have a name"),
        (Message("T", b"x", properties={"a": "b\x01"}), MessageIllegal, "0x01"),
        (Message("T", b"x", tags="a\x02"), MessageIllegal, "TAGS"),
        (Message("T", b"x", properties={"a": "b" * 32767}), MessageIllegal, "32767"),
        (Message("T", b"x", system_properties={"INNER_MULTI_DISPATCH": "a/b"}), MessageIllegal, "light queues"),
    ],
)
def test_message_that_no_broker_takes_is_refused(message, error, word):
    with pytest.raises(error, match=word):
        check_message(message, max_bytes=10)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"keys": 5}, "keys=5 of a message for T; expected a text, or a tuple, list or set of texts"),
        ({"keys": 0}, "keys=0 of a message for T; expected a text, or a tuple, list or set of texts"),
        ({"keys": (1, 2)}, r"keys=\(1, 2\) of a message"),
        ({"keys": b"k"}, "keys=b'k' of a message"),
        ({"keys": b""}, "keys=b'' of a message"),
        ({"keys": {"a": "b"}}, "keys={'a': 'b'} of a message"),
        ({"keys": (each for each in "ab")}, "keys=<generator"),
        ({"keys": range(1000)}, r"keys=range\(0, 1000\) of"),
        ({"tags": 0}, "tags=0 of a message for T; expected a text"),
        ({"tags": ["a"]}, r"tags=\['a'\] of a message for T; expected a text"),
        ({"properties": [("a", "b")]}, r"properties=\[\('a', 'b'\)\] of a message for T; expected a dict of texts"),
        ({"properties": []}, r"properties=\[\] of"),
        ({"properties": None}, "properties=None of"),
        ({"system_properties": "x"}, "system_properties='x' of"),
        ({"properties": {1: "a"}}, "property 1 of a message for T must have a name and a non-empty text: 'a'"),
        ({"properties": {"a": 1}}, "property 'a' of a message for T must have a name and a non-empty text: 1"),
        ({"properties": {"a": b"1" * 1000}}, r"must have a name and a non-empty text: b'1{98}\.\.\.$"),
        ({"flag": "3"}, "flag='3' of a message for T; expected a number of 32 bits with its sign"),
        ({"flag": None}, "flag=None of"),
        ({"flag": True}, "flag=True of"),
        ({"flag": 1.0}, "flag=1.0 of"),
        ({"flag": 1 << 31}, "flag=2147483648 of"),
        ({"flag": -(1 << 31) - 1}, "flag=-2147483649 of"),
        ({"delay_level": "3"}, "delay_level='3' of a message for T; expected a whole number, as int.. gives"),
        ({"delay_ms": 1.5}, "delay_ms=1.5 of"),
        ({"deliver_at_ms": 1.7e12}, "deliver_at_ms=1700000000000.0 of"),
    ],
)
def test_a_field_of_another_type_is_named(fields, said):
    with pytest.raises(MessageIllegal, match=said):
        check_message(Message("T", b"x", **fields))


class Level(enum.IntEnum):
    LOW = 3


@pytest.mark.parametrize(
    "fields",
    [
        {"keys": ["a", "b"]},
        {"keys": {"a"}},
        {"keys": ()},
        {"properties": MappingProxyType({"a": "b"})},
        {"flag": Level.LOW, "delay_level": Level.LOW},
        {"flag": -(1 << 31)},
    ],
)
def test_other_types_that_say_the_same_pass(fields):
    check_message(Message("T", b"x", **fields))


@pytest.mark.parametrize("message", ["T", b"x", None, {"topic": "T"}])
def test_what_is_no_message_is_named(message):
    with pytest.raises(MessageIllegal, match="expected a Message to send, not "):
        check_message(message)


@pytest.mark.parametrize("topic", [None, 5, b"T", ["T"]])
def test_a_topic_that_is_no_text_is_named(topic):
    with pytest.raises(InvalidParameter, match="the topic of a message is .*; expected a text"):
        check_message(Message(topic, b"x"))


@pytest.mark.parametrize("messages", [Message("T", b"x"), "TT", ["T"], iter([Message("T", b"x")]), None])
def test_what_is_no_batch_is_named(messages):
    with pytest.raises(MessageIllegal, match="a batch must be a sequence of Message, not "):
        check_batch(messages)


def test_codes_are_those_of_rocketmq():
    with pytest.raises(MessageIllegal) as refused:
        check_message(Message("T", b""))
    assert refused.value.response_code == 13


def test_longest_body_and_topic_pass():
    check_message(Message("t" * 127, b"x" * 10), max_bytes=10)
    check_message(Message("%RETRY%" + "g" * 120, b"x"))


@pytest.mark.parametrize(
    ("messages", "word"),
    [
        ([], "at least one"),
        ([Message("T", b"x"), Message("U", b"x")], "T and U"),
        ([Message("T", b"x"), Message("T", b"x", wait_stored=False)], "wait_stored"),
        ([Message("T", b"x", system_properties={"DELAY": "3"})], "delayed"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
    ],
)
def test_messages_that_cannot_share_a_batch_are_refused(messages, word):
    with pytest.raises(MessageIllegal, match=word):
        check_batch(messages)


def test_delay_level_nought_is_no_delay():
    check_batch([Message("T", b"x", system_properties={"DELAY": "0"})])


@pytest.mark.parametrize("group", ["", "a b", "g" * 121, "DEFAULT_PRODUCER"])
def test_odd_producer_group_is_refused(group):
    with pytest.raises(InvalidParameter):
        check_producer_group(group)
