"""The raw log: a store's commit log as bytes, for replication, tiers and backups.

A store offers it as `RawLogProvider.raw_log`. Only the event loop's thread calls it. Log offsets count bytes from the
start of the whole log. If the log is stored in files of one size, a file ends with a blank: a filler record over the
rest of the file, which is part of the log. A copy needs files of the same size, so that blanks fit.

    copy.append_raw(end, await original.read_log(end, 1 << 20))

An appended record waits for the gates and for `MessageStore.publish` like one that was put here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

__all__ = ["LogRange", "RawLog", "RawLogReader", "RawLogWriter", "Segment"]


class LogRange(NamedTuple):
    """The log offsets that can be read: from the first kept byte to the end of the newest record."""

    min_offset: int
    max_offset: int


class Segment(NamedTuple):
    """Bytes ``[start, end)`` of the log: one log file."""

    start: int
    end: int


class RawLogReader(Protocol):
    """A log that can be read and kept as bytes; for masters, backups and tiers."""

    def log_range(self) -> LogRange:
        """Return the present range, records that are not published yet included."""

    def read_log(self, start: int, max_bytes: int) -> bytes | Awaitable[bytes]:
        """Return up to *max_bytes* from *start* on, published or not; an awaitable if they are not in memory.

        The result may begin and end inside a record. It never extends past the end of a log file; the blank at the end
        of a file is returned in full, so that the next call begins in the next file. Empty at the end of the log.

        Raises:
            LogMismatch: *start* is outside the range, or was deleted meanwhile.
            StoreError: the disk failed.
        """

    def retain_from(self, floor: Callable[[], int]) -> Callable[[], None]:
        """Keep all bytes from ``floor()`` on: it is called before a log file is deleted, whatever the reason.

        That includes a full disk, so a reader that is gone must not hold its floor. If *floor* raises an exception, no
        file is deleted.
        """

    def sealed_segments(self) -> Sequence[Segment]:
        """Return the log files that are full, durable and published, oldest first. Only `truncate` changes them."""

    def on_sealed(self, listener: Callable[[Segment], object]) -> Callable[[], None]:
        """Call *listener* once for each log file when it is sealed; again only if it was truncated meanwhile."""

    def on_appended(self, listener: Callable[[int], object]) -> Callable[[], None]:
        """Call *listener* with the new end of the log after each `append_raw` that appended something."""

    def on_truncated(self, listener: Callable[[int], object]) -> Callable[[], None]:
        """Call *listener* with the log offset of each truncation, after queues were cut and before the log is.

        A crash may follow, after which the removed records may exist again.
        """


class RawLogWriter(Protocol):
    """A log that can be appended to and truncated as bytes, with a limit of visibility; for copies."""

    def append_raw(self, log_offset: int, data: bytes | memoryview) -> int:
        """Append the whole records and blanks at the start of *data*, a piece of another log from *log_offset* on.

        Each record is checked: magic, size, position, and the body's CRC if the store checks it. Records before a
        wrong one are appended. Queue entries, index and dispatchers treat them like own records: they follow when the
        records are published. In an empty log, *log_offset* may be the start of any log file.

        Returns:
            The new end of the log. If *data* ends inside a record, pass the rest again, completed.

        Raises:
            LogMismatch: *log_offset* is not the end of the log, or the bytes there are not a record that fits.
            StoreError: the store refuses writes, or the disk failed.
        """

    async def truncate(self, log_offset: int) -> None:
        """Remove everything at and after *log_offset*, published or not, durably, from the log, queues and index.

        Writes are refused meanwhile. After a crash, either all of it has happened or nothing.

        Raises:
            LogMismatch: no record starts at *log_offset*, and it is not the end of the log.
            StoreError: the store refuses writes, or the disk failed; then the store must be restarted.
        """

    async def hide(self, log_offset: int) -> None:
        """Make everything at and after *log_offset* invisible again, and set `visibility_limit` to it.

        The records stay in the log, and become visible when the limit has moved and they are published again: listeners
        are told of a truncation at *log_offset*, then of an append up to the end of the log. For a start, before
        anything is read, if another log may be followed that does not have these records.

        Raises:
            LogMismatch: no record starts at *log_offset*, and it is not the end of the log.
            StoreError: the store refuses writes, or the disk failed; then the store must be restarted.
        """

    @property
    def visibility_limit(self) -> int | None:
        """Log offset after which nothing becomes visible, whatever is published; None for no limit."""

    def limit_visibility(self, log_offset: int | None) -> None:
        """Set `visibility_limit`, RocketMQ's confirm offset. What is visible already stays visible.

        It is not kept across restarts: a store makes everything visible that it finds in its log; see `hide`.
        """

    def on_limit_moved(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call *listener* after each change of `visibility_limit`."""


class RawLog(RawLogReader, RawLogWriter, Protocol):
    """A log that can be read, copied and truncated as bytes.

    A function returned by a registration cancels it. Exceptions of listeners are logged.
    """
