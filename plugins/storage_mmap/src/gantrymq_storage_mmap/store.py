"""The message store: start, stop, writes and reads.

Source of the order of start and stop: apache/rocketmq store/.../DefaultMessageStore.java (start, shutdown).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence

from gantrymq.errors import GantryError, StoreError
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import (
    BoundaryType,
    Bounds,
    Cleaning,
    CleanReport,
    DispatchEntry,
    GetLimit,
    GetResult,
    MessageFilter,
    PutResult,
    QueryResult,
    RawLog,
    RecoveryReport,
    StoreContext,
    StoreFeature,
    StoreMessage,
    StoreState,
)
from gantrymq.plugin.model import Queue
from gantrymq_storage_mmap.log.source import entries_between
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.raw_log import StoreWithRawLog
from gantrymq_storage_mmap.reading.cold_record import CachedReads, DiskReads, HotReads, NotInMemory, read_cold
from gantrymq_storage_mmap.reading.time_search import search
from gantrymq_storage_mmap.retention.rules import Refusal
from gantrymq_store_files.index_hash import forget_topics
from gantrymq_store_files.put import refused

_NOT_RUNNING = "the store is not running"
_HOT = HotReads()


class MmapStore(StoreWithRawLog):
    """`gantrymq.interfaces.MessageStore` over RocketMQ's files."""

    def __init__(self, context: StoreContext) -> None:
        """Read the settings. Nothing on disk is touched before `start`.

        Raises:
            ConfigError: the settings contradict each other.
        """
        super().__init__(context)
        self._running = False

    @property
    def supports(self) -> frozenset[StoreFeature]:
        """Everything."""
        return frozenset(StoreFeature)

    @property
    def raw_log(self) -> RawLog:
        """The log as bytes."""
        return self

    # --- start and stop ---------------------------------------------------------------------------------------------

    async def start(self) -> RecoveryReport:
        """Lock, load and recover the store; return a report of what was found and done.

        A start that is cancelled ends when its thread does, because that uses the files: with a clean stop, or within a
        second or so of a recovery, which the next start begins again.

        Raises:
            StoreLocked: another process holds the store.
            StoreReadOnly: the folder is not writable.
            StoreLayoutError: the folder has contents that this store does not understand; the message says what to do.
            StoreDamaged: the contents contradict each other.
        """
        await self._locks.take()
        opening = asyncio.ensure_future(self._workers.run(self._open))
        cancelled: asyncio.CancelledError | None = None
        while not opening.done():
            try:
                await asyncio.wait([opening])
            except asyncio.CancelledError as error:
                cancelled, self._given_up = error, True
        try:
            found = opening.result()
        except BaseException as error:
            self._close_files()
            self._locks.release()
            if cancelled is not None:
                raise cancelled from error
            if isinstance(error, OSError):
                raise StoreError(f"the store {self._root} cannot be opened: {error}") from error
            raise
        report = found.report
        self._flusher.start(report.log_end, self._log.last_timestamp)
        self._running = True
        self._checkpointer.start(found.durable_offset, found.checkpoint, found.saved, clean=report.clean)
        self._entry_writer.start()
        self._index.start(found.index, self._publisher.published_offset)
        self._retention.start()
        if self._flusher.asynchronous and not report.clean and report.log_end:
            self._report(
                f"flushDiskType=ASYNC_FLUSH: if the power failed, messages acknowledged in the "
                f"{self._flusher.window_ms} ms before may be gone; SYNC_FLUSH keeps every one"
            )
        self._dropper.begin()
        if cancelled is not None:
            await self.stop()
            raise cancelled
        return report

    async def stop(self) -> None:
        """Make everything durable and visible, write the checkpoint and remove ``abort``. Further calls do nothing.

        If the disk fails meanwhile, ``abort`` stays and the next start recovers; the error is logged, not raised.
        """
        if not self._running:
            return
        self._running = False
        try:
            await self._retention.stop()
            await self._flusher.stop()
            self._limit = None
            self.publish(self._log.end)
            self._index.add((), self._log.end)
            await self._index.stop()
            self._entry_writer.halt()
            await self._checkpointer.stop()
            self._log.ahead.close()
            while self._busy():
                await self._clock.sleep(0.001)
            if self._writes.refusal is None and self._truncation.refusal is None:
                await self._workers.run(self._leave_clean)
        except (GantryError, OSError) as error:
            self._report(f"the store {self._root} was not stopped cleanly, its next start recovers: {error}")
            self._index.halt()
            await self._index.wait_idle()
        finally:
            self._retention.halt()
            self._entry_writer.halt()
            self._checkpointer.halt()
            await self._workers.run(self._close_files)  # closing a log file frees up to a gigabyte of pages
            self._locks.release()

    def _busy(self) -> bool:
        """Return whether a thread is working."""
        return bool(self._cold.readers or self._cold.busy or self._log.ahead.busy or self._dropper.busy)

    def _leave_clean(self) -> None:
        """Runs in a thread."""
        self._files.remove(self._root / "abort")
        self._files.sync_dir(self._root)

    def _close_files(self) -> None:
        self._log.close()
        self._index.files.close()
        self._checkpointer.close()
        self._queues.close()

    # --- write ------------------------------------------------------------------------------------------------------

    def put(self, messages: Sequence[StoreMessage]) -> list[PutResult]:
        """Append in order; see `Appender.append`."""
        refusal = self._refused()
        if refusal is not None:
            self._watch.check_soon()
            return [refused(refusal.status, refusal.sentence)] * len(messages)
        results = self._appender.append(messages)
        if self._log.ahead.refusal is not None or self._writes.refusal is not None:
            self._watch.check_soon()
        return results

    def flushed(self, log_offset: int) -> Awaitable[None]:
        """Done when everything before *log_offset* is durable; see `LogFlusher.flushed`."""
        return self._flusher.flushed(log_offset)

    def sync_now(self, log_offset: int, *, alone: bool) -> bool:
        """Make everything before *log_offset* durable at once, if possible; see `LogFlusher.sync_now`."""
        return self._flusher.sync_now(log_offset, alone=alone)

    def publish(self, up_to: int) -> Sequence[DispatchEntry]:
        """Make records that end at or before *up_to* visible; see `Publisher.publish`."""
        entries = self._publisher.publish(up_to if self._limit is None else min(up_to, self._limit))
        if self._publisher.repeats and entries:
            entries = [e for n, e in enumerate(entries) if not n or e.log_offset != entries[n - 1].log_offset]
        self._index.add(entries, self._publisher.published_offset)
        if self._sealed_to >= 0:
            self._seal()
        return entries

    def refusal(self) -> str | None:
        """Why writes are refused; None if they are accepted."""
        refused = self._refused()
        return refused.sentence if refused is not None else None

    def _refused(self) -> Refusal | None:
        if not self._running:
            return Refusal("not_running", _NOT_RUNNING)
        if (problem := self._truncation.refusal) is not None:
            return Refusal("truncating", problem)
        if (failure := self._flusher.failure) is not None:
            return Refusal("sync_failed", failure)
        return self._watch.refusal()

    # --- read -------------------------------------------------------------------------------------------------------

    def get(
        self, queue: Queue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult | Awaitable[GetResult]:
        """Read from *queue_offset*; see `QueueReader.get`. Returns an awaitable if entries or records are cold."""
        try:
            found = self._queues.get(queue)
            if isinstance(found, BatchQueue):
                return self._batch_reader.get(found, queue_offset, limit, match)
            return self._reader.get(found, queue_offset, limit, match)
        except OSError as error:
            raise StoreError(f"{self._unreadable}: {error}") from error

    def read(self, log_offset: int) -> RecordView | None:
        """Return the record at *log_offset*, published or not; None if no record starts there. May block."""
        with self._cold.reading(self._unreadable):
            return read_cold(self._log, log_offset, DiskReads())

    def scan(self, start: int, end: int) -> Iterator[DispatchEntry]:
        """Iterate over the published records of ``[start, end)`` in log order; see `entries_between`."""
        end = min(end, self._publisher.published_offset)
        return entries_between(self._log, start, end, self._options.delay_levels_ms)

    def bounds(self, queue: Queue) -> Bounds:
        """Return the offsets of a queue; (0, 0) if it never got a message."""
        found = self._queues.get(queue)
        return Bounds(found.min_offset, found.max_offset) if found is not None else Bounds(0, 0)

    def queues(self) -> Sequence[Queue]:
        """Return every queue that has or had a message, sorted."""
        return self._queues.names()

    async def offset_at(self, queue: Queue, time_ms: int, edge: BoundaryType) -> int:
        """Return the queue offset for a store time, clamped to the bounds; 0 if the queue never got a message."""
        found = self._queues.get(queue)
        if found is None:
            return 0
        with self._cold.reading(self._unreadable):
            return await self._workers.run(search(self._log, found, time_ms, edge))

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int
    ) -> QueryResult | Awaitable[QueryResult]:
        """Query by key through the index; see `IndexReader.query`."""
        return self._index_reader.query(topic, key, begin_ms, end_ms, limit)

    def view(self, log_offset: int) -> RecordView | Awaitable[RecordView | None] | None:
        """Like `read`, but return an awaitable if the record is not in memory."""
        if log_offset >= self._log.hot_offset:
            try:
                return read_cold(self._log, log_offset, _HOT)
            except OSError as error:
                raise StoreError(f"{self._unreadable}: {error}") from error
        try:
            with self._cold.reading(self._unreadable):
                return read_cold(self._log, log_offset, CachedReads())
        except NotInMemory:
            return self._view_cold(log_offset)

    async def _view_cold(self, log_offset: int) -> RecordView | None:
        with self._cold.reading(self._unreadable):
            return await self._workers.run(read_cold, self._log, log_offset, DiskReads())

    def drop(self, topic: str) -> Awaitable[None]:
        """Forget the queues of *topic*, whose records stay in the log; see `QueueDropper.drop`.

        Raises:
            StoreError: the queues' folder cannot be moved; or, when awaited, the deletion cannot be noted.
        """
        try:
            dropped = self._dropper.drop(topic, self._log.end, self._log.min_offset)
            self._read_ahead.forget(topic)
            forget_topics()
            return dropped
        except OSError as error:
            raise StoreError(f"the queues of topic {topic} cannot be removed: {error}") from error

    def dropped_at(self, topic: str) -> int:
        """Return the log's end when *topic* was last dropped; 0 if never, or if no record before that is left."""
        return self._dropped.before(topic)

    async def clean(self, what: Cleaning) -> CleanReport:
        """Clean now; see `Retention.clean`.

        Raises:
            StoreError: the store is not running, or the disk failed.
        """
        if not self._running:
            raise StoreError(_NOT_RUNNING)
        try:
            return await self._retention.clean(what)
        except OSError as error:
            raise StoreError(f"the store {self._root} cannot be cleaned: {error}") from error

    def state(self) -> StoreState:
        """Return positions and refusals, with details under RocketMQ's names."""
        log, refused = self._log, self._refused()
        return StoreState(
            min_log_offset=log.min_offset,
            max_log_offset=log.end,
            flushed_offset=self._flusher.flushed_offset,
            published_offset=self._publisher.published_offset,
            refusal=None if refused is None else refused.sentence,
            refusal_cause="" if refused is None else refused.cause,
            syncs=self._flusher.syncs,
            sync_s=self._flusher.sync_s,
            details={
                "commitLogMinOffset": str(log.min_offset),
                "commitLogMaxOffset": str(log.end),
                "dispatchBehindBytes": str(log.end - self._publisher.published_offset),
                **({"damagedRecordsRefused": str(count)} if (count := self._damaged.refused) else {}),
                **({} if refused is None else refused.details()),
            },
        )
