"""What a message looks like while it waits for its time, and when it comes back. Plain values, nothing is stored here.

A message that waits lies in ``rmq_sys_wheel_timer``, queue 0, with REAL_TOPIC, REAL_QID and TIMER_OUT_MS, the time of
its slot. It comes back with all of its properties, those three too, and TIMER_ENQUEUE_MS and TIMER_DEQUEUE_MS. One from
a Java broker's store may have no room for these two and comes back without them; a Java broker drops it. What a recall
stores is made by the broker itself: Java keeps its properties in a map of 16 buckets, with an empty TRACE_CONTEXT, so
they stand in another order than those that came with a request.

Source: apache/rocketmq broker/.../util/HookUtils.java (transformTimerMessage),
store/.../timer/TimerMessageStore.java (convert, convertMessage).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gantrymq.errors import MessageIllegal
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import MovedMessage, StoreMessage
from gantrymq.model import names
from gantrymq.model import properties as props
from gantrymq.model.property_order import ordered_text
from gantrymq.model.queue import Queue
from gantrymq_schedule.delivered import in_place_of

__all__ = [
    "BORN_TIMESTAMP",
    "DELETE_KEY",
    "NEVER_WAITED",
    "RECALL_TAG",
    "TIMER_QUEUE",
    "Waiting",
    "asked_ms",
    "delete_key",
    "delivery_of",
    "moved",
    "next_round_of",
    "returned",
    "rolled",
    "waited_ms",
    "waiting_of",
]

TIMER_QUEUE = Queue(names.TIMER_TOPIC, 0)
DELETE_KEY = "TIMER_DEL_UNIQKEY"
BORN_TIMESTAMP, TRACE_CONTEXT = "BORN_TIMESTAMP", "TRACE_CONTEXT"
RECALL_TAG = "_RECALL_TAG_"
_RECALL_BUCKETS = 16
_RECALL_NAMES = (
    props.TAGS,
    DELETE_KEY,
    props.UNIQ_KEY,
    props.TIMER_DELIVER_MS,
    BORN_TIMESTAMP,
    TRACE_CONTEXT,
    props.PRODUCER_GROUP,
)  # in the order in which Java puts them
_ENQUEUE_MS, _DEQUEUE_MS, _ROLL_TIMES = "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES"
NEVER_WAITED = 0x7FFF_FFFF_FFFF_FFFF  # in TIMER_ENQUEUE_MS

_NAMES = (props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS)  # the first that is there counts


def asked_ms(own: Mapping[str, str], now_ms: int) -> int:
    """When a message with the properties *own* is to be delivered.

    Raises:
        MessageIllegal: the property is no whole number of 64 bits.
    """
    name = next(each for each in _NAMES if each in own)
    text = own[name]
    sign = text[:1] in ("+", "-")
    if not text.isascii() or not text[sign:].isdecimal() or len(text) > 20:
        raise MessageIllegal(f"{name}={text[:40]} is no whole number; give milliseconds, or seconds in TIMER_DELAY_SEC")
    number = int(text)
    if name == props.TIMER_DELAY_SEC:
        number *= 1000
    return number if name == props.TIMER_DELIVER_MS else now_ms + number


def moved(message: StoreMessage, own: dict[str, str], slot_ms: int) -> MovedMessage:
    """What to store in place of *message*, which waits in the slot of *slot_ms*."""
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
    own = {**own, TRACE_CONTEXT: own.get(TRACE_CONTEXT, "")}
    ordered = {name: own[name] for name in _RECALL_NAMES if name in own}
    return ordered_text({**ordered, **own}, _RECALL_BUCKETS)


class Waiting(NamedTuple):
    """What the wheel needs to know of a message that waits."""

    slot_ms: int
    topic: str  # where it goes
    queue_id: int
    unique_id: str
    deletes: str | None  # delete key of the message that this one takes back


def waiting_of(record: RecordView) -> Waiting | None:
    """Read it of a record of the timer queue; None where that says no time, or no topic that messages may go to."""
    own = record.properties
    time, topic, queue_id = own.get(props.TIMER_OUT_MS, ""), own.get(props.REAL_TOPIC), own.get(props.REAL_QUEUE_ID, "")
    if topic is None or topic == TIMER_QUEUE.topic or topic in names.NOT_SENDABLE:
        return None
    if not _small(time) or not _small(queue_id) or record.topic != TIMER_QUEUE.topic:
        return None
    return Waiting(int(time), topic, int(queue_id), own.get(props.UNIQ_KEY, ""), own.get(DELETE_KEY))


def delete_key(topic: str, unique_id: str) -> str:
    """How a message that takes another back names it."""
    return f"{topic}+{unique_id}"


def returned(record: RecordView, waiting: Waiting, enqueue_ms: int, now_ms: int) -> StoreMessage:
    """The message itself, for its real topic."""
    times = {_ENQUEUE_MS: str(enqueue_ms), _DEQUEUE_MS: str(now_ms)}
    return in_place_of(record, waiting.topic, waiting.queue_id, _text(record, times))


def _next_round(own: Mapping[str, str]) -> str:
    times = own.get(_ROLL_TIMES, "")
    return str(int(times) + 1 if _small(times) else 1)


def rolled(record: RecordView, enqueue_ms: int, now_ms: int) -> StoreMessage:
    """The message for its next round."""
    rounds = _next_round(record.properties)
    more = {_ENQUEUE_MS: str(enqueue_ms), _ROLL_TIMES: rounds, _DEQUEUE_MS: str(now_ms)}
    return in_place_of(record, record.topic, record.queue_id, _text(record, more))


def _text(record: RecordView, more: Mapping[str, str]) -> bytes:
    """The properties of *record* and *more*; without these if a record has no room for them."""
    text = ordered_text({**record.properties, **more})
    return text if len(text) <= props.MAX_BYTES else bytes(record.properties_bytes)


def delivery_of(topic: str, queue_id: int, properties: bytes) -> tuple[str, ...] | None:
    """What tells one delivery from others, from a stored message; None for one that does not say when a timer did it.

    How often it went round tells one round from the next, but not the message that comes in the end: after a crash a
    wheel that was days behind may send a message round once more than before.
    """
    if b"TIMER_DEQUEUE_MS" not in properties:
        return None
    own = props.decode(properties)
    if _DEQUEUE_MS not in own or props.TIMER_OUT_MS not in own:
        return None
    rounds = own.get(_ROLL_TIMES, "") if topic == TIMER_QUEUE.topic else ""
    return _told(topic, queue_id, rounds, own)


def next_round_of(record: RecordView) -> tuple[str, ...]:
    """What `delivery_of` says of *record* of the timer queue once it went round."""
    return _told(*TIMER_QUEUE, _next_round(record.properties), record.properties)


def _told(topic: str, queue_id: int, rounds: str, own: Mapping[str, str]) -> tuple[str, ...]:
    names = (props.UNIQ_KEY, props.TIMER_OUT_MS, props.KEYS, DELETE_KEY)
    return (topic, str(queue_id), rounds, *(own.get(name, "") for name in names))


def waited_ms(own: Mapping[str, str]) -> tuple[int, bool] | None:
    """The slot of a message with the properties *own*, and whether it was delivered out of it; None without one."""
    time = own.get(props.TIMER_OUT_MS, "")
    return (int(time), own.get(_ENQUEUE_MS) != str(NEVER_WAITED)) if _small(time) else None


def _small(text: str) -> bool:
    return 0 < len(text) <= 18 and text.isascii() and text.isdecimal()
