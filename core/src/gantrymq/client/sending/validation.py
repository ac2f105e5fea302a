"""Checks that a client makes before anything is sent.

Source: apache/rocketmq client/.../Validators.java, client/.../impl/producer/DefaultMQProducerImpl.java (batch).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from gantrymq.client.argument_types import shown
from gantrymq.client.message import RESERVED, Message, ReceivedMessage
from gantrymq.errors import BodyEmpty, BodyTooLarge, InvalidParameter, MessageIllegal, NoPermission, PropertiesTooLarge
from gantrymq.model import names
from gantrymq.model import properties as property_names

MAX_MESSAGE_BYTES = 4 * 1024 * 1024  # body before compression; the broker's default limit as well

_DEFAULT_GROUP = "DEFAULT_PRODUCER"

_INSTEAD: Final = {
    property_names.KEYS: "give Message keys=",
    property_names.TAGS: "give Message tags=",
    property_names.WAIT: "give Message wait_stored=",
    property_names.DELAY: "give Message delay_level=",
    property_names.TIMER_DELAY_MS: "give Message delay_ms=",
    property_names.TIMER_DELAY_SEC: "give Message delay_ms=",
    property_names.TIMER_DELIVER_MS: "give Message deliver_at_ms=",
}
_TIMED: Final = frozenset(
    {property_names.TIMER_DELAY_MS, property_names.TIMER_DELAY_SEC, property_names.TIMER_DELIVER_MS}
)
_INT32: Final = 1 << 31
_TEXT: Final = (str, type(None))
_check_topic = lru_cache(1024)(names.check_topic)
_ELSE: Final = "to send a received message on use Message.from_received; to set it nevertheless, system_properties="


def check_producer_group(group: str) -> None:
    """Reject an invalid producer group name.

    Raises:
        InvalidParameter: blank, too long, an illegal character, or RocketMQ's own default name.
    """
    names.check_group(group)
    if group == _DEFAULT_GROUP:
        raise InvalidParameter(f"the producer group must not be {_DEFAULT_GROUP}; name it after your application")


def check_message(message: Message, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
    """Reject a message that no broker would accept.

    Args:
        message: with its body before compression.
        max_bytes: maximum size of the body.

    Raises:
        InvalidParameter: the topic's name is not legal.
        NoPermission: the topic is reserved for the broker.
        MessageIllegal: no body, a body that is too long, properties that do not fit, a field of the wrong type.
    """
    if type(message) is not Message:
        check_message_kind(message)
    if not isinstance(message.topic, str):
        raise InvalidParameter(f"the topic of a message is {message.topic!r}; expected a text")
    _check_sendable(message.topic)
    if not isinstance(message.body, bytes | bytearray | memoryview):
        raise MessageIllegal(f"the body for {message.topic} is {type(message.body).__name__}, it must be bytes")
    if not message.body:
        raise BodyEmpty(f"the body for {message.topic} is empty; RocketMQ takes messages of 1 byte and more")
    if len(message.body) > max_bytes:
        raise BodyTooLarge(
            f"the body for {message.topic} has {len(message.body)} bytes, the longest allowed is {max_bytes} "
            "(max_message_bytes of the producer; maxMessageSize of the broker must allow it as well)"
        )
    _check_properties(message)
    if type(message.flag) is not int or not -_INT32 <= message.flag < _INT32 or is_delayed(message):
        _check_numbers(message)


def check_batch(messages: Sequence[Message]) -> None:
    """Reject messages that cannot share one batch; `check_message` checks each one.

    Raises:
        MessageIllegal: no messages, several topics or WAIT values, a delay, a transaction, a retry topic, or not a
            sequence of messages.
    """
    if not isinstance(messages, Sequence) or not all(isinstance(each, Message) for each in messages):
        raise MessageIllegal(f"a batch must be a sequence of Message, not {shown(messages)}")
    if not messages:
        raise MessageIllegal("a batch needs at least one message")
    first = messages[0]
    _refuse_retry_topic(first.topic)
    for message in messages:
        if message.topic != first.topic:
            raise MessageIllegal(f"a batch goes to one topic, this one names {first.topic} and {message.topic}")
        if message.wait_stored != first.wait_stored:
            raise MessageIllegal("all messages of a batch wait for the store, or none does (wait_stored)")
        if is_delayed(message):
            raise MessageIllegal("a delayed message cannot be part of a batch; send it on its own")
        if property_names.TRAN_MSG in message.system_properties:
            raise MessageIllegal("a message of a transaction cannot be part of a batch; send it on its own")


def check_batch_topic(topic: str) -> None:
    """Reject a topic that takes no batches. Raises as `check_message` and `check_batch` do."""
    _refuse_retry_topic(topic)
    _check_sendable(topic)


def _check_sendable(topic: str) -> None:
    _check_topic(topic)
    if topic in names.NOT_SENDABLE:
        raise NoPermission(f"topic {topic} belongs to the broker itself; send to a topic of your own")


def _refuse_retry_topic(topic: str) -> None:
    if topic.startswith(names.RETRY_PREFIX):
        raise MessageIllegal(f"{topic} is a retry topic, which takes no batches")


def is_delayed(message: Message) -> bool:
    """Return whether *message* has a delay or delivery time."""
    if message.delay_level or message.delay_ms is not None or message.deliver_at_ms is not None:
        return True
    own = message.system_properties
    return bool(own) and (own.get(property_names.DELAY, "0") != "0" or not _TIMED.isdisjoint(own))


def check_message_kind(message: object) -> None:
    """Raise MessageIllegal if *message* is no `Message`."""
    if isinstance(message, ReceivedMessage):
        raise MessageIllegal(
            f"a received message of {message.topic} cannot be sent; make a new one: Message.from_received(message)"
        )
    if not isinstance(message, Message):
        raise MessageIllegal(f"expected a Message to send, not {shown(message)}")


def _check_numbers(message: Message) -> None:
    flag = message.flag
    if isinstance(flag, bool) or not isinstance(flag, int) or not -_INT32 <= flag < _INT32:
        raise _wrong_type(message, "flag", flag, "a number of 32 bits with its sign")
    for name in ("delay_level", "delay_ms", "deliver_at_ms"):
        number = getattr(message, name)
        if isinstance(number, bool) or not isinstance(number, int | None):
            raise _wrong_type(message, name, number, "a whole number, as int() gives")


def _check_types(message: Message) -> None:
    """Check the types of tags, keys and properties, including falsy values: ``keys=0`` would count as no key."""
    keys, tags = message.keys, message.tags
    if not isinstance(tags, str | None):
        raise _wrong_type(message, "tags", tags, "a text")
    if not isinstance(keys, str | None) and not (
        isinstance(keys, tuple | list | set | frozenset) and all(isinstance(each, str) for each in keys)
    ):
        raise _wrong_type(message, "keys", keys, "a text, or a tuple, list or set of texts")
    for name in ("properties", "system_properties"):
        if not isinstance(own := getattr(message, name), Mapping):
            raise _wrong_type(message, name, own, "a dict of texts")


def _wrong_type(message: Message, name: str, value: object, expected: str) -> MessageIllegal:
    return MessageIllegal(f"{name}={shown(value)} of a message for {message.topic}; expected {expected}")


def _check_properties(message: Message) -> None:
    if (
        type(message.properties) is not dict
        or type(message.system_properties) is not dict
        or type(message.keys) not in _TEXT
        or type(message.tags) not in _TEXT
    ):
        _check_types(message)  # isinstance checks are several times slower
    if not (message.properties or message.system_properties or message.tags or message.keys):
        return  # the other fields are numbers
    for name in message.properties:
        if name in RESERVED:
            raise MessageIllegal(
                f"property {name} of a message for {message.topic} is RocketMQ's own: {_INSTEAD.get(name, _ELSE)}"
            )
    found = message.all_properties()
    for name, value in found.items():
        if not name or not isinstance(name, str) or not isinstance(value, str) or not value:
            raise MessageIllegal(
                f"property {shown(name)} of a message for {message.topic} must have a name and a non-empty text: "
                f"{shown(value)}"
            )
    text = property_names.encode_text(found)
    if not text.count("\x01") == text.count("\x02") == len(found):
        name = next(name for name, value in found.items() if not {"\x01", "\x02"}.isdisjoint(f"{name}{value}"))
        raise MessageIllegal(
            f"property {name!r} of a message for {message.topic} holds the character 0x01 or 0x02, "
            "which separate properties"
        )
    if "/" in message.system_properties.get(property_names.INNER_MULTI_DISPATCH, ""):
        raise MessageIllegal(f"{property_names.INNER_MULTI_DISPATCH} names light queues; their names must not hold '/'")
    length = len(text) if text.isascii() else len(property_names.encode(found))
    if length > property_names.MAX_BYTES:
        raise PropertiesTooLarge(
            f"the properties of a message for {message.topic} take {length} bytes, the longest allowed is "
            f"{property_names.MAX_BYTES}"
        )
