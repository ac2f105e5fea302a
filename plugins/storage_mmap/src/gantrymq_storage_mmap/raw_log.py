"""The log as bytes: `gantrymq.interfaces.RawLog` over the log files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from gantrymq.errors import LogMismatch, StoreError
from gantrymq.plugin.interfaces import LogRange, Segment, StoreContext
from gantrymq.plugin.world import TimeSlices
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.recovery.opening import StoreOpening
from gantrymq_store_files.raw_records import mismatch

_MOST_BYTES: Final = 1024**2  # per read: more would block the event loop


class StoreWithRawLog(StoreOpening):
    """The part of the store that offers its log."""

    def __init__(self, context: StoreContext) -> None:
        """Read the settings. Raises ConfigError."""
        super().__init__(context)
        self._unreadable = f"the store {self._root} cannot be read"
        self._limit: int | None = None
        self._sealed_to = -1  # log offset up to which listeners know all sealed segments; -1 without listeners
        self._sealing = False  # a sealed segment is waiting for its sync

    @abstractmethod
    def refusal(self) -> str | None:
        """Why writes are refused; None if they are accepted."""

    # --- reading ----------------------------------------------------------------------------------------------------

    def log_range(self) -> LogRange:
        """Return the present range of the log."""
        return LogRange(self._log.min_offset, self._log.end)

    def read_log(self, start: int, max_bytes: int) -> bytes | Awaitable[bytes]:
        """Return up to *max_bytes* from *start* on, at most `_MOST_BYTES`, of one file."""
        log = self._log
        if not log.min_offset <= start <= log.end:
            raise LogMismatch(f"log offset {start} is outside the log, which has {log.min_offset} to {log.end}")
        file = log.find(start)
        end = min(start + min(max_bytes, _MOST_BYTES), log.end)
        if file is None or end <= start:
            return b""
        end = min(end, file.end)
        written_at, written = self._writes.newest
        if written_at == start and len(written) == end - start:
            return written
        try:
            if start >= log.hot_offset:
                return file.pread(start, end)
            data = file.pread_cached(start, end)
        except OSError as error:
            raise StoreError(f"{self._unreadable}: {error}") from error
        return data if data is not None and len(data) == end - start else self._read_cold(file, start, end)

    async def _read_cold(self, file: LogFile, start: int, end: int) -> bytes:
        with self._cold.reading(self._unreadable):
            data = await self._cold.run(file.pread, start, end)
        if len(data) < end - start:
            raise LogMismatch(f"log offset {start} was deleted; the log now begins at {self._log.min_offset}")
        return data

    # --- copying ----------------------------------------------------------------------------------------------------

    def append_raw(self, log_offset: int, data: bytes | memoryview) -> int:
        """Append the whole records at the start of *data*; see `RawAppender`."""
        log = self._log
        self._check_writable()
        if not log.files and log_offset % log.file_bytes == 0:
            log.end = self._flusher.flushed_offset = log_offset
            self._publisher.recovered(log_offset, 0, (-1, 0))
        if log_offset != log.end:
            raise LogMismatch(f"the log ends at {log.end}, so bytes at {log_offset} cannot be appended")
        problem = ""
        try:
            problem = self._raw_appender.append(bytes(data))
        finally:
            if log.end > log_offset:
                self._tell(self._appended, log.end)
        if problem:
            raise mismatch(log.end, problem)
        return log.end

    def _check_writable(self) -> None:
        if (problem := self.refusal()) is not None:
            raise StoreError(problem)

    async def truncate(self, log_offset: int) -> None:
        """Remove everything at and after *log_offset*; see `Truncation`."""
        async with self._retention.suspended():
            self._check_writable()
            await self._truncation.run(log_offset, lambda: self._tell(self._truncated, log_offset))
            await self._workers.run(self._note_levels, log_offset)
            if self._sealed_to >= 0:
                self._sealed_to = min(self._sealed_to, log_offset - log_offset % self._log.file_bytes)

    # --- visibility and retention -----------------------------------------------------------------------------------

    @property
    def visibility_limit(self) -> int | None:
        """Log offset after which nothing becomes visible."""
        return self._limit

    def limit_visibility(self, log_offset: int | None) -> None:
        """Set `visibility_limit`."""
        self._limit = log_offset
        self._tell(self._limit_moved)

    async def hide(self, log_offset: int) -> None:
        """Make everything at and after *log_offset* invisible again; see `Truncation.hide`."""
        self._check_writable()
        self._limit = log_offset
        if log_offset < self._publisher.published_offset:
            async with self._retention.suspended():
                entries = await self._truncation.hide(log_offset, lambda: self._tell(self._truncated, log_offset))
                slices = TimeSlices(self._clock, 1)
                for some in entries:
                    self._raw_appender.hold(some)
                    await slices.item_done()
                if self._sealed_to >= 0:
                    self._sealed_to = min(self._sealed_to, log_offset - log_offset % self._log.file_bytes)
            self._tell(self._appended, self._log.end)
        self._tell(self._limit_moved)

    def sealed_segments(self) -> Sequence[Segment]:
        """Return the log files that are full, durable and published."""
        end = self._durable_offset()
        return [Segment(file.start, file.end) for file in self._log.files if file.end <= end]

    def on_sealed(self, listener: Callable[[Segment], object]) -> Callable[[], None]:
        """Call *listener* for each file that is sealed from now on."""
        if self._sealed_to < 0:
            sealed = self.sealed_segments()
            self._sealed_to = sealed[-1].end if sealed else 0
        return super().on_sealed(listener)

    def _seal(self) -> None:
        """Tell about newly sealed segments; called with each publication if there are listeners."""
        published, flushed = self._publisher.published_offset, self._flusher.flushed_offset
        file = self._log.find(max(self._sealed_to, self._log.min_offset))
        while file is not None and file.end <= published:
            if file.end > flushed:
                self._seal_after_sync(file.end)
                return
            self._sealed_to = file.end
            self._tell(self._sealed, Segment(file.start, file.end))
            file = self._log.find(file.end)

    def _seal_after_sync(self, end: int) -> None:
        if self._sealing:
            return
        synced: Any = self._flusher.flushed(end)
        self._sealing = True

        def done(future: Any) -> None:
            self._sealing = False
            if not future.cancelled() and future.exception() is None:
                self._seal()

        synced.add_done_callback(done)
