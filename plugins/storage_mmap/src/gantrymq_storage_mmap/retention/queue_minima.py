"""Where queues begin once the log, or their topic's time, has moved on. Runs in threads, over what was copied for it.

A queue's entries lie in log order and in order of store time, so each new minimum is a bisection: some 20 reads of a
queue file, and as many of the log where time decides. Nothing is written here.

Source: apache/rocketmq store/.../ConsumeQueue.java (correctMinOffset).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gantrymq.formats.file_names import file_name, file_start
from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES, is_pre_blank
from gantrymq.world import Files
from gantrymq_storage_mmap.log.snapshot import LogSnapshot
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.reading.time_search import STORE_TIME_AT, STORE_TIME_BYTES, store_time_of

__all__ = [
    "Minimum",
    "QueueSpan",
    "delete_file",
    "first_in_log",
    "first_since",
    "is_expired",
    "spans_of",
    "starts_before",
]


class QueueSpan(NamedTuple):
    """The part of one queue that is in files. What lies in memory, or is added meanwhile, comes behind it."""

    queue: ConsumeQueue
    low: int  # its minimum
    high: int  # behind the last entry in a file; a thread that takes it while entries are added may get it too low


def spans_of(queues: Sequence[ConsumeQueue]) -> list[QueueSpan]:
    """The queues as they are now."""
    return [QueueSpan(queue, queue.min_offset, queue.written_offset) for queue in queues]


class Minimum(NamedTuple):
    """Where a queue begins."""

    queue: ConsumeQueue
    queue_offset: int
    oldest: int  # log offset of the record there, -1 where it was not looked at


def first_in_log(span: QueueSpan, log_min: int) -> Minimum:
    """The first entry at or behind *log_min*, the span's end when there is none.

    The two ends are looked at first: they are the answer for nearly every queue.
    """
    oldest = -1

    def gone(queue_offset: int) -> bool:
        nonlocal oldest
        log_offset, size = _entry(span.queue, queue_offset)
        if log_offset < log_min or is_pre_blank(log_offset, size):
            return True
        oldest = log_offset
        return False

    low, high = span.low, span.high
    if low < high and gone(low):
        low = high if gone(high - 1) else _first(low + 1, high - 1, gone)
        if low < high:
            gone(low)
    return Minimum(span.queue, low, oldest)


def first_from(queue: ConsumeQueue, low: int, log_min: int) -> int:
    """Queue offset of the first entry from *low* on that is at or behind *log_min*, for the event loop.

    Meant for what a thread left over, entries in memory: nearly always none.
    """

    def gone(queue_offset: int) -> bool:
        entry = queue.entry(queue_offset)
        return entry is None or entry[0] < log_min or is_pre_blank(entry[0], entry[1])

    high = queue.max_offset
    return low if low >= high or not gone(low) else _first(low + 1, high, gone)


def first_since(span: QueueSpan, time_ms: int, log: LogSnapshot) -> int:
    """Queue offset of the first message stored at or after *time_ms*, the span's end when there is none."""

    def gone(queue_offset: int) -> bool:
        log_offset, _ = _entry(span.queue, queue_offset)
        return log_offset < 0 or store_time_of(log.pread(log_offset + STORE_TIME_AT, STORE_TIME_BYTES)) < time_ms

    low, high = span.low, span.high
    if low >= high or not gone(low):
        return low
    return _first(low + 1, high, gone)


def is_expired(span: QueueSpan, log_min: int) -> bool:
    """Whether every message of a queue that had some has left the log."""
    log_offset, size = _entry(span.queue, span.high - 1) if span.high else (-1, 0)
    return size > 0 and 0 <= log_offset < log_min


def _first(low: int, high: int, gone: Callable[[int], bool]) -> int:
    while low < high:
        middle = (low + high) // 2
        if gone(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _entry(queue: ConsumeQueue, queue_offset: int) -> tuple[int, int]:
    """Log offset and size; (-1, 0), which is before everything, where the file is gone."""
    data = queue.read_detached(queue_offset * ENTRY_BYTES, ENTRY_BYTES)
    if len(data) < ENTRY_BYTES:
        return -1, 0
    log_offset, size, _ = ENTRY.unpack(data)
    return log_offset, size


def starts_before(files: Files, folder: Path, position: int) -> list[int]:
    """Positions of the files of a row that begin before *position*."""
    starts = [file_start(name) for name in files.list(folder)]
    return [start for start in starts if start is not None and start < position]


def delete_file(files: Files, folder: Path, start: int) -> None:
    """Delete the file of a row at byte *start*, for good."""
    files.remove(folder / file_name(start))
    files.sync_dir(folder)
