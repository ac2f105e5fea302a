"""Reading what is due of one level: records from the head of its queue, up to the first that is not due.

When each is due stands in its queue entry, as the tags code, which the store shows to a filter alone: so a filter that
lets everything pass notes it. Where the store cannot show all of them, the record's own store time says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq.errors import FormatError
from gantrymq.formats.ext_unit import ExtUnit
from gantrymq.formats.record import RecordView, iter_records
from gantrymq.formats.tags_code import tags_code_of
from gantrymq.interfaces import Broker, GetLimit, GetResult
from gantrymq.model.queue import Queue
from gantrymq.world.time_slices import TimeSlices
from gantrymq_schedule.levels.progress import due_at

__all__ = ["Due", "Read", "read_due", "read_from"]

MOST_MESSAGES: Final = 512  # of one slice, which is stored as one append
MOST_BYTES: Final = 2 * 1024 * 1024
_ONE_READ: Final = GetLimit(64, 512 * 1024)
_READS_TOGETHER: Final = 8  # without a pause


class _Codes:
    """A filter that lets everything pass and keeps the tags codes."""

    accepts_all = False
    needs_message = False

    def __init__(self) -> None:
        self.seen: list[int] = []

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        self.seen.append(tags_code)
        return True

    def match_message(self, record: RecordView) -> bool:
        return True


class Due(NamedTuple):
    """What is due of one level."""

    records: list[tuple[RecordView, int]]  # each with the time of its queue entry
    position: int  # queue offset behind them
    time_ms: int | None  # of the message there; None when it was not looked at
    unreadable: list[str]  # a sentence for each message before the position that cannot be read


class Read(NamedTuple):
    """What one look into a queue found."""

    records: list[tuple[RecordView, int]]  # each with the time of its queue entry
    next_offset: int  # where it goes on
    max_offset: int
    unreadable: str = ""  # says which message is left out before `next_offset`, and why


async def read_from(broker: Broker, queue: Queue, position: int, limit: GetLimit, delays_ms: Sequence[int]) -> Read:
    """Records of *queue* from *position*, each with the time at which it is due, up to the first that cannot be read.

    One that cannot, at *position* itself, is left out, alone.

    Raises:
        StoreError: the disk cannot be read.
    """
    codes = _Codes()
    found = broker.store.get(queue, position, limit, codes)
    result = found if isinstance(found, GetResult) else await found
    records: list[tuple[RecordView, int]] = []
    complete = len(codes.seen) == result.next_offset - position
    try:
        for buffer in result.buffers:
            for record in iter_records(buffer):
                at = record.queue_offset - position
                if complete and 0 <= at < len(codes.seen):
                    code = codes.seen[at]
                else:
                    code = tags_code_of(record.topic, record.properties, record.store_timestamp, delays_ms)
                records.append((record, code))
    except FormatError as error:
        if records:
            return Read(records, records[-1][0].queue_offset + 1, result.max_offset)
        return Read([], position + 1, result.max_offset, f"queue offset {position} of {queue}: {error}")
    return Read(records, result.next_offset, result.max_offset)


async def read_due(
    broker: Broker,
    queue: Queue,
    position: int,
    until_ms: int,
    delay_ms: int | None,
    delays_ms: Sequence[int],
) -> Due:
    """What is due from *position* on, a slice at most; others have their turn in between.

    Args:
        until_ms: what is due later than this is left; the present, or before.
        delay_ms: of the queue's level, None when it has none any more.
        delays_ms: of all levels, the first is level 1.

    Raises:
        StoreError: the disk cannot be read.
    """
    due: list[tuple[RecordView, int]] = []
    unreadable: list[str] = []
    slices, size = TimeSlices(broker.world.clock, _READS_TOGETHER), 0
    while len(due) < MOST_MESSAGES and size < MOST_BYTES:
        read = await read_from(broker, queue, position, _ONE_READ, delays_ms)
        now_ms = broker.world.clock.now_ms()  # after the reading: none of these was stored later
        for record, time_ms in read.records:
            if due_at(time_ms, now_ms, delay_ms) > until_ms:
                return Due(due, record.queue_offset, time_ms, unreadable)
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
    return Due(due, position, None, unreadable)
