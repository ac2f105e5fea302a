"""Conversion of messages to and from the timer queue. No I/O.

A waiting message is stored in ``rmq_sys_wheel_timer``, queue 0, with REAL_TOPIC, REAL_QID and TIMER_OUT_MS, the time of
its slot. The delivered message keeps all properties including these three, and gets TIMER_ENQUEUE_MS and
TIMER_DEQUEUE_MS. A message from a Java broker's store may have no room for these two and is delivered without them; a
Java broker drops it. A recall marker is built by the broker itself: Java keeps its properties in a HashMap with 16
buckets and an empty TRACE_CONTEXT, so their order differs from properties received with a request.

Source: apache/rocketmq broker/.../util/HookUtils.java (transformTimerMessage),
store/.../timer/TimerMessageStore.java (convert, convertMessage).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gantrymq.errors import MessageIllegal
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import MovedMessage, StoreMessage
from gantrymq.plugin.model import Queue
from gantrymq.plugin.properties import ordered_text
from gantrymq_schedule.due_message import copy_to_queue

TIMER_QUEUE = Queue(names.TIMER_TOPIC, 0)
DELETE_KEY = "TIMER_DEL_UNIQKEY"
BORN_TIMESTAMP, _TRACE_CONTEXT = "BORN_TIMESTAMP", "TRACE_CONTEXT"
RECALL_TAG = "_RECALL_TAG_"
_RECALL_BUCKETS = 16
_RECALL_NAMES = (
    props.TAGS,
    DELETE_KEY,
    props.UNIQ_KEY,
    props.TIMER_DELIVER_MS,
    BORN_TIMESTAMP,
    _TRACE_CONTEXT,
    props.PRODUCER_GROUP,
)  # in Java's insertion order
_ENQUEUE_MS, _DEQUEUE_MS, _ROLL_TIMES = "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES"
NEVER_WAITED = 0x7FFF_FFFF_FFFF_FFFF  # value of TIMER_ENQUEUE_MS for a message delivered without waiting in the wheel

_NAMES = (props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS)  # in order of precedence


def requested_ms(own: Mapping[str, str], now_ms: int) -> int:
    """Return the requested delivery time of a message with the properties *own*.

    Raises:
        MessageIllegal: the property is not a 64-bit integer.
    """
    name = next(each for each in _NAMES if each in own)
    text = own[name]
    sign = text[:1] in ("+", "-")
    if not text.isascii() or not text[sign:].isdecimal() or len(text) > 20:
        raise MessageIllegal(
            f"{name}={text[:40]} is not a whole number; give milliseconds, or seconds in TIMER_DELAY_SEC"
        )
    number = int(text)
    if name == props.TIMER_DELAY_SEC:
        number *= 1000
    return number if name == props.TIMER_DELIVER_MS else now_ms + number


def timer_queue_message(message: StoreMessage, own: dict[str, str], slot_ms: int) -> MovedMessage:
    """Return the message for the timer queue that waits in the slot *slot_ms* in place of *message*."""
    own = {
        **own,
        props.TIMER_OUT_MS: str(slot_ms),
        props.REAL_TOPIC: message.topic,
        props.REAL_QUEUE_ID: str(message.queue_id),
    }
    text = _recall_text(own) if own.get(props.TAGS) == RECALL_TAG and DELETE_KEY in own else ordered_text(own)
    made = MovedMessage(
        TIMER_QUEUE.topic,
        TIMER_QUEUE.queue_id,
        message.body,
        text,
        tags_code=message.tags_code,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset,
        wait_stored=message.wait_stored,
        same_file_as_previous=message.same_file_as_previous,
    )
    made.answer_fields = {}
    return made


def _recall_text(own: Mapping[str, str]) -> bytes:
    own = {**own, _TRACE_CONTEXT: own.get(_TRACE_CONTEXT, "")}
    ordered = {name: own[name] for name in _RECALL_NAMES if name in own}
    return ordered_text({**ordered, **own}, _RECALL_BUCKETS)


class TimedMessage(NamedTuple):
    """Properties of a waiting message that the wheel needs."""

    slot_ms: int
    topic: str  # target topic
    queue_id: int
    unique_id: str
    deletes: str | None  # for a recall marker, the delete key of the recalled message


def timed_message_of(record: RecordView) -> TimedMessage | None:
    """Parse a record of the timer queue; None if it has no slot time, or no target topic that may be written to."""
    own = record.properties
    time, topic, queue_id = own.get(props.TIMER_OUT_MS, ""), own.get(props.REAL_TOPIC), own.get(props.REAL_QUEUE_ID, "")
    if topic is None or topic == TIMER_QUEUE.topic or topic in names.NOT_SENDABLE:
        return None
    if not _small(time) or not _small(queue_id) or record.topic != TIMER_QUEUE.topic:
        return None
    return TimedMessage(int(time), topic, int(queue_id), own.get(props.UNIQ_KEY, ""), own.get(DELETE_KEY))


def delete_key(topic: str, unique_id: str) -> str:
    """Return the key by which a recall marker names a message."""
    return f"{topic}+{unique_id}"


def due_message(record: RecordView, waiting: TimedMessage, enqueue_ms: int, now_ms: int) -> StoreMessage:
    """Return the message to store in its real topic."""
    times = {_ENQUEUE_MS: str(enqueue_ms), _DEQUEUE_MS: str(now_ms)}
    return copy_to_queue(record, waiting.topic, waiting.queue_id, _text(record, times))


def _next_roll_count(own: Mapping[str, str]) -> str:
    times = own.get(_ROLL_TIMES, "")
    return str(int(times) + 1 if _small(times) else 1)


def rolled_message(record: RecordView, enqueue_ms: int, now_ms: int) -> StoreMessage:
    """Return the copy of the message for its next round in the timer queue."""
    rounds = _next_roll_count(record.properties)
    more = {_ENQUEUE_MS: str(enqueue_ms), _ROLL_TIMES: rounds, _DEQUEUE_MS: str(now_ms)}
    return copy_to_queue(record, record.topic, record.queue_id, _text(record, more))


def _text(record: RecordView, more: Mapping[str, str]) -> bytes:
    """Encode the properties of *record* and *more*; without *more* if a record has no room for them."""
    text = ordered_text({**record.properties, **more})
    return text if len(text) <= props.MAX_BYTES else bytes(record.properties_bytes)


def delivery_key(topic: str, queue_id: int, properties: bytes) -> tuple[str, ...] | None:
    """Return the key that identifies a timer's delivery, from a stored message; None if no timer delivered it.

    The number of rolls is part of the key of a rolled copy, but not of the final delivery: after a crash, a wheel that
    was days late may roll a message once more than before.
    """
    if b"TIMER_DEQUEUE_MS" not in properties:
        return None
    own = props.decode(properties)
    if _DEQUEUE_MS not in own or props.TIMER_OUT_MS not in own:
        return None
    rounds = own.get(_ROLL_TIMES, "") if topic == TIMER_QUEUE.topic else ""
    return _delivery_key(topic, queue_id, rounds, own)


def next_roll_key(record: RecordView) -> tuple[str, ...]:
    """Return the `delivery_key` of the rolled copy of *record* of the timer queue."""
    return _delivery_key(*TIMER_QUEUE, _next_roll_count(record.properties), record.properties)


def due_key(record: RecordView, waiting: TimedMessage) -> tuple[str, ...]:
    """Return the `delivery_key` of the message stored in its real topic for *record* of the timer queue."""
    return _delivery_key(waiting.topic, waiting.queue_id, "", record.properties)


def _delivery_key(topic: str, queue_id: int, rounds: str, own: Mapping[str, str]) -> tuple[str, ...]:
    names = (props.UNIQ_KEY, props.TIMER_OUT_MS, props.KEYS, DELETE_KEY)
    return (topic, str(queue_id), rounds, *(own.get(name, "") for name in names))


def parse_slot(own: Mapping[str, str]) -> tuple[int, bool] | None:
    """Return the slot time in the properties *own*, and whether the message was delivered from it; None without one."""
    time = own.get(props.TIMER_OUT_MS, "")
    return (int(time), own.get(_ENQUEUE_MS) != str(NEVER_WAITED)) if _small(time) else None


def _small(text: str) -> bool:
    return 0 < len(text) <= 18 and text.isascii() and text.isdecimal()
