"""Queue offsets by store time, by bisection over the entries: about 20 small reads, in a thread, as they may be cold.

Source: apache/rocketmq store/.../ConsumeQueue.java (getOffsetInQueueByTime, binarySearchInQueueByTime).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from gantrymq.plugin.interfaces import BoundaryType
from gantrymq.plugin.sys_flag import BORN_HOST_V6
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue, Read
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, entry_of
from gantrymq_storage_mmap.queues.segmented_file import first_false
from gantrymq_store_files.queue_entry import ENTRY_BYTES, QueueEntry

_SYS_FLAG_TO_TIME = struct.Struct(">i8x8xq")  # from byte 36; the born host in between has 8 bytes
_SYS_FLAG_TO_TIME_V6 = struct.Struct(">i8x20xq")
_STORE_TIME_AT = 36  # from the start of a record: flag and store time are in the STORE_TIME_BYTES from here on
_STORE_TIME_BYTES = _SYS_FLAG_TO_TIME_V6.size


def search(log: CommitLog, queue: ConsumeQueue | BatchQueue, time_ms: int, edge: BoundaryType) -> Callable[[], int]:
    """Return a function that finds the queue offset for *time_ms*, within the queue's bounds, in a thread.

    LOWER: the first message stored at or after the time, the queue's end if there is none. UPPER: the last message
    stored at or before it, the queue's minimum if there is none.

    This function is called on the event loop. Entries of a batch queue hold their store times; the result is the offset
    of a record's first message. For LOWER, Java returns the last batch even if it is older; here the result is the
    queue's end, as for other queues.
    """
    if isinstance(queue, BatchQueue):
        return partial(_batch_offset, queue, queue.detached_entries(), time_ms, edge)
    return partial(_offset, log, queue.detached(), queue.min_offset, queue.max_offset, time_ms, edge)


def _offset(
    log: CommitLog, read: Callable[[int, int], bytes], low: int, high: int, time_ms: int, edge: BoundaryType
) -> int:
    def stored(number: int) -> int:
        return store_time(log, entry_of(read(number * ENTRY_BYTES, ENTRY_BYTES)))

    if edge is BoundaryType.LOWER:
        return first_false(lambda number: stored(number) < time_ms, low, high)
    return max(first_false(lambda number: stored(number) <= time_ms, low, high) - 1, low)


def _batch_offset(queue: BatchQueue, read: Read, time_ms: int, edge: BoundaryType) -> int:
    end = queue.max_offset
    if edge is BoundaryType.LOWER:
        number = queue.last_where(lambda entry: entry.store_timestamp < time_ms, read) + 1
    else:
        number = max(queue.last_where(lambda entry: entry.store_timestamp <= time_ms, read), queue.first)
    entry = queue.entry(number, read) if number < queue.number_end else None
    return entry.base_offset if entry is not None else end


def store_time(log: CommitLog, entry: QueueEntry | None) -> int:
    """Return the store time in ms of the message of *entry*, 0 if its record does not exist. For any thread."""
    file = log.find(entry[0]) if entry is not None else None
    if entry is None or file is None:
        return 0
    at = entry[0] + _STORE_TIME_AT
    data = file.pread(at, at + _STORE_TIME_BYTES)
    if len(data) < _STORE_TIME_BYTES:
        return 0
    sys_flag, stored = _SYS_FLAG_TO_TIME.unpack_from(data)
    if sys_flag & BORN_HOST_V6:
        stored = _SYS_FLAG_TO_TIME_V6.unpack_from(data)[1]
    return int(stored)
