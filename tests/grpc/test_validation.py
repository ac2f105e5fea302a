"""Checks of sent messages that the recorded conversation does not have: bounds, their order, and hostile values."""

import pytest

pytest.importorskip("gantrymq_grpc")

from gantrymq.errors import GantryError
from gantrymq.plugin import properties as props
from gantrymq_grpc.conversion.codes import Refused, code_of
from gantrymq_grpc.conversion.messages import Sender, send_requests
from gantrymq_grpc.conversion.names import group_of, topic_of
from gantrymq_grpc.conversion.validation import Limits, accepted_types, check_messages, check_type, type_of
from gantrymq_grpc.definitions import Code, Duration, Message, MessageType, Resource, SystemProperties, Timestamp

NOW_MS = 1_800_000_000_000
LIMITS = Limits(body_bytes=100)


def message(*, body=b"x", user=(), topic="T", **system):
    system.setdefault("message_id", "A" * 34)
    return Message(
        topic=Resource(name=topic), user_properties=dict(user), body=body, system_properties=SystemProperties(**system)
    )


def at(milliseconds):
    seconds, rest = divmod(milliseconds, 1000)
    return Timestamp(seconds=seconds, nanos=rest * 1_000_000)


REFUSED = [
    (message(body=b"x" * 101), Code.MESSAGE_BODY_TOO_LARGE, "100"),
    (message(user=((str(each), "v") for each in range(129))), Code.MESSAGE_PROPERTIES_TOO_LARGE, "128"),
    (message(user={"UNIQ_KEY": "x"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "UNIQ_KEY"),
    (message(user={"a\x01b": "x"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "key of property"),
    (message(user={"a": "x\x02KEYS\x01y"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "value of property"),
    (message(user={"a": "\x85"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "value of property"),
    (message(tag=" "), Code.ILLEGAL_MESSAGE_TAG, "whitespace"),
    (message(tag="a\x7f"), Code.ILLEGAL_MESSAGE_TAG, "control character"),
    (message(keys=["a", "b\x02"]), Code.ILLEGAL_MESSAGE_KEY, "control character"),
    (message(user={"a": "ü" * 8192}), Code.MESSAGE_PROPERTIES_TOO_LARGE, "16384"),
    (message(keys=["k" * 8000, "k" * 8000], tag="t" * 400), Code.MESSAGE_PROPERTIES_TOO_LARGE, "16384"),
    (message(message_id="  "), Code.ILLEGAL_MESSAGE_ID, "empty"),
    (message(message_id="a\x02KEYS\x01b"), Code.ILLEGAL_MESSAGE_ID, "control character"),
    (message(trace_context="a\x02KEYS\x01b"), Code.BAD_REQUEST, "trace context"),
    (message(born_host="a\x02KEYS\x01b"), Code.BAD_REQUEST, "born host"),
    (message(lite_topic="a b"), Code.ILLEGAL_LITE_TOPIC, "a b"),
    (message(lite_topic="a" * 65), Code.ILLEGAL_LITE_TOPIC, "64"),
    (message(user={"__LITE_TOPIC": "a"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "__LITE_TOPIC"),
    (message(priority=-1), Code.BAD_REQUEST, "priority must be at least 0, not -1"),
    (message(user={"_SYS_MSG_PRIORITY_": "1"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "_SYS_MSG_PRIORITY_"),
    (message(message_group="\t"), Code.ILLEGAL_MESSAGE_GROUP, "whitespace"),
    (message(message_group="ü" * 32), Code.ILLEGAL_MESSAGE_GROUP, "64"),
    (message(message_group="a\x00"), Code.ILLEGAL_MESSAGE_GROUP, "control character"),
    (message(delivery_timestamp=at(NOW_MS + 86_400_001)), Code.ILLEGAL_DELIVERY_TIME, "86400000"),
    (message(delivery_timestamp=Timestamp(seconds=-5)), Code.ILLEGAL_DELIVERY_TIME, "delivery_timestamp"),
    (message(delivery_timestamp=Timestamp(seconds=2**63 - 1)), Code.ILLEGAL_DELIVERY_TIME, "delivery_timestamp"),
    (
        message(message_type=MessageType.TRANSACTION, orphaned_transaction_recovery_duration=Duration(seconds=3601)),
        Code.BAD_REQUEST,
        "3600",
    ),
    (
        message(message_type=MessageType.TRANSACTION, orphaned_transaction_recovery_duration=Duration(seconds=-1)),
        Code.BAD_REQUEST,
        "orphaned_transaction_recovery_duration",
    ),
    (message(topic="%bad topic%"), Code.ILLEGAL_TOPIC, "bad topic"),
    (message(topic="t" * 128), Code.ILLEGAL_TOPIC, "128"),
]


@pytest.mark.parametrize(("sent", "code", "part"), REFUSED)
def test_a_message_out_of_bounds_is_refused_with_its_code(sent, code, part):
    with pytest.raises(GantryError, match=part) as refused:
        check_messages([sent], LIMITS, NOW_MS)
    assert code_of(refused.value) == code


@pytest.mark.parametrize(
    "sent",
    [
        message(body=b"x" * 100, user=((str(each), "v") for each in range(128)), tag="t", keys=["", "k"]),
        message(message_group="ü" * 31, delivery_timestamp=at(NOW_MS + 86_400_000)),
        message(message_type=77, delivery_timestamp=at(0)),
        message(user={"__SHARDINGKEY": "g", "TRACE_CONTEXT": "t"}, born_timestamp=Timestamp(seconds=-(2**62))),
    ],
)
def test_a_message_at_the_bounds_is_accepted(sent):
    assert check_messages([sent], LIMITS, NOW_MS) == "T"
    assert len(send_requests([sent], "T", Sender(("h", 1), b"", None), NOW_MS)) == 1


def test_the_first_violation_in_the_order_of_rocketmq_is_reported():
    wrong = message(body=b"", user={"KEYS": "x"}, tag="a|b", keys=[" "], message_id="", message_group=" ")
    codes = []
    for repair in (
        lambda: setattr(wrong, "body", b"x"),
        lambda: wrong.user_properties.clear(),
        lambda: setattr(wrong.system_properties, "tag", "t"),
        lambda: wrong.system_properties.keys.pop(),
        lambda: setattr(wrong.system_properties, "message_id", "A"),
        lambda: setattr(wrong.system_properties, "message_group", "g"),
    ):
        with pytest.raises(Refused) as refused:
            check_messages([wrong], LIMITS, NOW_MS)
        codes.append(refused.value.code)
        repair()
    assert codes == [
        Code.MESSAGE_BODY_EMPTY,
        Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
        Code.ILLEGAL_MESSAGE_TAG,
        Code.ILLEGAL_MESSAGE_KEY,
        Code.ILLEGAL_MESSAGE_ID,
        Code.ILLEGAL_MESSAGE_GROUP,
    ]
    assert check_messages([wrong], LIMITS, NOW_MS) == "T"


def test_a_later_message_is_checked_like_the_first():
    with pytest.raises(Refused) as refused:
        check_messages([message(), message(tag="|")], LIMITS, NOW_MS)
    assert refused.value.code == Code.ILLEGAL_MESSAGE_TAG
    other = message()
    other.topic.resource_namespace = "ns"
    with pytest.raises(Refused, match="not same"):
        check_messages([message(), other], LIMITS, NOW_MS)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (message(message_type=MessageType.FIFO), MessageType.NORMAL),
        (message(message_group="g"), MessageType.FIFO),
        (message(user={"__SHARDINGKEY": "g"}), MessageType.FIFO),
        (message(message_group="g", delivery_timestamp=at(0)), MessageType.DELAY),
        (message(message_type=MessageType.TRANSACTION, delivery_timestamp=at(0)), MessageType.TRANSACTION),
    ],
)
def test_the_type_of_a_message_follows_from_its_properties(sent, kind):
    assert type_of(sent) == kind


def test_a_topic_takes_the_types_of_its_attribute():
    assert accepted_types({}) == accepted_types({"message.type": "UNSPECIFIED"}) == [MessageType.NORMAL]
    for name in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"):
        assert accepted_types({"message.type": name}) == [MessageType[name]]
        check_type("T", {"message.type": "MIXED"}, MessageType[name])
    with pytest.raises(Refused, match=r"\+message.type=DELAY") as refused:
        check_type("T", {}, MessageType.DELAY)
    assert refused.value.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    for topic in ("%RETRY%G", "%DLQ%G"):
        check_type(topic, {}, MessageType.DELAY)


@pytest.mark.parametrize("name", ["RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "TBW102", "SCHEDULE_TOPIC_XXXX"])
def test_system_topics_are_refused(name):
    with pytest.raises(Refused, match="system topic") as refused:
        topic_of(Resource(name=name))
    assert refused.value.code == Code.ILLEGAL_TOPIC


def test_system_groups_are_refused_and_names_with_a_namespace_are_taken_whole():
    with pytest.raises(Refused, match="system consumer group") as refused:
        group_of(Resource(name="CID_RMQ_SYS_TRANS"))
    assert refused.value.code == Code.ILLEGAL_CONSUMER_GROUP
    assert group_of(Resource(name="ns%G", resource_namespace="ignored")) == "ns%G"
    assert topic_of(Resource(name="ns%T", resource_namespace="ignored")) == "ns%T"


def test_no_field_can_set_a_property_of_another_name():
    """Each field that becomes a property is refused or stored as one value."""
    hostile = "x\x02TAGS\x01evil\x02"
    for field in ("tag", "message_id", "message_group", "trace_context", "born_host"):
        with pytest.raises(Refused):
            check_messages([message(**{field: hostile})], LIMITS, NOW_MS)
    (send,) = send_requests([message(tag="t", keys=["k"])], "T", Sender(("h", 1), b"", None), NOW_MS)
    assert set(props.decode_text(send.properties)) == {"TAGS", "KEYS", "UNIQ_KEY", "PGROUP", "__BORNHOST"}
