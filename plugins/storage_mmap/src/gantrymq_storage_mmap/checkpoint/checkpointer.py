"""Takes checkpoints: makes everything visible durable, then records that in the two checkpoint files.

Sends do not wait for queue and index entries to become durable, because these can be rebuilt from the log. A checkpoint
is taken every minute, or earlier if the log grows fast or many entries wait in memory:

    log         its flush must pass the published offset
    entries     tails are written, some files per turn of the event loop
    index       slots and header are written, in a thread
    sync        the written files, through the descriptors that wrote them; if there are many, the whole file system
    (``syncfs``), in the same thread
    save        checkpoint.json, then RocketMQ's checkpoint
    release     tails drop the entries that are durable

If a write fails, the checkpoint stays where it is and the write is repeated. If a sync fails, nothing written since the
last successful sync is trusted: tails are written again, and the index is rebuilt from the log.

Source of the interval and of the times: apache/rocketmq store/.../DefaultMessageStore.java (FlushConsumeQueueService),
StoreCheckpoint.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

from gantrymq.errors import GantryError, StoreError
from gantrymq.plugin.formats import INDEX
from gantrymq.plugin.world import File, Files, Timer, TimeSlices, Volume, World
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint, SavedQueues, write_point
from gantrymq_storage_mmap.index.builder import IndexBuilder
from gantrymq_storage_mmap.index.checkpoint import IndexCheckpoint
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.flush import LogFlusher
from gantrymq_storage_mmap.queues.pending_entries import MOST_KEPT_BYTES
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint
from gantrymq_store_files.queue_entry import ENTRY_BYTES

TURN_FILES: Final = 64  # written without a pause: 1 ms, or 3 ms when each file has to be opened
_TURN_ENDS: Final = 4000  # queue ends collected without a pause
LOG_BYTES: Final = 256 * 1024**2  # of log since the last checkpoint that trigger the next: recovery has to read them
_FIRST_S: Final = 10.0  # until the first checkpoint after a crash or without a checkpoint
_LEAST_S: Final = 10.0  # minimum between two checkpoints, however fast the log grows

_Ends = tuple[int, SavedQueues, SavedQueues, SavedQueues]  # start of the log; ends of queues, batch queues, ext files


class _Work(NamedTuple):
    """What a sync has to do."""

    files: list[File]  # files that were written
    folders: list[Path]  # folders with new names
    segmented_files: list[SegmentedFile]  # all that were written, if `many`
    many: bool  # more files were written than `files` holds


class Checkpointer:
    """Takes checkpoints. All methods belong to the event loop."""

    def __init__(
        self,
        world: World,
        options: Options,
        log: CommitLog,
        queues: QueueTable,
        publisher: Publisher,
        flusher: LogFlusher,
        index: IndexBuilder,
        report: Callable[[str], object],
    ) -> None:
        """Nothing runs before `start`. *report* is called with one sentence when a checkpoint fails."""
        self.durable_offset = 0  # every record before it is durable, including its entries
        self.log_end: int | None = None  # offset at which the log is being truncated
        self.checkpoint = Checkpoint()  # content of RocketMQ's checkpoint file
        self._files, self._workers, self._clock = world.files, world.workers, world.clock
        self._options = options
        self._log = log
        self._queues = queues
        self._publisher = publisher
        self._flusher = flusher
        self._index = index
        self._report = report
        self._newest = (-1, 0, 0)  # of the last checkpoint, see `SavedPoint.newest`
        self._index_note: dict[str, Any] = {}
        self._log_min = -1
        self._volumes: list[Volume] = []
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()  # held while the checkpoint files are prepared and written
        self._requested = False  # start another checkpoint when the current one has ended
        self._begun_at = 0.0
        self._problem = ""

    def watch(self) -> None:
        """Open the file systems of the store's folders for ``syncfs``; each may be a mount. Raises OSError."""
        root = self._options.root
        for folder in (root, *(table.folder for table in self._queues.file_tables), root / INDEX):
            if self._files.stat(folder) is not None and (volume := self._files.watch(folder)) is not None:
                self._volumes.append(volume)

    # --- when -------------------------------------------------------------------------------------------------------

    def start(self, durable_offset: int, checkpoint: Checkpoint, saved: SavedPoint | None, *, clean: bool) -> None:
        """Start taking checkpoints.

        After a stop that was not *clean*, files and names of the killed process may exist in the page cache only, so
        the first checkpoint syncs the whole file system.

        Args:
            durable_offset: log offset up to which queue entries were durable before recovery.
            checkpoint: content of RocketMQ's checkpoint file.
            saved: content of our checkpoint file, None if not usable.
            clean: whether the last stop was a normal one.
        """
        self.durable_offset, self.checkpoint = durable_offset, checkpoint
        if saved is not None:
            self._newest, self._index_note, self._log_min = saved.newest, saved.index, saved.log_min
        self._begun_at = self._clock.monotonic()
        self._arm()
        if not clean:
            for table in self._queues.file_tables:
                table.many = True
        published = self._publisher.published_offset
        if not clean or durable_offset < published or (saved is None and published):
            # Soon, because the next start would have as much to recover; not now, because this start is still busy.
            self._begun_at -= max(0.0, self._options.queue_flush_thorough_ms / 1000 - _FIRST_S)

    def request(self) -> None:
        """Take a checkpoint as soon as possible: a caller waits for `durable_offset`."""
        if self._timer is not None:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._run())
            else:
                self._requested = True

    def halt(self) -> None:
        """Start no further checkpoint."""
        self._requested = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """`halt`, and close the descriptors."""
        self.halt()
        for volume in self._volumes:
            volume.close()
        self._volumes = []

    async def stop(self) -> None:
        """`halt`, wait for the current checkpoint, and take the last one.

        Raises:
            OSError: the disk failed.
            StoreError: a queue cannot be written.
        """
        self.halt()
        if self._task is not None:
            await self._task
        async with self.lock:
            await self.take()
        refusal = self._queues.pending.refusal
        if refusal is not None:
            raise StoreError(refusal)

    def _arm(self) -> None:
        self._timer = self._clock.call_later(1.0, self._tick)

    def _tick(self) -> None:
        self._arm()
        since = self._clock.monotonic() - self._begun_at
        much = (
            self._publisher.published_offset - self.durable_offset > LOG_BYTES
            or self._queues.pending.kept_bytes > MOST_KEPT_BYTES
        )
        if since >= self._options.queue_flush_thorough_ms / 1000 or (much and since >= _LEAST_S):
            self.request()

    async def _run(self) -> None:
        try:
            async with self.lock:
                await self.take(idle=True)
            self._problem = ""
        except (GantryError, OSError) as error:
            if self._problem != str(error):
                self._problem = str(error)
                self._report(
                    f"queues and index could not be made durable, retrying; after a crash they would be rebuilt from "
                    f"{self._publisher.published_offset - self.durable_offset} bytes of the log: {error}"
                )
        finally:
            self._task = None
            if self._requested:
                self._requested = False
                self.request()

    # --- one checkpoint ---------------------------------------------------------------------------------------------

    async def write_pending(self) -> None:
        """Write the pending entries of all queues. Raises StoreError."""
        await self._write(list(self._queues.pending.unsynced))

    async def take(self, *, idle: bool = False) -> None:
        """Take a checkpoint, while `lock` is held; if *idle*, only if something changed since the last one.

        Raises:
            OSError: the disk failed.
            StoreError: the log cannot be made durable, or a queue cannot be written.
        """
        self._begun_at = self._clock.monotonic()
        publisher, pending = self._publisher, self._queues.pending
        if pending.misplaced is not None:  # an entry is in no queue, so the next start must read its record again
            raise StoreError(pending.misplaced)
        # Taken together, before anything is awaited: entries that arrive meanwhile belong to the next checkpoint.
        offset, timestamp = publisher.published_offset, publisher.published_timestamp
        newest = (*publisher.newest, timestamp)
        marks = {segments: segments.end for segments in pending.unsynced}
        await self._clock.sleep(0)  # collecting 40,000 files is a full step of the event loop
        # The log first: after a crash no durable entry may refer to a record that was lost.
        await self._flusher.flushed(offset)
        log_timestamp = self._flusher.flushed_timestamp
        await self._write(marks)
        if idle and not (marks or self._index.files.changed or self._changed(offset)):
            return
        ends = await self._ends(lambda segments: marks.get(segments, segments.tail_start))
        index = await self._index.mark()
        checkpoint = self.checkpoint._replace(
            log_timestamp=max(log_timestamp, self.checkpoint.log_timestamp),
            queue_timestamp=max(timestamp, self.checkpoint.queue_timestamp),
            index_timestamp=max(index.full_timestamp, self.checkpoint.index_timestamp),
        )
        point = self._point(offset, newest, checkpoint, index.note, ends)
        await self._sync(index)
        # Saved after the sync, because the next start takes entries before the saved offset for durable.
        await self._workers.run(self._save, point, checkpoint)
        self.durable_offset, self.checkpoint = offset, checkpoint
        self._newest, self._index_note, self._log_min = newest, index.note, point.log_min
        slices = TimeSlices(self._clock, _TURN_ENDS)
        for segments, end in marks.items():
            pending.synced(segments, end)
            await slices.item_done()

    def _changed(self, offset: int) -> bool:
        """Return whether anything else changed: records in no queue, files of a killed process, the log's start."""
        many = any(table.many for table in self._queues.file_tables)
        return many or offset != self.durable_offset or self._log.min_offset != self._log_min

    async def _write(self, segmented_files: Collection[SegmentedFile]) -> None:
        failed, slices = False, TimeSlices(self._clock, TURN_FILES)
        for segments in segmented_files:
            if segments.unwritten and not segments.dropped:
                failed = not self._queues.pending.write(segments) or failed
            await slices.item_done()
        if failed:
            raise StoreError(self._queues.pending.refusal or "a queue cannot be written")

    async def _sync(self, index: IndexCheckpoint) -> None:
        """Sync everything that was written; if that fails, schedule it to be written again."""
        work, failed = self._work(), True
        try:
            await self._workers.run(self._make_durable, work, index)
            failed = False
        finally:
            for table in self._queues.file_tables:
                table.end_sync(failed=failed)
            if failed:
                # After a failed sync Linux marks the pages clean, so a second sync alone would succeed without them.
                self._queues.pending.rewrite()
                self._index.checkpoint_failed(index)
        self._index.checkpointed(index)

    def _work(self) -> _Work:
        """Return what has to be synced."""
        tables = self._queues.file_tables
        many = any(table.many for table in tables)
        taken = [table.begin_sync() for table in tables]
        return _Work(
            [file for files, _ in taken for file in files],
            list(dict.fromkeys(folder for _, folders in taken for folder in folders)),
            list(self._queues.pending.unsynced) if many else [],
            many,
        )

    def _make_durable(self, work: _Work, index: IndexCheckpoint | None) -> None:
        """Runs in a thread."""
        # syncfs also covers names, and files that this process has closed or never opened.
        if work.many and self._volumes:
            for volume in self._volumes:
                volume.sync()
            return
        for file in (*work.files, *(index.files if index is not None else ())):
            file.datasync()
        for segments in work.segmented_files:  # without syncfs: closed files are reopened and synced
            _sync_segments(self._files, segments)
        inherited = (
            folder
            for segments in work.segmented_files
            for folder in (segments.files.folder, segments.folder.parent, segments.folder)
        )
        for folder in (*work.folders, *inherited, *(index.folders if index is not None else ())):
            # The folder of a topic that was deleted meanwhile was moved away.
            if self._files.stat(folder) is not None:
                self._files.sync_dir(folder)

    def make_durable_now(self) -> None:
        """Write and sync the pending entries during recovery, when there are too many. Runs in recovery's thread.

        Raises:
            OSError: the disk failed.
            StoreError: a queue cannot be written.
        """
        pending = self._queues.pending
        if not pending.write_all():
            raise StoreError(pending.refusal or "a queue cannot be written")
        segmented_files = list(pending.unsynced)
        self._make_durable(self._work(), None)
        for table in self._queues.file_tables:
            table.end_sync(failed=False)
        for segments in segmented_files:
            pending.synced(segments, segments.end)

    def _save(self, point: SavedPoint, checkpoint: Checkpoint) -> None:
        """Runs in a thread."""
        write_point(self._files, self._options.root, point)
        self._files.replace(self._options.root / "checkpoint", encode_checkpoint(checkpoint))

    # --- what is saved ----------------------------------------------------------------------------------------------

    async def save_queue_ends(self) -> bool:
        """Save the present ends of all queues, durable or not, before records without durable entries are deleted.

        Otherwise a queue could reuse queue offsets after a crash. Return False if the disk is full.
        """
        async with self.lock:
            ends = await self._ends(lambda segments: segments.end)
            point = self._point(self.durable_offset, self._newest, self.checkpoint, self._index_note, ends)
            try:
                await self._workers.run(write_point, self._files, self._options.root, point)
            except OSError:
                return False
        return True

    async def _ends(self, end_of: Callable[[SegmentedFile], int]) -> _Ends:
        """Return the ends of every queue, batch queue and ext file; *end_of* gives the position.

        Retention may move minima meanwhile: then the log begins later than noted here, and the next start searches for
        them.
        """
        log_min = self._log.min_offset
        queues: SavedQueues = {}
        batch_queues: SavedQueues = {}
        ext: SavedQueues = {}
        slices = TimeSlices(self._clock, _TURN_ENDS)
        for queue in list(self._queues.by_name.values()):
            if not queue.dropped and (end := end_of(queue)):
                ids = queues.setdefault(queue.topic, {})
                ids[str(queue.queue_id)] = (min(queue.min_offset, end // ENTRY_BYTES), end // ENTRY_BYTES)
                if queue.ext is not None:
                    ext.setdefault(queue.topic, {})[str(queue.queue_id)] = end_of(queue.ext)
            await slices.item_done()
        for batch in self._queues.batch.values():
            if end := end_of(batch):
                batch_queues.setdefault(batch.topic, {})[str(batch.queue_id)] = (batch.first, end // BATCH_ENTRY_BYTES)
        return log_min, queues, batch_queues, ext

    def _point(
        self,
        offset: int,
        newest: tuple[int, int, int],
        checkpoint: Checkpoint,
        index_note: dict[str, Any],
        ends: _Ends,
    ) -> SavedPoint:
        log_min, queues, batch_queues, ext = ends
        times = (checkpoint.log_timestamp, checkpoint.queue_timestamp)
        files = self._queues.file_bytes
        return SavedPoint(offset, newest, log_min, *times, files, index_note, queues, batch_queues, ext, self.log_end)


def _sync_segments(files: Files, segments: SegmentedFile) -> None:
    """Sync the files that hold the tail of *segments*. Runs in a thread."""
    file_bytes = segments.files.file_bytes
    first = segments.tail_start
    for start in range(first - first % file_bytes, segments.written, file_bytes):
        try:
            file = files.open(segments.path(start))
        except FileNotFoundError:
            continue
        try:
            file.datasync()
        finally:
            file.close()
