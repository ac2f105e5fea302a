"""Walking the log over a range of log offsets: every sound record, and every place where none is.

    for found in scan(reader, start, end):      # RecordView or LogDamage, in log order

A record belongs to the range in which it starts. Behind a place that cannot be trusted the walk goes on at the next
sound record or blank of the file, found by its magic and its own log offset; a record that stands inside the body of
another one says another log offset and is not taken for one. So one damaged byte costs one record.

A record behind damage that is older than those before it is no part of the log: a Java broker that cuts its log leaves
what stood behind the cut, and newer records in front of it. Such remains are told, and not walked.

Zeros are the log's end when nothing but zeros follows, also in later files. Zeros with something behind them are
damage: pages that never reached the disk.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gantrymq.formats.blank import BLANK_BYTES, MAGIC_BLANK
from gantrymq.formats.check import CheckResult, Found, check_place
from gantrymq.formats.record import MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, RecordView
from gantrymq.formats.record_crc import record_crc_matches
from gantrymq.offline.layout import StoreFile
from gantrymq.offline.log_reader import LogReader

__all__ = ["LogDamage", "LogWalk", "align", "scan"]

CHUNK_BYTES = 4 * 1024 * 1024
WINDOW_BYTES = 1024 * 1024
_HEAD = struct.Struct(">iI")
_LOG_OFFSET_AT = 28
_MAGICS = re.compile(rb"\xda\xa3\x20[\xa7\xab]|\xcb\xd4\x31\x94")
_ZEROS = bytes(CHUNK_BYTES)


class LogDamage(NamedTuple):
    """A stretch of the log without a sound record."""

    kind: str  # torn, damaged, zeros, missing, remains
    log_offset: int
    size: int  # bytes up to where the walk went on, or to the last byte that is not zero
    problem: str
    timestamp: int = 0  # ms, the store time of the record before it in this walk, 0 without one


class LogWalk:
    """One walk; `position` is behind what was found last, `zeros_from` where only zeros followed, -1 if nothing did."""

    def __init__(self, reader: LogReader, start: int, end: int | None = None, *, check_crc: bool = True) -> None:
        """*start* is where a record, a blank or nothing starts (see `align`); *end* is the log's end when None."""
        self.position = start
        self.zeros_from = -1
        self.last_timestamp = 0  # ms, of the record before
        self._not_before = 0  # ms, the smaller store time of the two records before: one may be damaged
        self.read_bytes = 0
        self._reader = reader
        self._end = reader.log.end if end is None else end
        self._check_crc = check_crc
        self._view = memoryview(b"")
        self._base = 0  # log offset of the first byte of _view

    def __iter__(self) -> Iterator[RecordView | LogDamage]:
        """Walk. Budget: 4 us a record and the CRC of its body. Views stay valid."""
        while True:
            file = self._reader.file_at(self.position)
            if file is None:
                behind = self._reader.next_file(self.position)
                if behind is None:
                    return
                yield from self._settle_zeros()
                text = f"the log's files between {self.position} and {behind.start} are missing"
                yield LogDamage("missing", self.position, behind.start - self.position, text, self.last_timestamp)
                self.position = behind.start
                continue
            if self.position >= self._end:
                return
            yield from self._file(file, file.start + self._reader.log.file_bytes)

    def window(self) -> memoryview:
        """Bytes from `position` on, at least a megabyte of them where the file has so many; empty without a file."""
        file = self._reader.file_at(self.position)
        if file is None:
            return memoryview(b"")
        file_end = file.start + self._reader.log.file_bytes
        return self._window(file, self.position, min(WINDOW_BYTES, file_end - self.position), file_end)

    def skip(self, size: int, timestamp: int) -> None:
        """Go on behind *size* bytes of sound records that somebody else took, the last stored at *timestamp* (ms)."""
        self.position += size
        self.last_timestamp = timestamp

    def _file(self, file: StoreFile, file_end: int) -> Iterator[RecordView | LogDamage]:
        while self.position < file_end:
            at = self.position
            result = self._check(file, at, file_end)
            if at >= self._end and result.found in (Found.RECORD, Found.BLANK):
                return  # the next range begins here; damage at the seam belongs to this one
            if result.found is Found.END:
                if (used := self._last_used(file, at, file_end)) == at:
                    if self.zeros_from < 0:
                        self.zeros_from = at
                    self.position = file_end
                    continue
                behind = self._resume(file, at, file_end)
                if behind is not None and self._older(file, behind, file_end):
                    behind = None
                    yield from self._settle_zeros()
                    text = f"behind log offset {at} stand remains of an older log that a broker cut off"
                    yield LogDamage("remains", at, used - at, text, self.last_timestamp)
                    self.position, self.zeros_from = file_end, used
                    continue
                yield from self._settle_zeros()
                text = f"zeros at log offset {at} where a record belongs; more follows in {file.path.name}"
                stop = used if behind is None else behind
                yield LogDamage("zeros", at, stop - at, text, self.last_timestamp)
            elif result.found in (Found.RECORD, Found.BLANK):
                yield from self._settle_zeros()
                self.position = at + result.size
                if result.record is not None:
                    self._not_before = min(self.last_timestamp, result.record.store_timestamp)
                    self.last_timestamp = result.record.store_timestamp
                    yield result.record
                continue
            else:
                behind = self._resume(file, at, file_end)
                stop = self._damage_end(file, at, file_end) if behind is None else behind
                kind, problem = ("torn" if result.found is Found.TORN else "damaged"), result.problem
                if behind is not None and self._older(file, behind, file_end):
                    behind, stop, kind = None, self._last_used(file, at, file_end), "remains"
                    problem = f"behind log offset {at} stand remains of an older log that a broker cut off"
                yield from self._settle_zeros()
                yield LogDamage(kind, at, stop - at, problem, self.last_timestamp)
            if behind is not None:
                self.position = behind
            else:
                self.position = file_end
                if stop < file_end:
                    self.zeros_from = stop

    def _settle_zeros(self) -> Iterator[LogDamage]:
        """Something follows zeros that looked like the log's end, so they are damage up to the end of their file."""
        if self.zeros_from >= 0:
            start, self.zeros_from = self.zeros_from, -1
            file = self._reader.file_at(start)
            assert file is not None
            size = file.start + self._reader.log.file_bytes - start
            text = f"zeros from log offset {start} to the end of {file.path.name}, but the log goes on behind it"
            yield LogDamage("zeros", start, size, text, self.last_timestamp)

    # --- one place --------------------------------------------------------------------------------------------------

    def _check(self, file: StoreFile, at: int, file_end: int) -> CheckResult:
        """As `check_place`, over a window of the file."""
        left = file_end - at
        if left < BLANK_BYTES:
            return CheckResult(Found.END, 0, None, "")
        size, magic = _HEAD.unpack(self._window(file, at, BLANK_BYTES, file_end)[:BLANK_BYTES])
        if magic == MAGIC_BLANK:
            if size == left:
                return CheckResult(Found.BLANK, size, None, "")
            return CheckResult(Found.DAMAGED, 0, None, f"blank at {at} claims {size} bytes, {left} are left")
        if size == 0 and magic == 0:
            return CheckResult(Found.END, 0, None, "")
        if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_RECORD_BYTES <= size <= left:
            text = (
                f"log offset {at}: size {size} and magic {magic:#010x} where {MIN_RECORD_BYTES} to {left} and "
                f"{MAGIC_V1:#010x} or {MAGIC_V2:#010x} belong"
            )
            return CheckResult(Found.DAMAGED, 0, None, text)
        result = check_place(self._window(file, at, size, file_end)[:size], 0, at, check_crc=self._check_crc)
        if result.problem:  # it counts from the window's start
            result = result._replace(problem=result.problem.replace("record at 0: ", "", 1))
        if result.record is not None and record_crc_matches(result.record.raw) is False:
            text = f"record at log offset {at}: its own check sum (__CRC32#) does not match"
            return CheckResult(Found.DAMAGED, 0, None, text)
        return result

    def _window(self, file: StoreFile, at: int, length: int, file_end: int) -> memoryview:
        """Bytes from *at* on, at least *length* of them."""
        skip = at - self._base
        if skip < 0 or skip + length > len(self._view):
            read = min(max(length, CHUNK_BYTES), file_end - at)
            self._view = memoryview(self._reader.read(file, at, read))
            self._base, skip = at, 0
            self.read_bytes += read
        return self._view[skip:]

    # --- behind damage ----------------------------------------------------------------------------------------------

    def _resume(self, file: StoreFile, at: int, file_end: int) -> int | None:
        """The next place behind *at* in this file where a sound record or a blank stands."""
        return _search(self, file, at + 1, file_end)

    def _older(self, file: StoreFile, place: int, file_end: int) -> bool:
        """Whether the record at *place* was stored before those that the walk came by."""
        record = self._check(file, place, file_end).record
        return record is not None and record.store_timestamp < self._not_before

    def _last_used(self, file: StoreFile, at: int, file_end: int) -> int:
        """Behind the last byte of ``[at, file_end)`` that is not zero; *at* when all are."""
        used, place = at, at
        while place < file_end:
            length = min(CHUNK_BYTES, file_end - place)
            data = self._reader.read(file, place, length)
            self.read_bytes += length
            if data != (_ZEROS if length == CHUNK_BYTES else _ZEROS[:length]):
                used = place + len(data.rstrip(b"\0"))
            place += length
        return used

    def _damage_end(self, file: StoreFile, at: int, file_end: int) -> int:
        """How far damage reaches that no sound record follows: what the record claims, or all that is not zero."""
        size, magic = _HEAD.unpack(self._reader.read(file, at, BLANK_BYTES))
        claimed = at + size if magic in (MAGIC_V1, MAGIC_V2) and MIN_RECORD_BYTES <= size <= file_end - at else at
        return max(claimed, self._last_used(file, at, file_end))


