"""The kind of a given message, and the message that it is a copy of.

    topic of the message            original
    %RETRY%group                    in RETRY_TOPIC, for that group
    %RETRY%group_topic, +topic      pop: in the topic at the end of the name
    %DLQ%group                      in RETRY_TOPIC, for that group
    SCHEDULE_TOPIC_XXXX, wheel      in REAL_TOPIC if it was delivered; a retry if that is %RETRY%group
    half messages                   in REAL_TOPIC if the transaction was committed
    any other                       itself

Copies keep the unique id, so the original has the same one.

Source: apache/rocketmq broker/.../processor/AbstractSendMessageProcessor.java (consumerSendMsgBack),
common/.../KeyBuilder.java, broker/.../transaction/queue/TransactionalMessageUtil.java.
"""

from __future__ import annotations

import attrs

from gantrymq.client import ReceivedMessage
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq_admin.consumption.facts import Kind

__all__ = ["Origin", "origin_of", "pick_original"]

_DELAYING = (names.SCHEDULE_TOPIC, names.TIMER_TOPIC)
_POP_MARKS = "+_"  # between group and topic


@attrs.frozen
class Origin:
    """Where the original of a message may be."""

    kind: Kind
    topics: tuple[str, ...] = ()  # the likeliest first; empty: the message is an original
    group: str | None = None  # of a retry or dead letter, if its name is clear


def origin_of(message: ReceivedMessage) -> Origin:
    """Return the kind of *message*."""
    topic = message.topic
    if topic in _DELAYING:
        real = message.properties.get(props.REAL_TOPIC, "")
        if real.startswith(names.RETRY_PREFIX):
            return _retry(real, message, Kind.RETRY)
        return Origin(Kind.DELAYED, (real,) if real else ())
    if topic in (names.HALF_TOPIC, names.CHECK_MAX_TIME_TOPIC):
        real = message.properties.get(props.REAL_TOPIC, "")
        return Origin(Kind.HALF if topic == names.HALF_TOPIC else Kind.DISCARDED, (real,) if real else ())
    if topic.startswith(names.RETRY_PREFIX):
        return _retry(topic, message, Kind.RETRY)
    if topic.startswith(names.DLQ_PREFIX):
        return _retry(names.retry_topic(topic.removeprefix(names.DLQ_PREFIX)), message, Kind.DEAD_LETTER)
    return Origin(Kind.NORMAL)


def _retry(retry_topic: str, message: ReceivedMessage, kind: Kind) -> Origin:
    """Return the origin of a copy in *retry_topic*, or of a dead letter whose retry topic this would be."""
    before = message.properties.get(props.RETRY_TOPIC)
    if before is not None and not before.startswith(names.RETRY_PREFIX):
        return Origin(kind, (before,), retry_topic.removeprefix(names.RETRY_PREFIX))
    found = _popped_topics(before or retry_topic)
    group = retry_topic.removeprefix(names.RETRY_PREFIX) if kind is Kind.DEAD_LETTER or not found else None
    return Origin(kind, found, group)


def _popped_topics(retry_topic: str) -> tuple[str, ...]:
    """Return the topics that a retry topic of pop may belong to: both names may contain the mark."""
    name = retry_topic.removeprefix(names.RETRY_PREFIX)
    return tuple(
        name[place + 1 :] for mark in _POP_MARKS for place, letter in enumerate(name[:-1]) if letter == mark and place
    )


def pick_original(message: ReceivedMessage, found: list[ReceivedMessage]) -> ReceivedMessage | None:
    """Return the original of a copy among the messages with its unique id: the one it names, or the first stored."""
    named = message.properties.get(props.ORIGIN_MESSAGE_ID)
    by_id = next((each for each in found if each.offset_id == named), None)
    return by_id or min(found, key=lambda each: each.store_timestamp, default=None)
