"""Due messages of one level: reading their records, and building the messages to store in their place.

Records are read from the head of the level's queue, up to the first that is not due.

The due time of a message is the tags code of its queue entry. The store passes tags codes to filters only, so a filter
that accepts everything records them. If the store does not pass all of them, the due time is computed from the record's
store timestamp.

The message built from a waiting record keeps properties, body, flags, timestamps and both hosts, as in Java: DELAY,
REAL_TOPIC and REAL_QID stay in the properties. It does not wait for the store's gates: the result of each message is
known at once, and the offsets are saved when the messages are durable.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (messageTimeUp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gantrymq.errors import FormatError, MessageIllegal
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import ExtUnit, RecordView, iter_records, tags_code_of
from gantrymq.plugin.interfaces import BrokerStorage, GetLimit, GetResult, StoreMessage
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import HALF_TOPIC, NOT_SENDABLE
from gantrymq.plugin.properties import ordered_text
from gantrymq.plugin.world import TimeSlices
from gantrymq_schedule.due_message import copy_to_queue
from gantrymq_schedule.levels.positions import due_at

_MOST_MESSAGES: Final = 512  # per slice; a slice is stored with one append
_MOST_BYTES: Final = 2 * 1024 * 1024
_ONE_READ: Final = GetLimit(64, 512 * 1024)
_READS_TOGETHER: Final = 8  # reads before yielding to the event loop


class _TagsCodeRecorder:
    """A filter that accepts every message and records the tags codes."""

    accepts_all = False
    needs_message = False

    def __init__(self) -> None:
        self.recorded: list[int] = []

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        self.recorded.append(tags_code)
        return True

    def match_message(self, record: RecordView) -> bool:
        return True


class DueMessages(NamedTuple):
    """Due messages of one level."""

    records: list[tuple[RecordView, int]]  # each with the due time in its queue entry
    position: int  # queue offset after the last of them
    time_ms: int | None  # due time of the message at *position*; None if it was not read
    unreadable: list[str]  # one description for each unreadable message before *position*


class QueueRead(NamedTuple):
    """Result of one read of a queue."""

    records: list[tuple[RecordView, int]]  # each with the due time in its queue entry
    next_offset: int  # queue offset of the next read
    max_offset: int
    unreadable: str = ""  # describes the unreadable message skipped before `next_offset`


async def read_from(
    broker: BrokerStorage, queue: Queue, position: int, limit: GetLimit, delays_ms: Sequence[int]
) -> QueueRead:
    """Read records of *queue* from *position* with their due times, up to the first unreadable one.

    If the record at *position* itself is unreadable, only that record is skipped.

    Raises:
        StoreError: the disk cannot be read.
    """
    codes = _TagsCodeRecorder()
    found = broker.store.get(queue, position, limit, codes)
    result = found if isinstance(found, GetResult) else await found
    records: list[tuple[RecordView, int]] = []
    complete = len(codes.recorded) == result.next_offset - position
    try:
        for buffer in result.buffers:
            for record in iter_records(buffer):
                at = record.queue_offset - position
                if complete and 0 <= at < len(codes.recorded):
                    code = codes.recorded[at]
                else:
                    code = tags_code_of(record.topic, record.properties, record.store_timestamp, delays_ms)
                records.append((record, code))
    except FormatError as error:
        if records:
            return QueueRead(records, records[-1][0].queue_offset + 1, result.max_offset)
        return QueueRead([], position + 1, result.max_offset, f"queue offset {position} of {queue}: {error}")
    return QueueRead(records, result.next_offset, result.max_offset)


async def read_due(
    broker: BrokerStorage,
    queue: Queue,
    position: int,
    until_ms: int,
    delay_ms: int | None,
    delays_ms: Sequence[int],
) -> DueMessages:
    """Read one slice of due messages, starting at *position*, and yield to the event loop between reads.

    Args:
        until_ms: messages due later than this are not read; not after the present.
        delay_ms: delay of the queue's level, None if it is not configured any more.
        delays_ms: delays of all levels, starting with level 1.

    Raises:
        StoreError: the disk cannot be read.
    """
    due: list[tuple[RecordView, int]] = []
    unreadable: list[str] = []
    slices, size = TimeSlices(broker.world.clock, _READS_TOGETHER), 0
    while len(due) < _MOST_MESSAGES and size < _MOST_BYTES:
        read = await read_from(broker, queue, position, _ONE_READ, delays_ms)
        now_ms = broker.world.clock.now_ms()  # after the read, so no record has a later store time
        for record, time_ms in read.records:
            if due_at(time_ms, now_ms, delay_ms) > until_ms:
                return DueMessages(due, record.queue_offset, time_ms, unreadable)
            due.append((record, time_ms))
            size += record.total_size
        if read.unreadable:
            unreadable.append(read.unreadable)
        if read.next_offset == position:  # the queue's end
            break
        position = read.next_offset
        if position >= read.max_offset:
            break
        await slices.item_done()
    return DueMessages(due, position, None, unreadable)


def real_target(own: Mapping[str, str]) -> tuple[str, int]:
    """Return the real topic and queue id of a message with the properties *own*.

    Raises:
        MessageIllegal: they are missing, or name a topic that only the broker writes to: half messages are decided by
            their producer, and a message sent back to the delay topic would wait for ever.
    """
    topic, queue_id = own.get(props.REAL_TOPIC, ""), own.get(props.REAL_QUEUE_ID, "")
    if not topic or not queue_id.isdecimal():
        raise MessageIllegal(
            f"{props.REAL_TOPIC}={topic} and {props.REAL_QUEUE_ID}={queue_id} do not name a valid target"
        )
    if topic == HALF_TOPIC:
        raise MessageIllegal(f"{props.REAL_TOPIC} is {HALF_TOPIC}: a half message cannot be delayed")
    if topic in NOT_SENDABLE:
        raise MessageIllegal(f"{props.REAL_TOPIC} is {topic}, which only the broker writes to")
    return topic, int(queue_id)


def real_message(record: RecordView) -> StoreMessage:
    """Return the message to store in place of *record*; it shares the record's memory.

    Raises:
        MessageIllegal: see `real_target`.
    """
    topic, queue_id = real_target(record.properties)
    text = bytes(record.properties_bytes)
    if not text.endswith(b"\x02") and len(text) < props.MAX_BYTES:
        text = ordered_text(record.properties)
    return copy_to_queue(record, topic, queue_id, text)
