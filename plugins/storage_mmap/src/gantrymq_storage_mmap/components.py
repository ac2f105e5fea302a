"""Construction of a store's components over its log files."""

from __future__ import annotations

from gantrymq.plugin.formats import INDEX
from gantrymq.plugin.interfaces import StoreContext
from gantrymq_storage_mmap.checkpoint.checkpointer import Checkpointer
from gantrymq_storage_mmap.index.builder import IndexBuilder
from gantrymq_storage_mmap.index.files import IndexFiles
from gantrymq_storage_mmap.index.query import IndexReader
from gantrymq_storage_mmap.log.append import Appender
from gantrymq_storage_mmap.log.append_raw import RawAppender
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.log.flush import LogFlusher
from gantrymq_storage_mmap.log.preallocation import Preallocation
from gantrymq_storage_mmap.log.writer import LogWriter
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.dropper import DROPPED_FOLDER, QueueDropper
from gantrymq_storage_mmap.queues.pending_entries import EntryWriter
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.reading.batch_get import BatchReader
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.reading.entry_repair import EntryRepairer
from gantrymq_storage_mmap.reading.get import QueueReader
from gantrymq_storage_mmap.reading.log_blocks import LogBlocks
from gantrymq_storage_mmap.reading.message_scan import MessageScan
from gantrymq_storage_mmap.reading.needle_hits import NeedleHits
from gantrymq_storage_mmap.reading.read_ahead import ReadAhead
from gantrymq_storage_mmap.reading.read_check import DamagedRecords
from gantrymq_storage_mmap.recovery.queue_repair import QueueRepair
from gantrymq_storage_mmap.retention.disk_watch import DiskWatch
from gantrymq_storage_mmap.retention.queue_cleaning import QueueCleaner
from gantrymq_storage_mmap.retention.retention import Retention
from gantrymq_storage_mmap.retention.settings import check_quota, read_retention
from gantrymq_storage_mmap.settings import Options
from gantrymq_storage_mmap.store_locks import StoreLocks
from gantrymq_storage_mmap.truncation import Truncation
from gantrymq_store_files.log_listeners import LogListeners

_COLD_READS = 2  # concurrent; the other threads are for syncs that senders wait for and for creating log files
_MAX_BODY_BYTES = 4 * 1024**2  # if no setting maxMessageSize is declared


class StoreComponents(LogListeners):
    """The components of a store and their connections."""

    def __init__(self, context: StoreContext) -> None:
        """Read the settings and build the components without files; nothing on disk is touched.

        Raises:
            ConfigError: the settings contradict each other.
        """
        super().__init__(context.log)
        self._context = context
        world = context.world
        self._files, self._workers, self._clock = world.files, world.workers, world.clock
        self._report = context.log
        self._settings = context.settings
        self._options = Options(context.root, context.settings)
        self._root = context.root
        check_quota(read_retention(context.settings))
        another = context.settings.how_to_set("storePathRootDir", "DIR")
        self._locks = StoreLocks(self._files, self._workers, self._root, self._options.log_folder, another)
        self._max_body = (-1, 0)  # as of a revision of the settings
        self._wire([])

    def _wire(self, loaded: list[LogFile]) -> None:
        """Build the components over the log files *loaded*."""
        options, world = self._options, self._context.world
        files, workers, clock = self._files, self._workers, self._clock
        ahead = Preallocation(
            files, workers, options.log_folder, options.log_file_bytes, self._report, options.warm_sync_bytes
        )
        self._log = CommitLog(loaded, options.log_file_bytes, options.hot_window_bytes, ahead)
        self._queues = QueueTable(files, options, self._context.bit_maps)
        self._dropped = DroppedTopics(files, self._root)
        self._dropper = QueueDropper(
            files, workers, self._root / DROPPED_FOLDER, self._queues, self._dropped, self._report
        )
        self._publisher = Publisher(self._queues.pending, repeats=options.light_queues)
        self._entry_writer = EntryWriter(self._queues.pending, clock, options.queue_flush_interval_ms)
        self._writes = LogWriter()
        self._appender = Appender(
            self._log, self._queues, self._publisher, self._writes, clock.now_ms, self._max_body_bytes, options
        )
        self._raw_appender = RawAppender(
            self._log,
            self._queues,
            self._dropper,
            self._publisher,
            self._writes,
            options,
            self._context.has_batch_queues,
            self._report,
        )
        self._flusher = LogFlusher(self._log, workers, clock, self._settings)
        self._cold = cold = BoundedWorkers(workers, _COLD_READS)
        self._damaged = DamagedRecords(self._report)
        self._read_ahead = read_ahead = ReadAhead(self._log, cold, options, clock.monotonic)
        blocks = LogBlocks(self._log, options.block_cache_bytes)
        needle_hits = NeedleHits(self._log, blocks)
        scan = MessageScan(self._log, blocks, needle_hits)
        queue_repair = QueueRepair(self._log, self._dropped, options.delay_levels_ms)
        entry_repairer = EntryRepairer(queue_repair, cold, clock, self._publisher, self._report)
        self._reader = QueueReader(self._log, cold, options, read_ahead, self._damaged, blocks, scan, entry_repairer)
        self._batch_reader = BatchReader(self._log, cold, options, self._damaged, entry_repairer)
        index_files = IndexFiles(files, workers, clock, self._root / INDEX, options.index_layout, self._report)
        self._index = IndexBuilder(
            index_files,
            self._log,
            workers,
            clock,
            self._report,
            lambda: self._checkpointer.request(),
            options.index_enabled,
        )
        self._index_reader = IndexReader(self._log, cold, self._index, options.most_found)
        self._checkpointer = Checkpointer(
            world, options, self._log, self._queues, self._publisher, self._flusher, self._index, self._report
        )
        self._truncation = Truncation(
            files,
            workers,
            clock,
            self._log,
            self._queues,
            self._dropped,
            self._publisher,
            self._flusher,
            self._index,
            self._checkpointer,
            (blocks, needle_hits, read_ahead),
            options.delay_levels_ms,
        )
        self._wire_retention()

    def _wire_retention(self) -> None:
        world, settings, report = self._context.world, self._settings, self._report
        log, queues = self._log, self._queues
        root, log_folder, index = self._root, self._options.log_folder, self._index.files
        self._watch = DiskWatch(world, settings, root, log_folder, log, queues, self._writes, index.taken_bytes, report)
        queue_cleaner = QueueCleaner(world, log, queues, self._dropper, self._context.reserve_ms)
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
            self.floor,
            report,
        )

    def _durable_offset(self) -> int:
        return min(self._flusher.flushed_offset, self._publisher.published_offset)

    def _max_body_bytes(self) -> int:
        if self._max_body[0] != self._settings.revision:
            known = "maxMessageSize" in self._settings.schema  # declared by the broker
            bytes_ = self._settings.number("maxMessageSize") if known else _MAX_BODY_BYTES
            self._max_body = (self._settings.revision, bytes_)
        return self._max_body[1]
