"""Where a level goes on after a stop that saved no progress: which of its messages were delivered already.

delayOffset.json is some seconds old after a kill, and a Java broker fires the messages of these seconds again. Here the
store is asked: messages of a level are delivered one behind the other, so those that were are a beginning of what is
due, and its end is found in a few steps, by the unique key of single messages.

Messages without a key, and those that are left behind, are passed over: the next one tells for them. Where no message
has a key, or the store no index (``messageIndexEnable=false``), it is left at what Java does.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.errors import MessageIllegal
from gantrymq.formats.record import RecordView, read_record
from gantrymq.interfaces import Broker, GetLimit, QueryResult
from gantrymq.model import properties as props
from gantrymq.model.queue import Queue
from gantrymq_schedule.levels.due import read_from
from gantrymq_schedule.levels.progress import due_at
from gantrymq_schedule.levels.release import real_place

__all__ = ["first_undelivered"]

_MOST_OF_A_KEY = 64
_READ = GetLimit(16, 64 * 1024)
_MOST_THAT_CANNOT_TELL = 4096  # one behind the other
_STORES_OWN = (props.INNER_BASE, props.INNER_MULTI_QUEUE_OFFSET)
_ALL_TIMES = (0, (1 << 62))


async def first_undelivered(
    broker: Broker, queue: Queue, position: int, delay_ms: int | None, delays_ms: Sequence[int]
) -> int:
    """The queue offset at or behind *position* of the first message that was not delivered.

    Raises:
        StoreError: the disk cannot be read.
    """
    end = broker.bounds(queue).max_offset

    async def delivered(at: int) -> bool:
        """Whether the first message at or behind *at* that can tell was delivered."""
        most = min(at + _MOST_THAT_CANNOT_TELL, end)
        while at < most:
            read = await read_from(broker, queue, at, _READ, delays_ms)
            now_ms = broker.world.clock.now_ms()
            for record, time_ms in read.records:
                if due_at(time_ms, now_ms, delay_ms) > now_ms:
                    return False
                if _tells(record):
                    return await _is_stored(broker, record)
            if read.next_offset <= at:
                return False
            at = read.next_offset
        return False

    if position >= end or not await delivered(position):
        return position
    low, step = position, 1  # low was delivered
    while (probe := min(low + step, end - 1)) > low and await delivered(probe):
        low, step = probe, step * 2
    high = end if probe == low else probe  # was not
    while high - low > 1:
        middle = (low + high) // 2
        if await delivered(middle):
            low = middle
        else:
            high = middle
    return high


def _tells(waited: RecordView) -> bool:
    """Whether a look into the store can say that *waited* was delivered: not without a key, or a place to go to."""
    try:
        real_place(waited)
    except MessageIllegal:
        return False
    return props.UNIQ_KEY in waited.properties


async def _is_stored(broker: Broker, waited: RecordView) -> bool:
    """Whether the real message of *waited* is in the log."""
    topic, queue_id = real_place(waited)
    own, key = _said(waited), waited.properties[props.UNIQ_KEY]
    found = broker.store.query(topic, key, *_ALL_TIMES, _MOST_OF_A_KEY)
    result = found if isinstance(found, QueryResult) else await found
    return any(
        record.queue_id == queue_id
        and record.log_offset > waited.log_offset
        and record.born_timestamp == waited.born_timestamp
        and record.reconsume_times == waited.reconsume_times
        and record.body_crc == waited.body_crc
        and _said(record) == own
        for record in map(read_record, result.records)
    )


def _said(record: RecordView) -> dict[str, str]:
    """Properties of *record* but for what a store writes for the queue that it goes to."""
    return {name: text for name, text in record.properties.items() if name not in _STORES_OWN}
