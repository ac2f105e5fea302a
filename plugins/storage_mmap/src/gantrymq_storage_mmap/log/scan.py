"""Walking the log record by record: for recovery, which steps over what it cannot trust, and for replays.

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
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.recovery.resync import look_behind

__all__ = ["Hole", "LogScan", "ScanEnd", "dispatch_entries", "first_record", "place_from", "read_at"]


PROGRESS_RECORDS = 1024


class Hole(NamedTuple):
    """Bytes ``[start, end)`` of the log that are no sound records, with a sound record behind them."""

    start: int
    end: int
    problem: str  # a sentence's part
    timestamp: int  # ms, store time of the record behind it


class ScanEnd(NamedTuple):
    """Where a scan stopped, and why."""

    log_offset: int  # behind the last sound record, or at the start of the file behind its blank
    found: Found  # END, TORN or DAMAGED
    problem: str  # a sentence's part when it is not END
    records: int
    last_timestamp: int  # ms, store time of the last sound record, 0 without one
    zeros_behind: bool  # it is known that nothing but zeros stands behind


class LogScan:
    """One walk over the log's records. Budget: 4 us a record and the CRC of its body."""

    def __init__(
        self,
        files: list[LogFile],
        check_crc: bool,
        see: Callable[[RecordView], None],
        progress: Callable[[int], None] = lambda log_offset: None,
        holes: list[Hole] | None = None,
    ) -> None:
        """Nothing is read before `run`.

        Args:
            files: the log's files, one behind the other.
            check_crc: whether bodies are checked.
            see: shown each sound record in log order; must not keep the view.
            progress: called now and then with the place that was reached.
            holes: gets each hole before the first record behind it is shown.
        """
        self._files = files
        self._check_crc = check_crc
        self._see = see
        self._progress = progress
        self._records = 0
        self._last_timestamp = 0
        self.holes: list[Hole] = [] if holes is None else holes

    def run(self, start: int, *, trust_end: bool, known: tuple[int, int] = (-1, 0)) -> ScanEnd:
        """Check every record from log offset *start* on.

        Args:
            start: where a record, a blank or nothing stands; in one of the files or at the end of the last.
            trust_end: the place that was never written is the log's end, without a look at what stands behind it.
            known: place and size of a record that was there when the store was stopped cleanly; damage in the last
                record is a hole then, and not a write that did not finish.
        """
        position = start
        for file in self._files:
            if file.end <= start:
                continue
            if file.start >= position:
                position = file.start
            elif file.end <= position:
                continue
            while True:
                found, position, problem = self._walk(file, position)
                self._progress(position)
                if found is Found.BLANK:
                    position = file.end
                    break
                if found is Found.END and trust_end:
                    return self._end(position, found, problem, False)
                behind = look_behind(self._files, position, self._last_timestamp, check_crc=self._check_crc)
                after = behind.log_offset
                if after < 0 and self._was_there(found, position, known) and sum(known) <= file.end:
                    after = sum(known)
                if after < 0:
                    return self._end(position, found, problem, behind.zeros)
                problem = problem or f"nothing at log offset {position}, and records behind it"
                timestamp = behind.timestamp or self._last_timestamp
                self.holes.append(Hole(position, after, problem, timestamp))
                position = after
                if position >= file.end:
                    break
        return self._end(position, Found.END, "", True)

    @staticmethod
    def _was_there(found: Found, position: int, known: tuple[int, int]) -> bool:
        """Whether the *known* record stood at *position* or behind it; of zeros only when it is named exactly."""
        return position == known[0] if found is Found.END else position <= known[0]

    def _walk(self, file: LogFile, position: int) -> tuple[Found, int, str]:
        """Show the records from *position* on until there is something else; what that is, and where."""
        view, see, check_crc = file.mapping().view, self._see, self._check_crc
        at = position - file.start
        while True:
            found, size, record, problem = check_place(view, at, file.start + at, check_crc=check_crc)
            if record is None:
                return found, file.start + at, problem
            see(record)
            self._records += 1
            if not self._records % PROGRESS_RECORDS:
                self._progress(file.start + at)
            self._last_timestamp = record.store_timestamp
            at += size

    def _end(self, position: int, found: Found, problem: str, zeros_behind: bool) -> ScanEnd:
        return ScanEnd(position, found, problem, self._records, self._last_timestamp, zeros_behind)


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
        file = log.find(max(position, log.min_offset))  # it may have begun later meanwhile
        if file is None:
            return
        position = max(position, file.start)
        if before is not None and before is not file and before.end <= log.hot_offset:
            before.unmap()
        before = file
        found = check_place(file.mapping().view, position - file.start, position, check_crc=False)
        if found.found is Found.BLANK:
            position = file.end
            continue
        record = found.record
        if record is None:  # damaged since recovery looked; what stands behind it is not to be missed
            behind = look_behind(
                [log_file for log_file in log.files if log_file.start < end], position, 0, check_crc=True
            )
            if not position < behind.log_offset < end:
                return
            position = behind.log_offset
            continue
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


def place_from(log: CommitLog, log_offset: int) -> int:
    """*log_offset* where a record or a blank stands there, else where the next record does, or the log's end.

    For those who noted a place before a crash: recovery may have put a filler over it.
    """
    file = log.find(log_offset)
    if file is None or log_offset >= log.end:
        return log_offset
    found = check_place(file.mapping().view, log_offset - file.start, log_offset, check_crc=False).found
    if found in (Found.RECORD, Found.BLANK):
        return log_offset
    behind = look_behind(log.files, log_offset, 0, check_crc=True).log_offset
    return behind if log_offset < behind < log.end else log.end


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
