"""Checking a piece of another log before it is appended: whole records and the blank at the end of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gantrymq.errors import LogMismatch
from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import MAGIC_V1, MAGIC_V2
from gantrymq_store_files.blank import BLANK_BYTES, MAGIC_BLANK
from gantrymq_store_files.log_entries import entry_of
from gantrymq_store_files.log_source import check_window
from gantrymq_store_files.plain_entries import plain_entries

_NO_END = 1 << 62


class RawRecords(NamedTuple):
    """The sound start of a piece of a log."""

    entries: list[DispatchEntry]
    size: int  # bytes of the records
    blank: int  # bytes of the blank after them, which ends the file; 0 if there is none
    problem: str  # why what follows is no record that fits; empty if nothing or the start of a record follows


def read_raw_records(
    data: bytes, log_offset: int, file_end: int | None, *, delay_levels_ms: Sequence[int], check_crc: bool
) -> RawRecords:
    """Read the whole records at the start of *data*, up to the end of the log file.

    Args:
        data: bytes of the log from *log_offset* on.
        log_offset: start of a record, or of the file's blank.
        file_end: log offset at which the file ends that contains *log_offset*; None for a log without files, which
            accepts any blank.
        delay_levels_ms: durations by delay level, for the tags codes of delayed messages.
        check_crc: whether to check bodies.
    """
    entries: list[DispatchEntry] = []
    topics: dict[bytes, str] = {}
    place = log_offset
    last_end = _NO_END if file_end is None else file_end - BLANK_BYTES  # a record leaves room for a blank

    def window(at: int, length: int) -> memoryview:
        return memoryview(data)[at - log_offset :][:length]

    while (left := log_offset + len(data) - place) >= BLANK_BYTES:
        plain = plain_entries(data, place - log_offset, place, last_end, len(data), check_crc, topics)
        while plain and plain[-1].log_offset + plain[-1].size > last_end:
            plain.pop()  # the check below says what is wrong
        if plain:
            entries += plain
            place = plain[-1].log_offset + plain[-1].size
            continue
        size, magic = int.from_bytes(window(place, 4), "big"), int.from_bytes(window(place + 4, 4), "big")
        if magic == MAGIC_BLANK:
            if size < BLANK_BYTES or (file_end is not None and place + size != file_end):
                problem = f"a blank of {size} bytes where the log file has {last_end + BLANK_BYTES - place} left"
                return RawRecords(entries, place - log_offset, 0, problem)
            return RawRecords(entries, place - log_offset, size if size <= left else 0, "")
        if size > last_end - place:
            problem = f"a record of {size} bytes where the log file has {max(last_end - place, 0)} left"
            return RawRecords(entries, place - log_offset, 0, problem)
        if magic in (MAGIC_V1, MAGIC_V2) and size > left:
            break
        result = check_window(window, place, log_offset + len(data), check_crc=check_crc)
        if result.record is None:
            return RawRecords(entries, place - log_offset, 0, result.problem or "zeros where a record belongs")
        entries.append(entry_of(result.record, delay_levels_ms))
        place += result.size
    return RawRecords(entries, place - log_offset, 0, "")


def mismatch(log_offset: int, problem: str) -> LogMismatch:
    """Return the error for bytes at *log_offset* that cannot be appended because of *problem*."""
    return LogMismatch(
        f"the bytes at log offset {log_offset} cannot be appended: {problem}; both logs need the same "
        "mappedFileSizeCommitLog, and the same records before this offset"
    )
