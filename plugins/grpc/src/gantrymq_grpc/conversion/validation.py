"""The checks of sent messages, in the order of RocketMQ's proxy, with its codes and texts.

Checked further than there, because these values become properties too: the message id, the trace context and the host
must not contain control characters, with which a client could set properties of its choice; times must not be negative;
types of messages that this protocol version only announces are refused. A topic without `message.type` takes normal
messages.

Source: apache/rocketmq proxy/.../grpc/v2/producer/SendMessageActivity.java, common/GrpcValidator.java,
processor/validator/DefaultTopicMessageTypeValidator.java, common/.../message/MessageConst.java (STRING_HASH_SET).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gantrymq.plugin.model import check_lite_topic
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq.plugin.properties import SHARDING_KEY
from gantrymq.plugin.settings import Settings
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.conversion.names import topic_of
from gantrymq_grpc.conversion.times import duration_ms, timestamp_ms
from gantrymq_grpc.definitions import Code, Message, MessageType, SystemProperties

_NAMES = """
    1ST_POP_TIME ARRIVE_TIME BORN_TIMESTAMP BUYER_ID CLUSTER CONSUME_START_TIME CORRECTION_FLAG CORRELATION_ID DELAY
    DLQ_ORIGIN_MESSAGE_ID DLQ_ORIGIN_TOPIC DUP_INFO EXTEND_UNIQ_INFO INNER_MULTI_QUEUE_OFFSET INSTANCE_ID KEYS
    MAX_OFFSET MAX_RECONSUME_TIMES MIN_OFFSET MQ2_FLAG MSG_REGION MSG_TYPE ORIGIN_MESSAGE_ID PGROUP POP_CK POP_CK_OFFSET
    PUSH_REPLY_TIME REAL_QID REAL_TOPIC RECONSUME_TIME REPLY_TO_CLIENT RETRY_TOPIC TAGS TIMER_DELAY_LEVEL TIMER_DELAY_MS
    TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_DEL_UNIQKEY TIMER_DEQUEUE_MS TIMER_ENQUEUE_MS TIMER_OUT_MS TIMER_ROLL_TIMES
    TRACE_ON TRANSFER_FLAG TRAN_MSG TRAN_PREPARED_QUEUE_OFFSET TTL UNIQ_KEY WAIT _SYS_MSG_PRIORITY_ __BORNHOST __CRC32#
    __LITE_TOPIC
