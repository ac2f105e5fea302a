"""The commit log: its files, its end, and the way from a log offset to bytes.

    |-- file 0 --|-- file 1 --|-- file 2 (current) ----|   (next, made ahead, not part of the log yet)
    min_offset        cold | hot_offset ....... end

Only the current file is written. What lies before ``hot_offset`` may be on the disk only and is read in a thread; what
lies behind it was written or read by this process a moment ago.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from gantrymq.errors import StoreError
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.log.preallocation import Preallocation
from gantrymq_store_files.blank import encode_blank

__all__ = ["CommitLog"]

NEAR = 3  # runs are read at once while what lies between them is not more than twice what is wanted


class CommitLog:
    """Files and positions; `Appender` writes, everybody else reads."""

    def __init__(self, loaded: list[LogFile], file_bytes: int, hot_window_bytes: int, ahead: Preallocation) -> None:
        """Take ownership of the *loaded* files. Positions are those of an empty log until `recovered` sets them."""
        self.file_bytes = file_bytes
        self.files = loaded
        self.end = loaded[0].start if loaded else 0  # log offset behind the newest record
        self.last_timestamp = 0  # ms, store time of the newest record; new ones never get an earlier one
        self.current: LogFile | None = None  # the file that takes the next record, None before the first
        self._starts = [file.start for file in loaded]
        self._table = (self._starts, self.files)  # for `find`, which threads use: replaced as one
        self._hot_window_bytes = hot_window_bytes
        self._hot_floor = 0
        self.ahead = ahead

    @property
    def min_offset(self) -> int:
        """Where the oldest file starts."""
        return self._starts[0] if self._starts else self.end

    @property
    def hot_offset(self) -> int:
        """From here on the log may be read on the event loop."""
        return max(self._hot_floor, self.end - self._hot_window_bytes)

    def recovered(self, end: int, last_timestamp: int, hot_floor: int) -> None:
        """Set the positions that recovery found. Files behind *end* are let go; `roll` takes them over in their turn.

        Args:
            end: behind the last sound record.
            last_timestamp: ms, its store time.
            hot_floor: everything before it has not been read since the start and counts as cold.
        """
        self.end = end
        self.last_timestamp = last_timestamp
        self._hot_floor = hot_floor
        while self.files and self.files[-1].start > end:
            self.files.pop().close()
            self._starts.pop()
        self.current = self.find(end)
        self._unlock_cold()

    def find(self, log_offset: int) -> LogFile | None:
        """The file that holds byte *log_offset*, None outside the log's files. For any thread."""
        starts, files = self._table
        index = bisect_right(starts, log_offset) - 1
        if index < 0:
            return None
        file = files[index]
        return file if log_offset < file.end else None

    def between(self, start: int, end: int) -> list[LogFile]:
        """The files that hold bytes of ``[start, end)``, oldest first."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        return [file for file in self.files[first : bisect_left(self._starts, end)] if file.end > start]

    def roll(self, offset: int) -> LogFile:
        """Close the current file with a blank at *offset*, and go on with the next file, which is returned.

        Raises:
            OSError: the next file could not be made; the current one is as it was.
        """
        old = self.current
        start = offset - offset % self.file_bytes if old is None else old.end
        new = self.ahead.take(start)
        if old is not None:
            old.write(offset, encode_blank(old.end - offset))
        self.files.append(new)  # before its start, by which threads find it
        self._starts.append(start)
        self.end = start
        self.current = new
        self._unlock_cold()
        return new

    def _unlock_cold(self) -> None:
        for file in self.files:
            if file.end <= self.hot_offset:
                file.unlock()

    def advance(self, end: int, timestamp: int) -> None:
        """Move the end to *end*, behind a record stored at *timestamp*; the next file is made once half is used."""
        self.end = end
        self.last_timestamp = timestamp
        current = self.current
        if current is not None and 2 * (end - current.start) >= self.file_bytes:
            self.ahead.prepare(current.end)

    def drop_first(self) -> LogFile:
        """Forget the oldest file, whose name is gone; slices and threads that still read it keep its bytes.

        To be closed in a thread: the system frees a gigabyte then.
        """
        old, self.files, self._starts = self.files[0], self.files[1:], self._starts[1:]
        self._table = (self._starts, self.files)
        return old

    def read_hot(self, runs: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """The bytes of each of *runs*, ascending and within the hot part.

        Runs that lie close together are read at once.

        Raises:
            StoreError: they lie outside the log.
            OSError: the disk failed.
        """
        found: list[bytes | memoryview] = []
        first = 0
        while first < len(runs):
            start, behind = runs[first][0], first + 1
            file = self.find(start)
            if file is None:
                raise self._outside(*runs[first])
            wanted = runs[first][1] - start
            while behind < len(runs) and runs[behind][1] <= file.end:
                wanted += runs[behind][1] - runs[behind][0]
                if runs[behind][1] - start > NEAR * wanted:
                    break
                behind += 1
            end = runs[behind - 1][1]
            if end > min(file.end, self.end):
                raise self._outside(start, end)
            data = file.file.pread(end - start, start - file.start)
            if behind == first + 1:
                found.append(data)
            else:
                view = memoryview(data)
                found += [view[low - start : high - start] for low, high in runs[first:behind]]
            first = behind
        return found

    def _outside(self, start: int, end: int) -> StoreError:
        return StoreError(f"log offsets {start} to {end} lie outside {self.min_offset} to {self.end}")

    def close(self) -> None:
        """Close every file."""
        self.ahead.close()
        for file in self.files:
            file.close()
