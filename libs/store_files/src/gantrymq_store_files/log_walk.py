"""Walking the log over a range of log offsets: every sound record, and every place without one.

    for found in scan(source, start, end):      # RecordView or LogDamage, in log order

A record belongs to the range in which it starts. After damage the walk continues at the next sound record or blank of
the file, found by its magic and its own log offset; a record copied into the body of another has a different log offset
and is not accepted. So one damaged byte costs one record.

A record after damage that is older than those before it is not part of the log: a Java broker that truncates its log
leaves the data after the cut, and writes newer records before it. Such remains are reported, and skipped. Messages of
delay levels are not compared: they have the time of the clock, which may have been set back, while the store times of
other messages never decrease.

Zeros are the log's end if only zeros follow, also in later files. Zeros followed by other data are damage: pages that
never reached the disk.

Damage with a record after it is a hole, otherwise it is the log's tail: compare with `LogWalk.sound_end`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, RecordView
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq_store_files.blank import BLANK_BYTES, MAGIC_BLANK, last_nonzero
from gantrymq_store_files.check import CheckResult, LogContent
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.log_source import LogSource, check_window
from gantrymq_store_files.plain_entries import plain_entries

CHUNK_BYTES = 4 * 1024 * 1024
_WINDOW_BYTES = 1024 * 1024
_HEAD = struct.Struct(">iI")
_LOG_OFFSET_AT = 28
_MAGICS = re.compile(rb"\xda\xa3\x20[\xa7\xab]|\xcb\xd4\x31\x94")


class LogDamage(NamedTuple):
    """A part of the log without a sound record."""

    kind: str  # torn, damaged, zeros, missing, remains
    log_offset: int
    size: int  # bytes up to where the walk continues, or to the last byte that is not zero
    problem: str
    timestamp: int = 0  # ms, store time of the record before it in this walk, 0 without one

    @property
    def end(self) -> int:
        """Log offset after it."""
        return self.log_offset + self.size


class LogWalk:
    """One walk. Errors of its source end it at `position`."""

    def __init__(
        self,
        source: LogSource,
        start: int,
        end: int | None = None,
        *,
        check_crc: bool = True,
        check_beyond_end: bool = True,
        trust_zeros: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """Nothing is read yet.

        Args:
            source: the log's files.
            start: position of a record, a blank or the end (see `align`).
            end: include records that start before it; None for the log's end.
            check_crc: whether to check bodies.
            look_behind_end: report damage that starts at *end*, and search for its end: for adjacent ranges, no other
                walk reports it. False for a part of a log that is being written.
            trust_zeros: zeros in place of a record end the log; nothing after them is read.
            chunk_bytes: bytes per read; more for a longer record.
        """
        self.position = start  # after the last result
        self.sound_end = start  # after the last sound record, or after a blank that follows it
        self.zeros_from = -1  # only zeros found from here on so far; -1 if the last result was something else
        self.last_timestamp = 0  # ms, of the previous record; never lowered by a message of a delay level
        self.read_bytes = 0
        self._not_before = 0  # ms, the smaller store time of the two previous records: one may be damaged
        self._source = source
        self._end = source.end if end is None else end
        self._check_crc = check_crc
        self._check_beyond_end = check_beyond_end
        self._trust_zeros = trust_zeros
        self._chunk_bytes = chunk_bytes
        self._data = b""
        self._base = 0  # log offset of the first byte of _data
        self._topics: dict[bytes, str] = {}  # of plain records

    def __iter__(self) -> Iterator[RecordView | LogDamage]:
        """Walk. Views stay valid."""
        while True:
            start = self._source.file_start(self.position)
            if start is None:
                following = self._source.next_start(self.position)
                if following is None or (following >= self._end and not self._check_beyond_end):
                    return
                yield from self._settle_zeros()
                text = f"the log's files between {self.position} and {following} are missing"
                yield LogDamage("missing", self.position, following - self.position, text, self.last_timestamp)
                self.position = following
                continue
            if self.position >= self._end:
                return
            yield from self._file(start, start + self._source.file_bytes)

    # --- reading many records at once -------------------------------------------------------------------------------

    def window(self) -> memoryview:
        """Return the bytes from `position` on, at least a megabyte if the file has that many; empty without a file."""
        start = self._source.file_start(self.position)
        if start is None:
            return memoryview(b"")
        file_end = start + self._source.file_bytes
        return self._window(self.position, min(_WINDOW_BYTES, file_end - self.position), file_end)

    def skip(self, size: int, timestamp: int, before: int = 0) -> None:
        """Advance past *size* bytes of sound records that were processed by the caller.

        Args:
            size: bytes.
            timestamp: ms, store time of the last record.
            before: ms, store time of the last but one; 0 if unknown.
        """
        self.position += size
        self.sound_end = self.position
        self.last_timestamp = timestamp
        if before:
            self._not_before = min(timestamp, before)

    def take_plain(self, most: int) -> list[DispatchEntry]:
        """Return up to *most* of the plain records that follow in the bytes read last, and advance past them."""
        place = self.position - self._base
        if place < 0:
            return []
        found: list[DispatchEntry] = plain_entries(
            self._data, place, self.position, self._end, most, self._check_crc, self._topics
        )
        if found:
            last = found[-1]
            before = found[-2].store_timestamp if len(found) > 1 else self.last_timestamp
            self.skip(last.log_offset + last.size - self.position, last.store_timestamp, before)
        return found

    # --- one file ---------------------------------------------------------------------------------------------------

    def _file(self, start: int, file_end: int) -> Iterator[RecordView | LogDamage]:
        while self.position < file_end:
            at = self.position
            if at >= self._end and not self._check_beyond_end:
                return
            result = self._check(at, file_end)
            if at >= self._end and result.found in (LogContent.RECORD, LogContent.BLANK):
                return  # the next range begins here; damage across the boundary belongs to this range
            if result.found is LogContent.END:
                if self._trust_zeros:
                    self.zeros_from = self._end = at
                    return
                if (used := self._last_used(at, file_end)) == at:
                    if self.zeros_from < 0:
                        self.zeros_from = at
                    self.position = file_end
                    continue
                following = self._resume(at, file_end)
                if following is not None and self._older(following, file_end):
                    following = None
                    yield from self._settle_zeros()
                    text = f"remains of an older log, truncated by a broker, after log offset {at}"
                    yield LogDamage("remains", at, used - at, text, self.last_timestamp)
                    self.position, self.zeros_from = file_end, used
                    continue
                yield from self._settle_zeros()
                text = f"zeros at log offset {at} where a record belongs; more follows in {file_name(start)}"
                stop = used if following is None else following
                yield LogDamage("zeros", at, stop - at, text, self.last_timestamp)
            elif result.found in (LogContent.RECORD, LogContent.BLANK):
                yield from self._settle_zeros()
                self.position = at + result.size
                if result.record is None:
                    if self.sound_end == at:
                        self.sound_end = self.position
                    continue
                self.sound_end = self.position
                stored_ms = result.record.store_timestamp
                if stored_ms >= self.last_timestamp or result.record.topic != SCHEDULE_TOPIC:
                    self._not_before, self.last_timestamp = min(self.last_timestamp, stored_ms), stored_ms
                yield result.record
                continue
            else:
                following = self._resume(at, file_end)
                stop = self._damage_end(at, file_end) if following is None else following
                kind, problem = ("torn" if result.found is LogContent.TORN else "damaged"), result.problem
                if following is not None and self._older(following, file_end):
                    following, stop, kind = None, self._last_used(at, file_end), "remains"
                    problem = f"remains of an older log, truncated by a broker, after log offset {at}"
                yield from self._settle_zeros()
                yield LogDamage(kind, at, stop - at, problem, self.last_timestamp)
            if following is not None:
                self.position = following
            else:
                self.position = file_end
                if stop < file_end:
                    self.zeros_from = stop

    def _settle_zeros(self) -> Iterator[LogDamage]:
        """Report zeros that looked like the log's end as damage, because more data follows."""
        at, self.zeros_from = self.zeros_from, -1
        if at < 0:
            return
        stop = self._source.file_start(self.position)
        stop = self.position if stop is None else stop
        while at < stop:
            start = self._source.file_start(at)
            assert start is not None
            size = start + self._source.file_bytes - at
            text = f"zeros from log offset {at} to the end of {file_name(start)}, but the log continues after it"
            yield LogDamage("zeros", at, size, text, self.last_timestamp)
            at += size

    # --- one place --------------------------------------------------------------------------------------------------

    def _check(self, at: int, file_end: int) -> CheckResult:
        def window(place: int, length: int) -> memoryview:
            return self._window(place, length, file_end)

        return check_window(window, at, file_end, check_crc=self._check_crc)

    def _window(self, at: int, length: int, file_end: int) -> memoryview:
        """Return at least *length* bytes from *at* on."""
        skip = at - self._base
        if skip < 0 or skip + length > len(self._data):
            wanted = self._chunk_bytes if self._check_beyond_end else min(self._chunk_bytes, self._end - at)
            read = min(max(length, wanted), file_end - at)
            self._data = self._source.read(at, read)
            self._base, skip = at, 0
            self.read_bytes += read
        return memoryview(self._data)[skip:]

    # --- after damage -----------------------------------------------------------------------------------------------

    def _resume(self, at: int, file_end: int) -> int | None:
        """Return the next position after *at* in this file with a sound record or a blank."""
        return self.search(at + 1, file_end)

    def search(self, start: int, file_end: int) -> int | None:
        """Return the first sound record or blank that starts in ``[start, file_end)`` of one file."""
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
        """Return whether the records from *place* on were stored before the previous records of the walk."""
        found = self._check(place, file_end)
        while found.record is not None and found.record.topic == SCHEDULE_TOPIC:
            place += found.size
            found = self._check(place, file_end)
        return found.record is not None and found.record.store_timestamp < self._not_before

    def _last_used(self, at: int, file_end: int) -> int:
        """Return the position after the last byte of ``[at, file_end)`` that is not zero; *at* if all are."""

        def read(place: int, length: int) -> bytes:
            self.read_bytes += length
            return self._source.read(place, length)

        return last_nonzero(read, at, self._source.written(at, file_end))

    def _damage_end(self, at: int, file_end: int) -> int:
        """Return the end of damage at the tail: the record's claimed end, or the last non-zero byte."""
        size, magic = _HEAD.unpack(self._source.read(at, BLANK_BYTES))
        claimed = at + size if magic in (MAGIC_V1, MAGIC_V2) and MIN_RECORD_BYTES <= size <= file_end - at else at
        return max(claimed, self._last_used(at, file_end))


def scan(
    source: LogSource, start: int | None = None, end: int | None = None, *, check_crc: bool = True
) -> Iterator[RecordView | LogDamage]:
    """Walk ``[start, end)``; the whole log by default."""
    return iter(LogWalk(source, source.start if start is None else start, end, check_crc=check_crc))


def align(source: LogSource, log_offset: int) -> int:
    """Return the first position at or after *log_offset* with a sound record or a blank, else the end of that file.

    Use it to begin ranges inside a file; starts of files need no search.
    """
    start = source.file_start(log_offset)
    if start is None:
        following = source.next_start(log_offset)
        return source.end if following is None else following
    if start == log_offset:
        return log_offset
    file_end = start + source.file_bytes
    found = LogWalk(source, log_offset).search(log_offset, file_end)
    return file_end if found is None else found