"""
SYSTEM_PROPERTIES = frozenset(_NAMES.split())
"""Names that user properties must not have, and that are not handed out as user properties."""

_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
_TYPES = {
    "NORMAL": (MessageType.NORMAL,),
    "FIFO": (MessageType.FIFO,),
    "DELAY": (MessageType.DELAY,),
    "TRANSACTION": (MessageType.TRANSACTION,),
    "PRIORITY": (MessageType.PRIORITY,),
    "LITE": (MessageType.LITE,),
    "MIXED": (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION),
}


class Limits(NamedTuple):
    """Limits of sent messages; the defaults are those of RocketMQ's proxy."""

    body_bytes: int = 4 * 1024 * 1024
    user_properties: int = 128
    property_bytes: int = 16384  # of user properties, tag and keys
    group_bytes: int = 64
    delay_ms: int = 24 * 3600 * 1000
    recovery_s: int = 3600
    messages: int = 1024  # of a request; SDKs send one

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Return those of a broker."""
        number = settings.number
        return cls(
            number("maxMessageSize"),
            number("userPropertyMaxNum"),
            number("maxUserPropertySize"),
            number("maxMessageGroupSize"),
            number("maxDelayTimeMills"),
            number("maxTransactionRecoverySecond"),
        )


def check_messages(messages: Sequence[Message], limits: Limits, now_ms: int) -> str:
    """Check the messages of a request and return their topic.

    Raises:
        GantryError: a message is not legal; none of them is to be stored.
    """
    if not messages:
        raise Refused(Code.MESSAGE_CORRUPTED, "no message to send")
    if len(messages) > limits.messages:
        text = f"the request has {len(messages)} messages, at most {limits.messages} are taken; send several requests"
        raise Refused(Code.BAD_REQUEST, text)
    resource = messages[0].topic
    topic = topic_of(resource)
    for message in messages:
        if message.topic != resource:
            raise Refused(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        _check_body(len(message.body), limits.body_bytes)
        system = message.system_properties
        size = _check_user_properties(message.user_properties, limits.user_properties)
        size += _check_tag(system.tag) + sum(map(_check_key, system.keys))
        if size > limits.property_bytes:
            text = f"the total size of user property is too large, max is {limits.property_bytes}"
            raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
        _check_system_properties(system, limits, now_ms)
    return topic


def type_of(message: Message) -> MessageType:
    """Return the type of a sent message by its properties: the field message_type counts only for transactions."""
    system = message.system_properties
    if system.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return MessageType.DELAY
    if system.message_group or SHARDING_KEY in message.user_properties:
        return MessageType.FIFO
    if system.HasField("priority"):
        return MessageType.PRIORITY
    return MessageType.LITE if system.lite_topic else MessageType.NORMAL


def accepted_types(attributes: Mapping[str, str]) -> list[MessageType]:
    """Return the types of messages that a topic takes."""
    return list(_accepted(attributes))


def _accepted(attributes: Mapping[str, str]) -> tuple[MessageType, ...]:
    return _TYPES.get(attributes.get("message.type", "").upper(), _TYPES["NORMAL"])


def check_type(topic: str, attributes: Mapping[str, str], actual: MessageType) -> None:
    """Check that a topic with *attributes* takes messages of type *actual*.

    Raises:
        Refused: it takes other types; the text has the command that makes a topic for this one.
    """
    accepted = _accepted(attributes)
    if actual in accepted or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return
    raise Refused(
        Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        f"TopicMessageType validate failed, the expected type is {accepted[0].name}, but actual type is {actual.name}; "
        f"send to a topic of this type (gantrymq topic create NAME -a +message.type={actual.name})",
    )


def _check_body(size: int, most: int) -> None:
    if not size:
        raise Refused(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if size > most:
        raise Refused(Code.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {most}")


def _check_user_properties(properties: Mapping[str, str], most: int) -> int:
    """Return the size of names and values in bytes."""
    if len(properties) > most:
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"too many user properties, max is {most}")
    size = 0
    for name in properties:  # items() of a map in a message takes four times as long
        value = properties[name]
        if name in SYSTEM_PROPERTIES:
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        if _CONTROL.search(name):
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the key of property cannot contain control character")
        if _CONTROL.search(value):
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the value of property cannot contain control character")
        size += _size(name) + _size(value)
    return size


def _check_tag(tag: str) -> int:
    if not tag:
        return 0
    if tag.isspace():
        raise Refused(Code.ILLEGAL_MESSAGE_TAG, "tag cannot be the char sequence of whitespace")
    if "|" in tag:
        raise Refused(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    if _CONTROL.search(tag):
        raise Refused(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain control character")
    return _size(tag)


def _check_key(key: str) -> int:
    if key.isspace():
        raise Refused(Code.ILLEGAL_MESSAGE_KEY, "key cannot be the char sequence of whitespace")
    if _CONTROL.search(key):
        raise Refused(Code.ILLEGAL_MESSAGE_KEY, "key cannot contain control character")
    return _size(key)


def _check_system_properties(system: SystemProperties, limits: Limits, now_ms: int) -> None:
    unique_id = system.message_id
    if not unique_id or unique_id.isspace():
        raise Refused(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    if _CONTROL.search(unique_id):
        raise Refused(Code.ILLEGAL_MESSAGE_ID, "message id cannot contain control character")
    kind = system.message_type
    if kind == MessageType.TRANSACTION:
        _check_recovery(system, limits.recovery_s)
    if (
        system.HasField("delivery_timestamp")
        and timestamp_ms(system.delivery_timestamp, "delivery_timestamp", Code.ILLEGAL_DELIVERY_TIME) - now_ms
        > limits.delay_ms
    ):
        text = f"the max delay time of message is too large, max is {limits.delay_ms}"
        raise Refused(Code.ILLEGAL_DELIVERY_TIME, text)
    if system.priority < 0:
        raise Refused(Code.BAD_REQUEST, f"the priority must be at least 0, not {system.priority}")
    if group := system.message_group:
        _check_group(group, limits.group_bytes)
    if lite_topic := system.lite_topic:
        check_lite_topic(lite_topic)
    if (text := system.trace_context) and _CONTROL.search(text):
        raise Refused(Code.BAD_REQUEST, "trace context cannot contain control character")
    if (text := system.born_host) and _CONTROL.search(text):
        raise Refused(Code.BAD_REQUEST, "born host cannot contain control character")


def _check_recovery(system: SystemProperties, most_s: int) -> None:
    name = "orphaned_transaction_recovery_duration"
    if system.HasField("orphaned_transaction_recovery_duration"):
        asked_ms = duration_ms(system.orphaned_transaction_recovery_duration, name, Code.BAD_REQUEST)
        if asked_ms // 1000 > most_s:
            text = f"the max transaction recovery time of message is too large, max is {most_s}"
            raise Refused(Code.BAD_REQUEST, text)


def _check_group(group: str, most: int) -> None:
    if group.isspace():
        raise Refused(Code.ILLEGAL_MESSAGE_GROUP, "message group cannot be the char sequence of whitespace")
    if _size(group) >= most:
        raise Refused(Code.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {most}")
    if _CONTROL.search(group):
        raise Refused(Code.ILLEGAL_MESSAGE_GROUP, "message group cannot contain control character")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
