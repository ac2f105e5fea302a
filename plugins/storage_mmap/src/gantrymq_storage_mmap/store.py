"""The store: parts put together, started, stopped, and asked.

Source of the order of start and stop: apache/rocketmq store/.../DefaultMessageStore.java (load, start, shutdown).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence

import attrs

from gantrymq.errors import GantryError, StoreError, StoreLocked, StoreReadOnly
from gantrymq.formats.checkpoint import CHECKPOINT_BYTES, Checkpoint, decode_checkpoint, encode_checkpoint
from gantrymq.formats.record import RecordView
from gantrymq.formats.store_folders import INDEX
from gantrymq.interfaces import (
    Bounds,
    Cleaning,
    CleanReport,
    DispatchEntry,
    Edge,
    GetLimit,
    GetResult,
    MessageFilter,
    PutResult,
    PutStatus,
    QueryResult,
    RecoveryReport,
    StoreContext,
    StoreMessage,
    StoreState,
)
from gantrymq.model.queue import Queue
from gantrymq.world import Lock, is_full
from gantrymq.world.folders import make_durable_dirs
from gantrymq_storage_mmap.checkpoint.checkpointer import Checkpointer
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint, read_point
from gantrymq_storage_mmap.index.builder import IndexBuilder
from gantrymq_storage_mmap.index.file import IndexPlace
from gantrymq_storage_mmap.index.files import IndexFiles
from gantrymq_storage_mmap.index.folder import IndexLoader, LoadedIndex
from gantrymq_storage_mmap.index.query import IndexReader
from gantrymq_storage_mmap.log.append import Appender
from gantrymq_storage_mmap.log.append_placed import refused
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile, load_log_files
from gantrymq_storage_mmap.log.flush import LogFlusher
from gantrymq_storage_mmap.log.preallocation import Preallocation
from gantrymq_storage_mmap.log.source import entries_between, next_record
from gantrymq_storage_mmap.log.writes import LogWrites
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.dropping import ASIDE, Dropping
from gantrymq_storage_mmap.queues.loading import QueueLoader
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.queues.writer import TailWriter
from gantrymq_storage_mmap.reading.batch_get import BatchReader
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.reading.cold_blocks import ColdBlocks
from gantrymq_storage_mmap.reading.cold_record import FromDisk, FromMemory, NotInMemory, read_cold
from gantrymq_storage_mmap.reading.get import Reader
from gantrymq_storage_mmap.reading.read_ahead import ReadAhead
from gantrymq_storage_mmap.reading.read_check import Damaged
from gantrymq_storage_mmap.reading.time_search import search
from gantrymq_storage_mmap.recovery.recovery import Recovery
from gantrymq_storage_mmap.retention.disk_watch import DiskWatch
from gantrymq_storage_mmap.retention.queue_cleaning import QueueCleaner
from gantrymq_storage_mmap.retention.retention import Retention
from gantrymq_storage_mmap.retention.rules import Refusal
from gantrymq_storage_mmap.retention.settings import check_quota, read_rules

__all__ = ["MmapStore"]

COLD_READS = 2  # at once: the other threads are for the sync that senders wait for, and for log files
_NOT_RUNNING = "the store is not running"
_MAX_BODY_BYTES = 4 * 1024**2  # where no setting maxMessageSize is declared


@attrs.frozen
class _Recovered:
    """What a start found."""

    report: RecoveryReport
    durable_offset: int
    checkpoint: Checkpoint
    saved: SavedPoint | None
    index: LoadedIndex


class MmapStore:
    """`gantrymq.interfaces.MessageStore` over RocketMQ's files."""

    def __init__(self, context: StoreContext) -> None:
        """Read the settings. Nothing is touched before `start`.

        Raises:
            ConfigError: they contradict each other.
        """
        self._context = context
        world = context.world
        self._files, self._workers, self._clock = world.files, world.workers, world.clock
        self._tell = context.log
        self._settings = context.settings
        self._options = Options(context.root, context.settings)
        self._root = context.root
        self._unreadable = f"the store {self._root} cannot be read"
        check_quota(read_rules(context.settings))
        self._locks: list[Lock] = []  # of the store's folder, and of the log's
        self._running = False
        self._max_body = (-1, 0)  # as of a revision of the settings
        self._wire([])

    def _wire(self, loaded: list[LogFile]) -> None:
        """Build the parts over the log files *loaded*."""
        options, world = self._options, self._context.world
        files, workers, clock = self._files, self._workers, self._clock
        ahead = Preallocation(
            files, workers, options.log_folder, options.log_file_bytes, self._tell, options.warm_sync_bytes
        )
        self._log = CommitLog(loaded, options.log_file_bytes, options.hot_window_bytes, ahead)
        self._queues = QueueTable(files, options)
        self._dropped = DroppedTopics(files, self._root)
        self._dropping = Dropping(files, workers, self._root / ASIDE, self._queues, self._dropped, self._tell)
        self._publisher = Publisher(self._queues.tails)
        self._tail_writer = TailWriter(self._queues.tails, clock, options.queue_flush_interval_ms)
        self._writes = LogWrites()
        self._appender = Appender(
            self._log, self._queues, self._publisher, self._writes, clock.now_ms, self._max_body_bytes, options
        )
        self._flusher = LogFlusher(self._log, workers, clock, self._settings)
        self._cold = cold = BoundedWorkers(workers, COLD_READS)
        self._damaged = Damaged(self._tell)
        read_ahead = ReadAhead(self._log, cold, options, clock.monotonic)
        self._reader = Reader(self._log, cold, options, read_ahead, self._damaged, ColdBlocks(self._log))
        self._batch_reader = BatchReader(self._log, cold, options, self._damaged)
        held = IndexFiles(files, workers, clock, self._root / INDEX, options.index_layout, self._tell)
        self._index = IndexBuilder(
            held, self._log, workers, clock, self._tell, lambda: self._checkpointer.hasten(), options.index_enabled
        )
        self._index_reader = IndexReader(self._log, cold, self._index, options.most_found)
        self._checkpointer = Checkpointer(
            world, options, self._log, self._queues, self._publisher, self._flusher, self._index, self._tell
        )
        self._wire_retention()

    def _wire_retention(self) -> None:
        world, settings, tell = self._context.world, self._settings, self._tell
        log, queues = self._log, self._queues
        root, log_folder, index = self._root, self._options.log_folder, self._index.held
        self._watch = DiskWatch(world, settings, root, log_folder, log, queues, self._writes, index.taken_bytes, tell)
        queue_cleaner = QueueCleaner(world, log, queues, self._dropping, self._context.reserve_ms)
        self._retention = Retention(
            world,
            settings,
            log,
            queues,
            self._durable_offset,
            self._checkpointer,
            self._watch,
            queue_cleaner,
            index,
            tell,
        )

    def _durable_offset(self) -> int:
        return min(self._flusher.flushed_offset, self._publisher.published_offset)

    def _max_body_bytes(self) -> int:
        if self._max_body[0] != self._settings.revision:
            known = "maxMessageSize" in self._settings.schema  # it is the broker's
            bytes_ = self._settings.number("maxMessageSize") if known else _MAX_BODY_BYTES
            self._max_body = (self._settings.revision, bytes_)
        return self._max_body[1]

    # --- start and stop ---------------------------------------------------------------------------------------------

    async def start(self) -> RecoveryReport:
        """Lock, load, recover; the report says what was found and done.

        Raises:
            StoreLocked: another process holds the store.
            StoreReadOnly: its folder cannot be written.
            StoreLayoutError: it holds something this store does not understand; says what and what to do.
            StoreDamaged: what it holds contradicts itself.
        """
        await self._take_locks()
        try:
            found = await self._workers.run(self._recover)
        except BaseException as error:
            self._close_files()
            self._release_locks()
            if isinstance(error, OSError):
                raise StoreError(f"the store {self._root} cannot be opened: {error}") from error
            raise
        report = found.report
        self._flusher.start(report.log_end, self._log.last_timestamp)
        self._running = True
        self._checkpointer.start(found.durable_offset, found.checkpoint, found.saved, clean=report.clean)
        self._tail_writer.start()
        self._index.start(found.index, self._publisher.published_offset)
        self._retention.start()
        if self._flusher.asynchronous and not report.clean and report.log_end:
            self._tell(
                f"flushDiskType=ASYNC_FLUSH: if the power failed, messages acknowledged in the "
                f"{self._flusher.window_ms} ms before may be gone; SYNC_FLUSH keeps every one"
            )
        self._dropping.begin()
        return report

    async def stop(self) -> None:
        """Make everything durable and visible, write the checkpoint, leave no ``abort``. A second call does nothing.

        When the disk fails on the way, ``abort`` stays and the next start recovers; that is told, not raised.
        """
        if not self._running:
            return
        self._running = False
        try:
            await self._retention.stop()
            await self._flusher.stop()
            self.publish(self._log.end)
            self._index.add((), self._log.end)
            await self._index.stop()
            self._tail_writer.halt()
            await self._checkpointer.stop()
            self._log.ahead.close()
            while self._busy():
                await self._clock.sleep(0.001)
            if self._writes.refusal is None:
                await self._workers.run(self._leave_clean)
        except (GantryError, OSError) as error:
            self._tell(f"the store {self._root} was not stopped cleanly, its next start recovers: {error}")
            self._index.halt()
            await self._index.quiet()
        finally:
            self._retention.halt()
            self._tail_writer.halt()
            self._checkpointer.halt()
            await self._workers.run(self._close_files)  # a log file's pages are given back, a gigabyte of them
            self._release_locks()

    def _busy(self) -> bool:
        """Whether a thread is at work."""
        return bool(self._cold.readers or self._cold.busy or self._log.ahead.busy or self._dropping.busy)

    def _leave_clean(self) -> None:
        """Runs in a thread."""
        self._files.remove(self._root / "abort")
        self._files.sync_dir(self._root)

    def _mark_open(self) -> None:
        """Make ``abort``, there while the store is open; on a full disk without the process id, which nobody reads."""
        try:
            self._files.replace(self._root / "abort", str(self._context.world.process_id).encode("ascii"))
        except OSError as error:
            if not is_full(error):
                raise
            self._files.open(self._root / "abort", create=True).close()
            self._files.sync_dir(self._root)

    def _make_folders(self) -> None:
        """Runs in a thread. Raises OSError."""
        make_durable_dirs(self._files, self._root)
        make_durable_dirs(self._files, self._options.log_folder)
        self._files.sync_dir(self._root)  # names in it that a killed process made

    async def _take_locks(self) -> None:
        try:
            await self._workers.run(self._make_folders)
            lock = self._files.lock(self._root / "lock", b"lock")
        except OSError as error:
            raise StoreReadOnly(
                f"the store's folder {self._root} cannot be written: {error.strerror or error}; make it a folder that "
                "this user may write, or choose another with storePathRootDir"
            ) from error
        if lock is None:
            raise StoreLocked(
                f"the store {self._root} is in use by another broker; stop that one, or give this one a folder of its "
                "own with storePathRootDir"
            )
        self._locks = [lock]
        try:  # two stores may share a folder of the log by mistake, and a stray file may not lie in it
            folder = self._files.lock_folder(self._options.log_folder)
        except OSError:  # a file system without such locks
            return
        if folder is None:
            self._release_locks()
            raise StoreLocked(
                f"the commit log in {self._options.log_folder} is in use by a broker with another store; give each "
                "broker a folder of its own with storePathCommitLog"
            )
        self._locks.append(folder)

    def _recover(self) -> _Recovered:
        """Load and recover. Runs in a thread; nothing else uses the store meanwhile."""
        options, files, root = self._options, self._files, self._root
        clean = files.stat(root / "abort") is None
        stat = files.stat(root / "checkpoint")
        data = files.read(root / "checkpoint") if stat is not None else b""
        checkpoint = decode_checkpoint(data)
        self._wire(load_log_files(files, options.log_folder, options.log_file_bytes))
        self._dropped.load(self._log.min_offset)
        self._dropping.load()
        self._checkpointer.watch()
        recovery = Recovery(
            files,
            self._clock,
            self._log,
            self._queues,
            self._dropped,
            options,
            self._checkpointer.make_durable_now,
            self._tell,
            self._context.progress,
        )
        if stat is not None and len(data) != CHECKPOINT_BYTES:
            recovery.note(
                f"{root / 'checkpoint'} has {len(data)} bytes where {CHECKPOINT_BYTES} belong; it is written anew"
            )
        saved = read_point(files, root, recovery.note) if stat is not None else None
        if saved is not None and not self._believes(saved, checkpoint):
            saved = None
        loader = QueueLoader(files, root, self._queues, self._dropped, self._dropping.move_aside)
        loader.load(saved)
        if clean:
            self._mark_open()
        report = recovery.run(clean, checkpoint, saved, loader.newest)
        self._dropped.cut(report.log_end)
        self._log.recovered(report.log_end, recovery.last_timestamp, recovery.log_start)
        if self._log.current is not None:
            self._log.current.file.allocate(options.log_file_bytes)  # Java's files are sparse
        self._publisher.recovered(report.log_end, recovery.last_timestamp, recovery.newest)
        self._watch.look()
        index = self._load_index(saved, None if clean else checkpoint.index_timestamp)
        checkpoint = checkpoint.up_to(recovery.last_timestamp)
        if index.full_timestamp < checkpoint.index_timestamp:  # files to come are not durable yet
            checkpoint = checkpoint._replace(index_timestamp=index.full_timestamp)
            files.replace(root / "checkpoint", encode_checkpoint(checkpoint))
        return _Recovered(report, recovery.durable_offset, checkpoint, saved, index)

    def _load_index(self, saved: SavedPoint | None, trusted_ms: int | None) -> LoadedIndex:
        log = self._log
        index = IndexLoader(
            self._files,
            self._root / INDEX,
            self._options.index_layout,
            log.min_offset,
            log.end,
            saved.index if saved is not None else None,
            trusted_ms,
            self._tell,
        ).load()
        self._index.held.hold(index)
        place = next_record(log, index.place.log_offset)
        if place != index.place.log_offset:  # its newest message was given up, those behind it are not in the index
            index = attrs.evolve(index, place=IndexPlace(place))
        return index

    def _believes(self, saved: SavedPoint, checkpoint: Checkpoint) -> bool:
        """Whether nobody else had the store since *saved*, and what it says fits the log and the settings."""
        log = self._log
        return (
            saved.belongs_to(checkpoint)
            and saved.file_bytes == self._queues.file_bytes
            and log.min_offset <= saved.offset <= (log.files[-1].end if log.files else log.min_offset)
        )

    def _close_files(self) -> None:
        self._log.close()
        self._index.held.close()
        self._checkpointer.close()
        self._queues.close()

    def _release_locks(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks = []

    # --- write ------------------------------------------------------------------------------------------------------

    def put(self, messages: Sequence[StoreMessage]) -> list[PutResult]:
        """Append in order; see `Appender.append`."""
        problem = self.refusal()
        if problem is not None:
            self._watch.hurry()
            return [refused(PutStatus.SERVICE_NOT_AVAILABLE, problem)] * len(messages)
        results = self._appender.append(messages)
        if self._log.ahead.refusal is not None or self._writes.refusal is not None:
            self._watch.hurry()
        return results

    def flushed(self, log_offset: int) -> Awaitable[None]:
        """Done when everything before *log_offset* is durable; see `LogFlusher.flushed`."""
        return self._flusher.flushed(log_offset)

    def publish(self, up_to: int) -> Sequence[DispatchEntry]:
        """Make visible what ends at or before *up_to*; see `Publisher.publish`."""
        entries = self._publisher.publish(up_to)
        if self._options.light_queues and entries:  # a record's entry in a light queue follows that of its own queue
            entries = [e for n, e in enumerate(entries) if not n or e.log_offset != entries[n - 1].log_offset]
        self._index.add(entries, self._publisher.published_offset)
        return entries

    def refusal(self) -> str | None:
        """Why writes are refused, None while they are taken."""
        refused = self._refused()
        return refused.sentence if refused is not None else None

    def _refused(self) -> Refusal | None:
        if not self._running:
            return Refusal("not_running", _NOT_RUNNING)
        if (failure := self._flusher.failure) is not None:
            return Refusal("sync_failed", failure)
        if (full := self._watch.refusal()) is not None:
            return full
        if (failure := self._writes.refusal) is not None:
            return Refusal("log_write_failed", failure)
        if (failure := self._queues.tails.refusal) is not None:
            return Refusal("queue_write_failed", failure)
        return None

    # --- read -------------------------------------------------------------------------------------------------------

    def get(
        self, queue: Queue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult | Awaitable[GetResult]:
        """Read from *queue_offset*; see `Reader.get`. An awaitable when the entries or the records are cold."""
        try:
            found = self._queues.get(queue)
            if isinstance(found, BatchQueue):
                return self._batch_reader.get(found, queue_offset, limit, match)
            return self._reader.get(found, queue_offset, limit, match)
        except OSError as error:
            raise StoreError(f"{self._unreadable}: {error}") from error

    def read(self, log_offset: int) -> RecordView | None:
        """The record at *log_offset*, published or not; None where no record starts. May wait for the disk."""
        with self._cold.reading(self._unreadable):
            return read_cold(self._log, log_offset, FromDisk())

    def scan(self, start: int, end: int) -> Iterator[DispatchEntry]:
        """Every published record of ``[start, end)``, in log order; see `entries_between`."""
        end = min(end, self._publisher.published_offset)
        return entries_between(self._log, start, end, self._options.delay_levels_ms)

    def bounds(self, queue: Queue) -> Bounds:
        """Offsets of a queue; (0, 0) for one that never got a message."""
        found = self._queues.get(queue)
        return Bounds(found.min_offset, found.max_offset) if found is not None else Bounds(0, 0)

    def queues(self) -> Sequence[Queue]:
        """Every queue that has or had a message, sorted."""
        return self._queues.names()

    async def offset_at(self, queue: Queue, time_ms: int, edge: Edge) -> int:
        """Queue offset by store time, clamped to the bounds; 0 for a queue that never got a message."""
        found = self._queues.get(queue)
        if found is None:
            return 0
        with self._cold.reading(self._unreadable):
            return await self._workers.run(search(self._log, found, time_ms, edge))

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int
    ) -> QueryResult | Awaitable[QueryResult]:
        """By the index; see `IndexReader.query`."""
        return self._index_reader.query(topic, key, begin_ms, end_ms, limit)

    def view(self, log_offset: int) -> RecordView | Awaitable[RecordView | None] | None:
        """As `read`; an awaitable when the record is not in memory."""
        if log_offset >= self._log.hot_offset:
            return self.read(log_offset)
        try:
            with self._cold.reading(self._unreadable):
                return read_cold(self._log, log_offset, FromMemory())
        except NotInMemory:
            return self._view_cold(log_offset)

    async def _view_cold(self, log_offset: int) -> RecordView | None:
        with self._cold.reading(self._unreadable):
            return await self._workers.run(read_cold, self._log, log_offset, FromDisk())

    def drop(self, topic: str) -> Awaitable[None]:
        """Forget the queues of *topic*, whose records stay in the log; see `Dropping.drop`.

        Raises:
            StoreError: the queues' folder cannot be moved, or, when awaited, that cannot be noted.
        """
        try:
            return self._dropping.drop(topic, self._log.end)
        except OSError as error:
            raise StoreError(f"the queues of topic {topic} cannot be removed: {error}") from error

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
        """Watermarks and refusals; details under RocketMQ's names."""
        log, (cause, refusal) = self._log, self._refused() or ("", None)
        return StoreState(
            min_log_offset=log.min_offset,
            max_log_offset=log.end,
            flushed_offset=self._flusher.flushed_offset,
            published_offset=self._publisher.published_offset,
            refusal=refusal,
            refusal_cause=cause,
            syncs=self._flusher.syncs,
            sync_s=self._flusher.sync_s,
            details={
                "commitLogMinOffset": str(log.min_offset),
                "commitLogMaxOffset": str(log.end),
                "dispatchBehindBytes": str(log.end - self._publisher.published_offset),
                **({"damagedRecordsRefused": str(refused)} if (refused := self._damaged.refused) else {}),
                **({"storeRefusalCause": cause} if cause else {}),
            },
        )
