"""Walking the log over a range of log offsets: every sound record, and every place where none is.

    for found in scan(source, start, end):      # RecordView or LogDamage, in log order

A record belongs to the range in which it starts. Behind a place that cannot be trusted the walk goes on at the next
sound record or blank of the file, found by its magic and its own log offset; a record that stands inside the body of
another one says another log offset and is not taken for one. So one damaged byte costs one record.

A record behind damage that is older than those before it is no part of the log: a Java broker that cuts its log leaves
what stood behind the cut, and newer records in front of it. Such remains are told, and not walked.

Zeros are the log's end when nothing but zeros follows, also in later files. Zeros with something behind them are
damage: pages that never reached the disk.

Damage is a hole where a record stands behind it, and the log's tail where none does: `LogWalk.sound_end` tells.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gantrymq.formats.record import MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, RecordView
from gantrymq_store_files.blank import BLANK_BYTES, MAGIC_BLANK
from gantrymq_store_files.check import CheckResult, LogContent
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.log_source import LogSource, check_window
from gantrymq_store_files.zeros import last_nonzero

__all__ = ["LogDamage", "LogWalk", "align", "scan"]

CHUNK_BYTES = 4 * 1024 * 1024
WINDOW_BYTES = 1024 * 1024
_HEAD = struct.Struct(">iI")
_LOG_OFFSET_AT = 28
_MAGICS = re.compile(rb"\xda\xa3\x20[\xa7\xab]|\xcb\xd4\x31\x94")


class LogDamage(NamedTuple):
    """A stretch of the log without a sound record."""

    kind: str  # torn, damaged, zeros, missing, remains
    log_offset: int
    size: int  # bytes up to where the walk went on, or to the last byte that is not zero
    problem: str
    timestamp: int = 0  # ms, the store time of the record before it in this walk, 0 without one

    @property
    def end(self) -> int:
        """Log offset behind it."""
        return self.log_offset + self.size


class LogWalk:
    """One walk. What its source raises ends it; `position` tells where."""

    def __init__(
        self,
        source: LogSource,
        start: int,
        end: int | None = None,
        *,
        check_crc: bool = True,
        look_behind_end: bool = True,
        trust_zeros: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """Nothing is read yet.

        Args:
            source: the log's files.
            start: where a record, a blank or nothing starts (see `align`).
            end: records that start before it are walked over; the log's end when None.
            check_crc: whether bodies are checked.
            look_behind_end: damage that starts at *end* is told, and searched for where it stops: ranges lie side by
                side, and nobody else would tell. False for a part of a log that is being written to.
            trust_zeros: zeros where a record belongs are the log's end; what stands behind them is not read.
            chunk_bytes: what is read at once; more for a record that is longer.
        """
        self.position = start  # behind what was found last
        self.sound_end = start  # behind the last sound record, and behind a blank that follows it
        self.zeros_from = -1  # only zeros from here on, as far as the walk came; -1 while something else stands last
        self.last_timestamp = 0  # ms, of the record before
        self.read_bytes = 0
        self._not_before = 0  # ms, the smaller store time of the two records before: one may be damaged
        self._source = source
        self._end = source.end if end is None else end
        self._check_crc = check_crc
        self._look_behind_end = look_behind_end
        self._trust_zeros = trust_zeros
        self._chunk_bytes = chunk_bytes
        self._data = b""
        self._base = 0  # log offset of the first byte of _data

    def __iter__(self) -> Iterator[RecordView | LogDamage]:
        """Walk. Views stay valid."""
        while True:
            start = self._source.file_start(self.position)
            if start is None:
                behind = self._source.next_start(self.position)
                if behind is None or (behind >= self._end and not self._look_behind_end):
                    return
                yield from self._settle_zeros()
                text = f"the log's files between {self.position} and {behind} are missing"
                yield LogDamage("missing", self.position, behind - self.position, text, self.last_timestamp)
                self.position = behind
                continue
            if self.position >= self._end:
                return
            yield from self._file(start, start + self._source.file_bytes)

    # --- for those who take many records at once --------------------------------------------------------------------

    def window(self) -> memoryview:
        """Bytes from `position` on, at least a megabyte of them where the file has so many; empty without a file."""
        start = self._source.file_start(self.position)
        if start is None:
            return memoryview(b"")
        file_end = start + self._source.file_bytes
        return self._window(self.position, min(WINDOW_BYTES, file_end - self.position), file_end)

    def loaded(self) -> tuple[bytes, int]:
        """What was read last, and where in it `position` lies; at or behind its end when nothing is left of it."""
        place = self.position - self._base
        return (self._data, place) if place >= 0 else (b"", 0)

    def skip(self, size: int, timestamp: int, before: int = 0) -> None:
        """Go on behind *size* bytes of sound records that somebody else took.

        Args:
            size: bytes.
            timestamp: ms, the store time of the last.
            before: ms, that of the last but one; 0 when it is not known.
        """
        self.position += size
        self.sound_end = self.position
        self.last_timestamp = timestamp
        if before:
            self._not_before = min(timestamp, before)

    # --- one file ---------------------------------------------------------------------------------------------------

    def _file(self, start: int, file_end: int) -> Iterator[RecordView | LogDamage]:
        while self.position < file_end:
            at = self.position
            if at >= self._end and not self._look_behind_end:
                return
            result = self._check(at, file_end)
            if at >= self._end and result.found in (LogContent.RECORD, LogContent.BLANK):
                return  # the next range begins here; damage at the seam belongs to this one
            if result.found is LogContent.END:
                if self._trust_zeros:
                    self.zeros_from = self._end = at
                    return
                if (used := self._last_used(at, file_end)) == at:
                    if self.zeros_from < 0:
                        self.zeros_from = at
                    self.position = file_end
                    continue
                behind = self._resume(at, file_end)
                if behind is not None and self._older(behind, file_end):
                    behind = None
                    yield from self._settle_zeros()
                    text = f"behind log offset {at} stand remains of an older log that a broker cut off"
                    yield LogDamage("remains", at, used - at, text, self.last_timestamp)
                    self.position, self.zeros_from = file_end, used
                    continue
                yield from self._settle_zeros()
                text = f"zeros at log offset {at} where a record belongs; more follows in {file_name(start)}"
                stop = used if behind is None else behind
                yield LogDamage("zeros", at, stop - at, text, self.last_timestamp)
            elif result.found in (LogContent.RECORD, LogContent.BLANK):
                yield from self._settle_zeros()
                self.position = at + result.size
                if result.record is None:
                    if self.sound_end == at:
                        self.sound_end = self.position
                    continue
                self.sound_end = self.position
                self._not_before = min(self.last_timestamp, result.record.store_timestamp)
                self.last_timestamp = result.record.store_timestamp
                yield result.record
                continue
            else:
                behind = self._resume(at, file_end)
                stop = self._damage_end(at, file_end) if behind is None else behind
                kind, problem = ("torn" if result.found is LogContent.TORN else "damaged"), result.problem
                if behind is not None and self._older(behind, file_end):
                    behind, stop, kind = None, self._last_used(at, file_end), "remains"
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
        """Something follows zeros that looked like the log's end, so they are damage up to the start of its file."""
        at, self.zeros_from = self.zeros_from, -1
        if at < 0:
            return
        stop = self._source.file_start(self.position)
        stop = self.position if stop is None else stop
        while at < stop:
            start = self._source.file_start(at)
            assert start is not None
            size = start + self._source.file_bytes - at
            text = f"zeros from log offset {at} to the end of {file_name(start)}, but the log goes on behind it"
            yield LogDamage("zeros", at, size, text, self.last_timestamp)
            at += size

    # --- one place --------------------------------------------------------------------------------------------------

    def _check(self, at: int, file_end: int) -> CheckResult:
        def window(place: int, length: int) -> memoryview:
            return self._window(place, length, file_end)

        return check_window(window, at, file_end, check_crc=self._check_crc)

    def _window(self, at: int, length: int, file_end: int) -> memoryview:
        """Bytes from *at* on, at least *length* of them."""
        skip = at - self._base
        if skip < 0 or skip + length > len(self._data):
            wanted = self._chunk_bytes if self._look_behind_end else min(self._chunk_bytes, self._end - at)
            read = min(max(length, wanted), file_end - at)
            self._data = self._source.read(at, read)
            self._base, skip = at, 0
            self.read_bytes += read
        return memoryview(self._data)[skip:]

    # --- behind damage ----------------------------------------------------------------------------------------------

    def _resume(self, at: int, file_end: int) -> int | None:
        """The next place behind *at* in this file where a sound record or a blank stands."""
        return self.search(at + 1, file_end)

    def search(self, start: int, file_end: int) -> int | None:
        """The first sound record or blank that starts in ``[start, file_end)`` of one file."""
        overlap = _LOG_OFFSET_AT + 8
        place = start
        while place + BLANK_BYTES <= file_end:
            length = min(CHUNK_BYTES, file_end - place)
            data = self._source.read(place, length)
            self.read_bytes += length
            for match in _MAGICS.finditer(data, 4):
                at = match.start() - 4
                stated = data[at + _LOG_OFFSET_AT : at + overlap]
                is_blank = data[at + 4] == MAGIC_BLANK >> 24
                if not is_blank and len(stated) == 8 and int.from_bytes(stated, "big") != place + at:
                    continue
                if self._check(place + at, file_end).found in (LogContent.RECORD, LogContent.BLANK):
                    return place + at
            if length < CHUNK_BYTES:
                break
            place += length - overlap
        return None

    def _older(self, place: int, file_end: int) -> bool:
        """Whether the record at *place* was stored before those that the walk came by."""
        record = self._check(place, file_end).record
        return record is not None and record.store_timestamp < self._not_before

    def _last_used(self, at: int, file_end: int) -> int:
        """Behind the last byte of ``[at, file_end)`` that is not zero; *at* when all are."""

        def read(place: int, length: int) -> bytes:
            self.read_bytes += length
            return self._source.read(place, length)

        return last_nonzero(read, at, self._source.written(at, file_end))

    def _damage_end(self, at: int, file_end: int) -> int:
        """How far damage reaches that no sound record follows: what the record claims, or all that is not zero."""
        size, magic = _HEAD.unpack(self._source.read(at, BLANK_BYTES))
        claimed = at + size if magic in (MAGIC_V1, MAGIC_V2) and MIN_RECORD_BYTES <= size <= file_end - at else at
        return max(claimed, self._last_used(at, file_end))


def scan(
    source: LogSource, start: int | None = None, end: int | None = None, *, check_crc: bool = True
) -> Iterator[RecordView | LogDamage]:
    """Walk ``[start, end)``; the whole log by default."""
    return iter(LogWalk(source, source.start if start is None else start, end, check_crc=check_crc))


def align(source: LogSource, log_offset: int) -> int:
    """The first place at or behind *log_offset* where a sound record or a blank starts, else the end of that file.

    Ranges that begin somewhere inside a file begin here; starts of files need no search.
    """
    start = source.file_start(log_offset)
    if start is None:
        behind = source.next_start(log_offset)
        return source.end if behind is None else behind
    if start == log_offset:
        return log_offset
    file_end = start + source.file_bytes
    found = LogWalk(source, log_offset).search(log_offset, file_end)
    return file_end if found is None else found
