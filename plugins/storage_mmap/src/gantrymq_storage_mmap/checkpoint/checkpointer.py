"""Moving the checkpoint: everything that is visible now gets durable, then the two files say so.

Nobody waits for queue entries and index entries, as they can be made from the log. Every minute, or sooner when much of
the log came, or much waits in memory:

    log         its flush has passed what is visible
    rows        their tails are written, some rows in each turn of the event loop
    index       its slots and header are written, in a thread
    sync        the files that were written, through the descriptors that wrote them; where there are many, the file
                system as a whole (``syncfs``), in the same thread
    save        checkpoint.json, then RocketMQ's checkpoint
    let go      tails forget what is durable

A write that fails leaves the checkpoint where it is; it is tried again. So does a sync that fails, and nothing that was
written since the last good one is believed then: rows write their tails again, the index is made again from the log.

Source of the interval, and of the times: apache/rocketmq store/.../DefaultMessageStore.java
(FlushConsumeQueueService), StoreCheckpoint.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

from gantrymq.errors import GantryError, StoreError
from gantrymq.formats.store_folders import INDEX
from gantrymq.world import File, Files, Timer, Volume, World
from gantrymq.world.time_slices import TimeSlices
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint, SavedQueues, write_point
from gantrymq_storage_mmap.index.builder import IndexBuilder
from gantrymq_storage_mmap.index.mark import IndexMark
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.flush import LogFlusher
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queues.file_row import FileRow
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.queues.tails import MOST_KEPT_BYTES
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint
from gantrymq_store_files.queue_entry import ENTRY_BYTES

__all__ = ["Checkpointer"]

TURN_ROWS: Final = 64  # written without a pause: 1 ms, or 3 ms when each file has to be opened
TURN_ENDS: Final = 4000  # looked at without a pause
LOG_BYTES: Final = 256 * 1024**2  # of log behind the checkpoint that hasten the next: recovery has to read them
FIRST_S: Final = 10.0  # from a start after a crash, or without a checkpoint, to the first
LEAST_S: Final = 10.0  # between two checkpoints, however much the log grows

_Ends = tuple[int, SavedQueues, SavedQueues, SavedQueues]  # where the log begins; queues, batch queues, ext rows


class _Work(NamedTuple):
    """What a sync has to do."""

    files: list[File]  # that were written
    folders: list[Path]  # with new names
    rows: list[FileRow]  # all that were written, where there are `many`
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
        tell: Callable[[str], object],
    ) -> None:
        """Nothing runs before `start`. *tell* gets one sentence for a checkpoint that failed."""
        self.durable_offset = 0  # every record before it is durable, and so are its entries
        self.checkpoint = Checkpoint()  # as the file says
        self._files, self._workers, self._clock = world.files, world.workers, world.clock
        self._options = options
        self._log = log
        self._queues = queues
        self._publisher = publisher
        self._flusher = flusher
        self._index = index
        self._tell = tell
        self._newest = (-1, 0, 0)  # of the last checkpoint, as `SavedPoint.newest`
        self._index_note: dict[str, Any] = {}
        self._log_min = -1
        self._volumes: list[Volume] = []
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._one = asyncio.Lock()  # held while the files are made and written
        self._wanted = False  # begin as soon as the one that is under way has ended
        self._begun_at = 0.0
        self._problem = ""

    def watch(self) -> None:
        """Begin to watch the file systems of the store's folders, each may be mounted by itself. Raises OSError."""
        root = self._options.root
        for folder in (root, *(table.folder for table in self._queues.file_tables), root / INDEX):
            if self._files.stat(folder) is not None and (volume := self._files.watch(folder)) is not None:
                self._volumes.append(volume)

    # --- when -------------------------------------------------------------------------------------------------------

    def start(self, durable_offset: int, checkpoint: Checkpoint, saved: SavedPoint | None, *, clean: bool) -> None:
        """Begin: *durable_offset* is what recovery went by, *checkpoint* and *saved* what the files say.

        After a stop that was not *clean* files and names of a killed process may be in the page cache only: the first
        checkpoint is over everything.
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
            # Soon, as the next start would have as much to do; not now, as this one has.
            self._begun_at -= max(0.0, self._options.queue_flush_thorough_ms / 1000 - FIRST_S)

    def hasten(self) -> None:
        """Take one as soon as that can be: somebody waits for `durable_offset`."""
        if self._timer is not None:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._run())
            else:
                self._wanted = True

    def halt(self) -> None:
        """Begin nothing more."""
        self._wanted = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """`halt`, and give the descriptors back."""
        self.halt()
        for volume in self._volumes:
            volume.close()
        self._volumes = []

    async def stop(self) -> None:
        """`halt`, wait, and take the last one.

        Raises:
            OSError: the disk failed.
            StoreError: a queue cannot be written.
        """
        self.halt()
        if self._task is not None:
            await self._task
        async with self._one:
            await self._take()
        refusal = self._queues.tails.refusal
        if refusal is not None:
            raise StoreError(refusal)

    def _arm(self) -> None:
        self._timer = self._clock.call_later(1.0, self._tick)

    def _tick(self) -> None:
        self._arm()
        since = self._clock.monotonic() - self._begun_at
        much = (
            self._publisher.published_offset - self.durable_offset > LOG_BYTES
            or self._queues.tails.kept_bytes > MOST_KEPT_BYTES
        )
        if since >= self._options.queue_flush_thorough_ms / 1000 or (much and since >= LEAST_S):
            self.hasten()

    async def _run(self) -> None:
        try:
            async with self._one:
                await self._take(idle=True)
            self._problem = ""
        except (GantryError, OSError) as error:
            if self._problem != str(error):
                self._problem = str(error)
                self._tell(
                    f"queues and index could not be made durable, it is tried again; a crash would have them made from "
                    f"the log, {self._publisher.published_offset - self.durable_offset} bytes of it: {error}"
                )
        finally:
            self._task = None
            if self._wanted:
                self._wanted = False
                self.hasten()

    # --- one checkpoint ---------------------------------------------------------------------------------------------

    async def _take(self, *, idle: bool = False) -> None:
        """Take one; *idle*: not when nothing came since the last.

        Raises:
            OSError: the disk failed.
            StoreError: the log cannot be made durable, or a row cannot be written.
        """
        self._begun_at = self._clock.monotonic()
        publisher, tails = self._publisher, self._queues.tails
        if tails.misplaced is not None:  # its entry is in no queue; the next start has to read its record again
            raise StoreError(tails.misplaced)
        offset, timestamp = publisher.published_offset, publisher.published_timestamp
        newest = (*publisher.newest, timestamp)
        marks = {row: row.end for row in tails.unsynced}
        await self._clock.sleep(0)  # 40,000 rows were a step by themselves
        await self._flusher.flushed(offset)
        log_timestamp = self._flusher.flushed_timestamp
        await self._write(marks)
        if idle and not (marks or self._index.held.changed or self._changed(offset)):
            return
        ends = await self._ends(lambda row: marks.get(row, row.kept_from))
        index = await self._index.mark()
        checkpoint = self.checkpoint._replace(
            log_timestamp=max(log_timestamp, self.checkpoint.log_timestamp),
            queue_timestamp=max(timestamp, self.checkpoint.queue_timestamp),
            index_timestamp=max(index.full_timestamp, self.checkpoint.index_timestamp),
        )
        point = self._point(offset, newest, checkpoint, index.note, ends)
        await self._sync(index)
        await self._workers.run(self._save, point, checkpoint)
        self.durable_offset, self.checkpoint = offset, checkpoint
        self._newest, self._index_note, self._log_min = newest, index.note, point.log_min
        slices = TimeSlices(self._clock, TURN_ENDS)
        for row, end in marks.items():
            tails.synced(row, end)
            await slices.item_done()

    def _changed(self, offset: int) -> bool:
        """Whether there is anything else: records in no queue, files of a killed process, a log that begins later."""
        many = any(table.many for table in self._queues.file_tables)
        return many or offset != self.durable_offset or self._log.min_offset != self._log_min

    async def _write(self, rows: Collection[FileRow]) -> None:
        failed, slices = False, TimeSlices(self._clock, TURN_ROWS)
        for row in rows:
            if row.unwritten and not row.dropped:
                failed = not self._queues.tails.write(row) or failed
            await slices.item_done()
        if failed:
            raise StoreError(self._queues.tails.refusal or "a queue cannot be written")

    async def _sync(self, index: IndexMark) -> None:
        """Make everything durable that was written; when that fails, what was written counts for nothing."""
        work, failed = self._work(), True
        try:
            await self._workers.run(self._make_durable, work, index)
            failed = False
        finally:
            for table in self._queues.file_tables:
                table.end_sync(failed=failed)
            if failed:
                self._queues.tails.rewrite()
                self._index.checkpoint_failed(index)
        self._index.checkpointed(index)

    def _work(self) -> _Work:
        """What has to be synced of all that was written."""
        tables = self._queues.file_tables
        many = any(table.many for table in tables)
        taken = [table.begin_sync() for table in tables]
        return _Work(
            [file for files, _ in taken for file in files],
            list(dict.fromkeys(folder for _, folders in taken for folder in folders)),
            list(self._queues.tails.unsynced) if many else [],
            many,
        )

    def _make_durable(self, work: _Work, index: IndexMark | None) -> None:
        """Runs in a thread."""
        if work.many and self._volumes:
            for volume in self._volumes:
                volume.sync()
            return
        for file in (*work.files, *(index.files if index is not None else ())):
            file.datasync()
        for row in work.rows:  # a platform without syncfs: files that were closed are opened anew
            _sync_row(self._files, row)
        inherited = (folder for row in work.rows for folder in (row.files.folder, row.folder.parent, row.folder))
        for folder in (*work.folders, *inherited, *(index.folders if index is not None else ())):
            if self._files.stat(folder) is not None:
                self._files.sync_dir(folder)

    def make_durable_now(self) -> None:
        """For recovery, in its thread: write and sync what waits in tails, which has become much.

        Raises:
            OSError: the disk failed.
            StoreError: a row cannot be written.
        """
        tails = self._queues.tails
        if not tails.write_all():
            raise StoreError(tails.refusal or "a queue cannot be written")
        rows = list(tails.unsynced)
        self._make_durable(self._work(), None)
        for table in self._queues.file_tables:
            table.end_sync(failed=False)
        for row in rows:
            tails.synced(row, row.end)

    def _save(self, point: SavedPoint, checkpoint: Checkpoint) -> None:
        """Runs in a thread."""
        write_point(self._files, self._options.root, point)
        self._files.replace(self._options.root / "checkpoint", encode_checkpoint(checkpoint))

    # --- what is saved ----------------------------------------------------------------------------------------------

    async def save_numbers(self) -> bool:
        """Save how far every queue went by now, durable or not, before records go that have not got their entries.

        Only so does a queue go on behind its last number after a crash. False when there is no room for that.
        """
        async with self._one:
            ends = await self._ends(lambda row: row.end)
            point = self._point(self.durable_offset, self._newest, self.checkpoint, self._index_note, ends)
            try:
                await self._workers.run(write_point, self._files, self._options.root, point)
            except OSError:
                return False
        return True

    async def _ends(self, end_of: Callable[[FileRow], int]) -> _Ends:
        """How far every queue, batch queue and ext row goes; *end_of* gives the position.

        Retention may move minima meanwhile: then the log begins later than is noted here, and a start looks for them.
        """
        log_min = self._log.min_offset
        queues: SavedQueues = {}
        batch_queues: SavedQueues = {}
        ext: SavedQueues = {}
        slices = TimeSlices(self._clock, TURN_ENDS)
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
        log_min, *queues = ends
        times = (checkpoint.log_timestamp, checkpoint.queue_timestamp)
        return SavedPoint(offset, newest, log_min, *times, self._queues.file_bytes, index_note, *queues)


def _sync_row(files: Files, row: FileRow) -> None:
    """Make the files durable that hold what *row* keeps in its tail. Runs in a thread."""
    file_bytes = row.files.file_bytes
    first = row.kept_from
    for start in range(first - first % file_bytes, row.written, file_bytes):
        try:
            file = files.open(row.path(start))
        except FileNotFoundError:
            continue
        try:
            file.datasync()
        finally:
            file.close()
