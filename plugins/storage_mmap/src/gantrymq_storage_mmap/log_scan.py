"""Walking the log record by record: for recovery, which stops at the first thing it cannot trust, and for replays.

Source: apache/rocketmq store/.../CommitLog.java (recoverNormally, recoverAbnormally).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gantrymq.errors import FormatError
from gantrymq.formats.check import Found, check_place
from gantrymq.formats.record import RecordView, read_record
from gantrymq.formats.tags_code import tags_code_of
from gantrymq.interfaces import DispatchEntry
from gantrymq_storage_mmap.commit_log import CommitLog
from gantrymq_storage_mmap.log_file import LogFile

__all__ = ["ScanEnd", "check_records", "dispatch_entries", "first_record", "read_at"]


class ScanEnd(NamedTuple):
    """Where a scan stopped, and why."""

    log_offset: int  # behind the last sound record, or at the start of the file behind its blank
    found: Found  # END, TORN or DAMAGED
    problem: str  # a sentence's part when it is not END
    records: int
    last_timestamp: int  # ms, store time of the last sound record, 0 without one


def check_records(files: list[LogFile], start: int, check_crc: bool, see: Callable[[RecordView], None]) -> ScanEnd:
    """Check every record from log offset *start* on and show the sound ones to *see*, in log order.

    Budget: 4 us a record and the CRC of its body.

    Args:
        files: the log's files, one behind the other; *start* lies in one of them or at the end of the last.
        start: where a record, a blank or nothing stands.
        check_crc: whether bodies are checked.
        see: must not keep the view.
    """
    position, records, last_timestamp = start, 0, 0
    for file in files:
        if file.end <= start:
            continue
        view = file.mapping().view
        at = max(start - file.start, 0)
        while True:
            found, size, record, problem = check_place(view, at, file.start + at, check_crc=check_crc)
            if record is not None:
                see(record)
                records += 1
                last_timestamp = record.store_timestamp
                at += size
                continue
            if found is not Found.BLANK:
                return ScanEnd(file.start + at, found, problem, records, last_timestamp)
            break
        position = file.end
    return ScanEnd(position, Found.END, "", records, last_timestamp)


def first_record(file: LogFile) -> RecordView | None:
    """The record a file starts with, None when there is none that can be read."""
    return check_place(file.mapping().view, 0, file.start, check_crc=False).record


def dispatch_entries(log: CommitLog, start: int, end: int, delay_levels_ms: tuple[int, ...]) -> Iterator[DispatchEntry]:
    """Every record of ``[start, end)`` as dispatchers see it. Budget: 6 us a record.

    Args:
        log: read through mappings.
        start: where a record starts; below the log's minimum counts as the minimum.
        end: where a record ends.
        delay_levels_ms: durations by delay level, for the tags codes of delayed messages.
    """
    position = max(start, log.min_offset)
    before: LogFile | None = None
    while position < end:
        file = log.find(position)
        if file is None:
            return
        if before is not None and before is not file and before.end <= log.hot_offset:
            before.unmap()
        before = file
        found = check_place(file.mapping().view, position - file.start, position, check_crc=False)
        if found.found is Found.BLANK:
            position = file.end
            continue
        record = found.record
        if record is None:
            return
        yield DispatchEntry(
            record.topic,
            record.queue_id,
            record.queue_offset,
            record.log_offset,
            record.total_size,
            tags_code_of(record.topic, record.properties, record.store_timestamp, delay_levels_ms),
            record.store_timestamp,
            record.sys_flag,
            record.prepared_offset,
            bytes(record.properties_bytes),
        )
        position += record.total_size


def read_at(log: CommitLog, log_offset: int) -> RecordView | None:
    """The record at *log_offset*, None where no record starts."""
    file = log.find(log_offset)
    if file is None or log_offset >= log.end:
        return None
    if file.mapped and log_offset >= log.hot_offset:
        data: bytes | memoryview = file.slice(log_offset, min(file.end, log.end))
    else:
        size = int.from_bytes(file.pread(log_offset, log_offset + 4), "big", signed=True)
        if not 0 < size <= min(file.end, log.end) - log_offset:
            return None
        data = file.pread(log_offset, log_offset + size)
    try:
        record = read_record(data)
    except FormatError:
        return None
    return record if record.log_offset == log_offset else None