def scan(
    reader: LogReader, start: int | None = None, end: int | None = None, *, check_crc: bool = True
) -> Iterator[RecordView | LogDamage]:
    """Walk ``[start, end)``; the whole log by default."""
    return iter(LogWalk(reader, reader.log.start if start is None else start, end, check_crc=check_crc))


def align(reader: LogReader, log_offset: int) -> int:
    """The first place at or behind *log_offset* where a sound record or a blank starts, else the end of that file.

    Ranges that begin somewhere inside a file begin here; starts of files need no search.
    """
    file = reader.file_at(log_offset)
    if file is None:
        behind = reader.next_file(log_offset)
        return reader.log.end if behind is None else behind.start
    if file.start == log_offset:
        return log_offset
    file_end = file.start + reader.log.file_bytes
    found = _search(LogWalk(reader, log_offset), file, log_offset, file_end)
    return file_end if found is None else found


def _search(walk: LogWalk, file: StoreFile, start: int, file_end: int) -> int | None:
    """The first sound record or blank that starts in ``[start, file_end)``."""
    overlap = _LOG_OFFSET_AT + 8
    place = start
    while place + BLANK_BYTES <= file_end:
        length = min(CHUNK_BYTES, file_end - place)
        data = walk._reader.read(file, place, length)
        walk.read_bytes += length
        for match in _MAGICS.finditer(data, 4):
            at = match.start() - 4
            stated = data[at + _LOG_OFFSET_AT : at + overlap]
            is_blank = data[at + 4] == MAGIC_BLANK >> 24
            if not is_blank and len(stated) == 8 and int.from_bytes(stated, "big") != place + at:
                continue
            if walk._check(file, place + at, file_end).found in (Found.RECORD, Found.BLANK):
                return place + at
        if length < CHUNK_BYTES:
            break
        place += length - overlap
    return None
