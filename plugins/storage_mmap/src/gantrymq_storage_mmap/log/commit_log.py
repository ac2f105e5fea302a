"""The commit log: its files, its end, and reads by log offset.

    |-- file 0 --|-- file 1 --|-- file 2 (current) ----|   (next, preallocated, not part of the log yet)
    min_offset        cold | hot_offset ....... end

Only the current file is written. Data before ``hot_offset`` may be on the disk only and is read in a thread; data after
it was written or read by this process recently.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from gantrymq.errors import StoreError
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.log.preallocation import Preallocation
from gantrymq_store_files.blank import encode_blank

_NEAR = 3  # runs are read together if the gaps are at most twice the wanted bytes


class CommitLog:
    """Files and positions of the log; `Appender` writes, all others only read."""

    def __init__(self, loaded: list[LogFile], file_bytes: int, hot_window_bytes: int, ahead: Preallocation) -> None:
        """Take ownership of the *loaded* files. Positions are those of an empty log until `recovered` is called."""
        self.file_bytes = file_bytes
        self.files = loaded
        self.end = loaded[0].start if loaded else 0  # log offset after the newest record
        self.last_timestamp = 0  # ms, store time of the newest record; new ones never get an earlier one
        self.current: LogFile | None = None  # the file for the next record, None before the first
        self._starts = [file.start for file in loaded]
        self._table = (self._starts, self.files)  # for `find`, which threads call: replaced atomically
        self._hot_window_bytes = hot_window_bytes
        self._hot_floor = 0
        self.ahead = ahead

    @property
    def min_offset(self) -> int:
        """Start of the oldest file."""
        return self._starts[0] if self._starts else self.end

    @property
    def hot_offset(self) -> int:
        """Log offset from which the log may be read on the event loop."""
        return max(self._hot_floor, self.end - self._hot_window_bytes)

    def recovered(self, end: int, last_timestamp: int, hot_floor: int) -> None:
        """Set the positions found by recovery. Files after *end* are closed; `roll` takes them over later.

        Args:
            end: log offset after the last sound record.
            last_timestamp: ms, store time of that record.
            hot_floor: everything before it was not read since the start and counts as cold.
        """
        self.end = end
        self.last_timestamp = last_timestamp
        self._hot_floor = hot_floor
        while self.files and self.files[-1].start > end:
            self.files.pop().close()
            self._starts.pop()
        self.current = self.find(end)

    def find(self, log_offset: int) -> LogFile | None:
        """Return the file that holds byte *log_offset*, None if there is none. For any thread."""
        starts, files = self._table
        index = bisect_right(starts, log_offset) - 1
        if index < 0:
            return None
        file = files[index]
        return file if log_offset < file.end else None

    def between(self, start: int, end: int) -> list[LogFile]:
        """Return the files that hold bytes of ``[start, end)``, oldest first."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        return [file for file in self.files[first : bisect_left(self._starts, end)] if file.end > start]

    def roll(self, offset: int) -> LogFile:
        """Close the current file with a blank at *offset* and return the next file, which becomes current.

        Raises:
            OSError: the next file cannot be created; the current one is unchanged.
        """
        old = self.current
        start = offset - offset % self.file_bytes if old is None else old.end
        new = self.ahead.take(start)
        if old is not None:
            old.write(offset, encode_blank(old.end - offset))
        self.files.append(new)  # before its start: threads find the file by its start
        self._starts.append(start)
        self.end = start
        self.current = new
        return new

    def advance(self, end: int, timestamp: int) -> None:
        """Move the end to *end*, after a record stored at *timestamp*; preallocate the next file at half use."""
        self.end = end
        self.last_timestamp = timestamp
        current = self.current
        if current is not None and 2 * (end - current.start) >= self.file_bytes:
            self.ahead.prepare(current.end)

    def truncate(self, end: int, timestamp: int) -> list[LogFile]:
        """Move the end back to *end*. Return the files that are removed, oldest first, to be deleted by the caller.

        Args:
            end: start of a record, or of the log.
            timestamp: ms, store time of the newest record before *end*.
        """
        keep = max(bisect_left(self._starts, end), 1)  # without any file, the log would begin at 0 again
        removed, self.files, self._starts = self.files[keep:], self.files[:keep], self._starts[:keep]
        self._table = (self._starts, self.files)
        self.end, self.last_timestamp = end, timestamp
        self._hot_floor = min(self._hot_floor, end)
        self.current = self.find(end)
        return removed

    def drop_first(self) -> LogFile:
        """Remove the oldest file, whose name is already deleted, and return it. Threads may still read its bytes.

        The caller closes it in a thread, because the system then frees a gigabyte.
        """
        old, self.files, self._starts = self.files[0], self.files[1:], self._starts[1:]
        self._table = (self._starts, self.files)
        return old

    def read_hot(self, runs: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """Return the bytes of each of *runs*, which are ascending and within the hot part.

        Adjacent runs are read together.

        Raises:
            StoreError: a run is outside the log.
            OSError: the disk failed.
        """
        found: list[bytes | memoryview] = []
        first = 0
        while first < len(runs):
            start, stop = runs[first][0], first + 1
            file = self.find(start)
            if file is None:
                raise self._outside(*runs[first])
            wanted = runs[first][1] - start
            while stop < len(runs) and runs[stop][1] <= file.end:
                wanted += runs[stop][1] - runs[stop][0]
                if runs[stop][1] - start > _NEAR * wanted:
                    break
                stop += 1
            end = runs[stop - 1][1]
            if end > min(file.end, self.end):
                raise self._outside(start, end)
            data = file.file.pread(end - start, start - file.start)
            if stop == first + 1:
                found.append(data)
            else:
                view = memoryview(data)
                found += [view[low - start : high - start] for low, high in runs[first:stop]]
            first = stop
        return found

    def _outside(self, start: int, end: int) -> StoreError:
        return StoreError(f"log offsets {start} to {end} are outside {self.min_offset} to {self.end}")

    def close(self) -> None:
        """Close every file."""
        self.ahead.close()
        for file in self.files:
            file.close()
