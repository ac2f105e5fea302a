"""Where the log's bytes come from: whoever walks over it is handed a source, and does no reading of its own.

Log offsets count from the start of the whole log. It is kept in files of one size, and files may be missing.
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

__all__ = ["FileRanges", "LogSource", "Window", "check_offset", "check_window"]

Window = Callable[[int, int], memoryview]  # (log offset, length): bytes from there on, at least so many
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
        """What each file has."""

    def file_start(self, log_offset: int) -> int | None:
        """Where the file begins that holds *log_offset*; None where there is none."""

    def next_start(self, log_offset: int) -> int | None:
        """Where the first file begins that starts at or behind *log_offset*."""

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of ``[start, end)``, within one file, where something may have been written; all if unknown."""

    def read(self, log_offset: int, length: int) -> bytes:
        """Exactly *length* bytes of one file. Raises OSError, or gives zeros for what cannot be read."""


class FileRanges:
    """The half of a `LogSource` that reads nothing: where files of one size lie. For any thread."""

    def __init__(self, starts: Sequence[int], file_bytes: int) -> None:
        """*starts*: log offset of the first byte of each, ascending; *file_bytes*: what each has."""
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
        """What each file has."""
        return self._file_bytes

    def number_at(self, log_offset: int) -> int | None:
        """Which file, from 0, holds *log_offset*; None where there is none."""
        number = bisect_right(self._starts, log_offset) - 1
        return number if number >= 0 and log_offset < self._starts[number] + self._file_bytes else None

    def file_start(self, log_offset: int) -> int | None:
        """Where the file begins that holds *log_offset*; None where there is none."""
        number = self.number_at(log_offset)
        return None if number is None else self._starts[number]

    def next_start(self, log_offset: int) -> int | None:
        """Where the first file begins that starts at or behind *log_offset*."""
        number = bisect_left(self._starts, log_offset)
        return self._starts[number] if number < len(self._starts) else None


def check_offset(source: LogSource, log_offset: int, *, check_crc: bool = True) -> CheckResult:
    """Say what stands at *log_offset*, as `check_bytes` does; END where there is no file. Reads no more than that."""
    start = source.file_start(log_offset)
    if start is None:
        return CheckResult(LogContent.END, 0, None, "")

    def window(place: int, length: int) -> memoryview:
        return memoryview(source.read(place, length))

    return check_window(window, log_offset, start + source.file_bytes, check_crc=check_crc)


def check_window(window: Window, log_offset: int, file_end: int, *, check_crc: bool) -> CheckResult:
    """As `check_bytes`, without the whole file in memory; a check sum of the record's own is looked at as well.

    Args:
        window: reads within the file.
        log_offset: where to look.
        file_end: log offset at which its file ends.
        check_crc: whether the body is checked.
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
    if result.problem:  # it counts from the window's start
        result = result._replace(problem=result.problem.replace("record at 0: ", "", 1))
    if result.record is not None and record_crc_matches(result.record.raw) is False:
        text = f"record at log offset {log_offset}: its own check sum (__CRC32#) does not match"
        return CheckResult(LogContent.DAMAGED, 0, None, text)
    return result
