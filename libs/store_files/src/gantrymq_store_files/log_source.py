"""Source of the log's bytes: walks over the log do no I/O themselves, but use a source.

Log offsets count from the start of the whole log. It is stored in files of one size, and files may be missing.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Protocol

from gantrymq.formats.record import MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES
from gantrymq_store_files.blank import BLANK_BYTES, MAGIC_BLANK
from gantrymq_store_files.check import CheckResult, LogContent, check_bytes
from gantrymq_store_files.record_crc import record_crc_matches

Window = Callable[[int, int], memoryview]  # (log offset, length) to at least *length* bytes
_HEAD = struct.Struct(">iI")


class LogSource(Protocol):
    """The files of one log."""

    @property
    def start(self) -> int:
        """Log offset at which the first file begins."""

    @property
    def end(self) -> int:
        """Log offset at which the last file ends."""

    @property
    def file_bytes(self) -> int:
        """Size of each file."""

    def file_start(self, log_offset: int) -> int | None:
        """Return the start of the file that holds *log_offset*; None if there is none."""

    def next_start(self, log_offset: int) -> int | None:
        """Return the start of the first file at or after *log_offset*."""

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of ``[start, end)``, within one file, that may have been written; all if unknown."""

    def read(self, log_offset: int, length: int) -> bytes:
        """Return exactly *length* bytes of one file. Raises OSError, or returns zeros for unreadable bytes."""


class FileRanges:
    """The part of a `LogSource` without I/O: positions of files of one size. For any thread."""

    def __init__(self, starts: Sequence[int], file_bytes: int) -> None:
        """*starts*: log offset of the first byte of each file, ascending; *file_bytes*: size of each."""
        self._starts = starts
        self._file_bytes = file_bytes

    @property
    def start(self) -> int:
        """Log offset at which the first file begins, 0 without files."""
        return self._starts[0] if self._starts else 0

    @property
    def end(self) -> int:
        """Log offset at which the last file ends, 0 without files."""
        return self._starts[-1] + self._file_bytes if self._starts else 0

    @property
    def file_bytes(self) -> int:
        """Size of each file."""
        return self._file_bytes

    def number_at(self, log_offset: int) -> int | None:
        """Return the number, from 0, of the file that holds *log_offset*; None if there is none."""
        number = bisect_right(self._starts, log_offset) - 1
        return number if number >= 0 and log_offset < self._starts[number] + self._file_bytes else None

    def file_start(self, log_offset: int) -> int | None:
        """Return the start of the file that holds *log_offset*; None if there is none."""
        number = self.number_at(log_offset)
        return None if number is None else self._starts[number]

    def next_start(self, log_offset: int) -> int | None:
        """Return the start of the first file at or after *log_offset*."""
        number = bisect_left(self._starts, log_offset)
        return self._starts[number] if number < len(self._starts) else None


def check_offset(source: LogSource, log_offset: int, *, check_crc: bool = True) -> CheckResult:
    """Check the content at *log_offset* like `check_bytes`; END without a file. Reads only what is needed."""
    start = source.file_start(log_offset)
    if start is None:
        return CheckResult(LogContent.END, 0, None, "")

    def window(place: int, length: int) -> memoryview:
        return memoryview(source.read(place, length))

    return check_window(window, log_offset, start + source.file_bytes, check_crc=check_crc)


def check_window(window: Window, log_offset: int, file_end: int, *, check_crc: bool) -> CheckResult:
    """Like `check_bytes`, without the whole file in memory; also checks a record's own check sum.

    Args:
        window: reads within the file.
        log_offset: position to check.
        file_end: log offset at which its file ends.
        check_crc: whether to check the body.
    """
    left = file_end - log_offset
    if left < BLANK_BYTES:
        return CheckResult(LogContent.END, 0, None, "")
    size, magic = _HEAD.unpack(window(log_offset, BLANK_BYTES)[:BLANK_BYTES])
    if magic == MAGIC_BLANK:
        if size == left:
            return CheckResult(LogContent.BLANK, size, None, "")
        return CheckResult(LogContent.DAMAGED, 0, None, f"blank at {log_offset} claims {size} bytes, {left} are left")
    if size == 0 and magic == 0:
        return CheckResult(LogContent.END, 0, None, "")
    if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_RECORD_BYTES <= size <= left:
        text = (
            f"log offset {log_offset}: size {size} and magic {magic:#010x} where {MIN_RECORD_BYTES} to {left} and "
            f"{MAGIC_V1:#010x} or {MAGIC_V2:#010x} belong"
        )
        torn = magic == 0 and MIN_RECORD_BYTES <= size <= left and not any(window(log_offset + 4, size - 4)[: size - 4])
        return CheckResult(LogContent.TORN if torn else LogContent.DAMAGED, 0, None, text)
    result = check_bytes(window(log_offset, size)[:size], 0, log_offset, check_crc=check_crc)
    if result.problem:  # its position counts from the window's start
        result = result._replace(problem=result.problem.replace("record at 0: ", "", 1))
    if result.record is not None and record_crc_matches(result.record.raw) is False:
        text = f"record at log offset {log_offset}: its own check sum (__CRC32#) does not match"
        return CheckResult(LogContent.DAMAGED, 0, None, text)
    return result
