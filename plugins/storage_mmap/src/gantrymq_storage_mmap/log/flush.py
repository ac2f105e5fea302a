"""Group commit: one sync of the log at a time, shared by all waiters.

While a sync runs in a thread, requests for more bytes wait for the next sync, which starts as soon as the first has
ended and covers all of them. A sync covers every file that holds bytes which are not durable, so a batch across the end
of a file is safe too. The flushed offset moves after the sync, never before.

For a single send, `sync_now` syncs on the event loop while the disk is quick (`sync_times`).

A failed sync is never repeated: the kernel may have dropped the pages it could not write. The store then refuses writes
until it is restarted and recovers from the contents of the disk.

Source of modes and intervals: apache/rocketmq store/.../CommitLog.java (GroupCommitService, FlushRealTimeService).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Sequence

from gantrymq.errors import StoreError
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import Clock, Timer, Workers
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.log.sync_times import SyncTimes

_PAGE_BYTES = 4096


class _Done:
    """A completed awaitable."""

    def __await__(self) -> Generator[None, None, None]:
        return iter(())  # type: ignore[return-value]


_DONE = _Done()


class LogFlusher:
    """Group commit and background flush. All methods belong to the event loop."""

    def __init__(self, log: CommitLog, workers: Workers, clock: Clock, settings: Settings) -> None:
        """Nothing runs before `start`. *settings* are read at each background flush, so they may change."""
        self.flushed_offset = log.end
        self.flushed_timestamp = 0  # ms, store time of the newest record known to be durable
        self.failure: str | None = None
        self.syncs = 0  # successful ones since the start
        self.sync_s = 0.0  # total seconds of these syncs
        self._log = log
        self._workers = workers
        self._clock = clock
        self._settings = settings
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._syncing = False
        self._times = SyncTimes()
        self._timer: Timer | None = None
        self._thorough_at = 0.0

    @property
    def asynchronous(self) -> bool:
        """Whether acknowledgements do not wait for the disk (flushDiskType=ASYNC_FLUSH)."""
        settings = self._settings
        return "flushDiskType" in settings.schema and settings.text("flushDiskType") == "ASYNC_FLUSH"

    @property
    def window_ms(self) -> int:
        """Maximum time in ms before the background sync of an appended message begins."""
        number = self._settings.number
        return number("flushCommitLogThoroughInterval") + number("flushIntervalCommitLog")

    def start(self, flushed_offset: int, flushed_timestamp: int) -> None:
        """Start the background flush; everything before *flushed_offset* is durable."""
        self.flushed_offset, self.flushed_timestamp = flushed_offset, flushed_timestamp
        self._thorough_at = self._clock.monotonic()
        self._arm()

    def flushed(self, log_offset: int) -> Awaitable[None]:
        """Return an awaitable that is done when everything before *log_offset* is durable.

        Raises (when awaited):
            StoreError: the sync failed.
        """
        if log_offset <= self.flushed_offset:
            return _DONE
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.failure is not None:
            future.set_exception(StoreError(self.failure))
            return future
        if log_offset > self._log.end:
            future.set_exception(
                StoreError(f"log offset {log_offset} was not appended yet; the end is {self._log.end}")
            )
            return future
        self._waiters.append((log_offset, future))
        self.kick()
        return future

    def sync_now(self, log_offset: int, *, alone: bool) -> bool:
        """Make everything before *log_offset* durable before returning, if the disk is quick; blocks the event loop.

        Return whether it is durable. If not, `flushed` waits for it, and reports a sync that failed here.

        *alone*: the loop has nothing else to do; otherwise it syncs for a limited share of the time.
        """
        if log_offset <= self.flushed_offset:
            return True
        began = self._clock.monotonic()
        target, timestamp = self._log.end, self._log.last_timestamp
        if (
            self._syncing
            or self.failure is not None
            or log_offset > target
            or not self._times.loop_may_sync(began, alone=alone)
        ):
            return False
        problem: Exception | None = None
        try:
            sync_files(self._log.between(self.flushed_offset, target))
        except Exception as error:
            problem = error
        ended = self._clock.monotonic()
        self._times.took_on_loop(ended - began, ended)
        self._synced(target, timestamp, began, problem)
        return problem is None

    def kick(self) -> None:
        """Start a sync of everything not durable, unless one runs (another will follow it) or nothing needs it."""
        if self._syncing or self.failure is not None or self.flushed_offset >= self._log.end:
            return
        self._syncing = True
        # Noted before the sync, which need not cover bytes that are appended while it runs.
        target, timestamp = self._log.end, self._log.last_timestamp
        files = self._log.between(self.flushed_offset, target)
        began = self._clock.monotonic()

        def done(seconds: float | None, error: BaseException | None) -> None:
            if seconds is not None:
                self._times.took(seconds)
            self._synced(target, timestamp, began, error)

        self._workers.submit(timed_sync, files, self._clock, done=done)

    async def stop(self) -> None:
        """Make everything durable and stop the background flush.

        Raises:
            StoreError: a sync failed, now or before.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self.failure is None and self.flushed_offset < self._log.end:
            await self.flushed(self._log.end)
        if self.failure is not None:
            raise StoreError(self.failure)

    def _synced(self, target: int, timestamp: int, began: float, error: BaseException | None) -> None:
        self._syncing = False
        waiters, self._waiters = self._waiters, []
        if error is not None:
            self.failure = (
                f"the commit log could not be made durable: {error}; writes are refused, restart the broker once the "
                "disk works again"
            )
            for _, future in waiters:
                if not future.done():
                    future.set_exception(StoreError(self.failure))
            return
        self.flushed_offset, self.flushed_timestamp = target, timestamp
        self.syncs += 1
        self.sync_s += self._clock.monotonic() - began
        for wanted, future in waiters:
            if wanted > target:
                self._waiters.append((wanted, future))
            elif not future.done():
                future.set_result(None)
        if self._waiters:
            self.kick()

    def _arm(self) -> None:
        self._timer = self._clock.call_later(self._settings.number("flushIntervalCommitLog") / 1000, self._tick)

    def _tick(self) -> None:
        self._arm()
        waiting = self._log.end - self.flushed_offset
        now = self._clock.monotonic()
        if now - self._thorough_at >= self._settings.number("flushCommitLogThoroughInterval") / 1000:
            self._thorough_at = now
            self.kick()
        elif waiting >= self._settings.number("flushCommitLogLeastPages") * _PAGE_BYTES:
            self.kick()


def sync_files(files: Sequence[LogFile]) -> None:
    """Sync *files*, oldest first. For any thread."""
    for log_file in files:
        log_file.file.datasync()


def timed_sync(files: Sequence[LogFile], clock: Clock) -> float:
    """`sync_files`; return the seconds that it took, without the hand-over to the thread and back."""
    began = clock.monotonic()
    sync_files(files)
    return clock.monotonic() - began
