import pytest

from gantrymq.client.checks import check_batch, check_message, check_producer_group
from gantrymq.client.message import Message
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
        (Message("T", b"x", properties={"": "b"}), MessageIllegal, "needs a name"),
        (Message("T", b"x", properties={"a": "b\x01"}), MessageIllegal, "0x01"),
        (Message("T", b"x", tags="a\x02"), MessageIllegal, "TAGS"),
        (Message("T", b"x", properties={"a": "b" * 32767}), MessageIllegal, "32767"),
        (Message("T", b"x", system_properties={"INNER_MULTI_DISPATCH": "a/b"}), MessageIllegal, "light queues"),
    ],
)
def test_message_that_no_broker_takes_is_refused(message, error, word):
    with pytest.raises(error, match=word):
        check_message(message, max_bytes=10)


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
