"""Writing queues, making them durable, and the checkpoint that says how far they are.

Queue entries can be rebuilt from the log, so nobody waits for them. Every second (a tick) the entries that came
`AGE_TICKS` ago or earlier are written, a few queues at a time lest ten thousand of them hold up the event loop; the
queues with enough dirty pages are then synced in a thread. Every minute all that came until then are written and all
dirty queues synced, and then the checkpoint moves: recovery after a crash reads the log from there.

Source: apache/rocketmq store/.../DefaultMessageStore.java (FlushConsumeQueueService), StoreCheckpoint.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import StoreError
from gantrymq.formats.checkpoint import Checkpoint, encode_checkpoint
from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.world import Clock, Files, Timer, Workers
from gantrymq_storage_mmap.index.mark import IndexMark
from gantrymq_storage_mmap.index.writer import IndexWriter
from gantrymq_storage_mmap.log.file import file_name
from gantrymq_storage_mmap.log.flush import PAGE_BYTES, LogFlusher
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.extras import Extras, Unsynced
from gantrymq_storage_mmap.queues.index_checkpoint import save_note, sync_mark
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.queues.table import QueueTable

__all__ = ["QueueFlusher"]

AGE_TICKS: Final = 5  # an entry is in its file some 5 s after it became visible
SLICE_QUEUES: Final = 64  # written without a pause: 1 ms, or 3 ms when each file has to be opened
PAUSE_S: Final = 0.01  # between slices

Work = tuple[Path, list[int]]  # a queue's folder, and the positions of its files


class QueueFlusher:
    """The background flush of queues and checkpoint. All methods belong to the event loop."""

    def __init__(
        self,
        queues: QueueTable,
        publisher: Publisher,
        extras: Extras,
        log_flusher: LogFlusher,
        world: tuple[Files, Workers, Clock],
        options: Options,
        log: Callable[[str], object],
    ) -> None:
        """Nothing runs before `start`. *log* is told, in one sentence, of a flush that failed."""
        self.checkpoint = Checkpoint()
        self.index: IndexWriter | None = None  # given once it is there: it asks for checkpoints
        self._note: dict[str, Any] | None = None  # the index's, of the last checkpoint
        self._saved_note: dict[str, Any] | None = None
        self._queues = queues
        self._publisher = publisher
        self._extras = extras
        self._log_flusher = log_flusher
        self._files, self._workers, self._clock = world
        self._options = options
        self._log = log
        self._timer: Timer | None = None
        self._slice_timer: Timer | None = None  # set while queues are being written slice by slice
        self._due = -1  # ticks up to this one are to be written
        self._thorough: int | None = None  # of a thorough flush that waits for the writes: published up to here, ms
        self._thorough_offset = 0  # and the log offset behind that
        self.durable_offset = 0  # the entries of every record before this log offset are durable
        self._thorough_at = 0.0
        self._busy = False
        self._saved = Checkpoint()

    def start(self, checkpoint: Checkpoint) -> None:
        """Begin the background flush; *checkpoint* is what the file says."""
        self.checkpoint = self._saved = checkpoint
        self.durable_offset = self._publisher.published_offset
        self._thorough_at = self._clock.monotonic()
        self._arm()

    async def stop(self) -> None:
        """Make every queue durable and write the checkpoint.

        Raises:
            OSError: that failed.
            StoreError: a queue cannot be written.
        """
        self.halt()
        while self._busy:
            await self._clock.sleep(0.001)
        tails, timestamp = self._queues.tails, self._publisher.published_timestamp
        tails.write_all()
        if tails.refusal is not None:
            raise StoreError(tails.refusal)
        work, folders = self._collect(self._queues.dirty())
        _, extra_work, extra_folders = self._extras.take_dirty()
        work, folders = work + extra_work, folders | extra_folders
        mark = self.index.begin_checkpoint() if self.index is not None else None
        await self._workers.run(_sync_all, self._files, work, folders, mark)
        self._index_done(mark)
        self._move_checkpoint(timestamp)
        await self._workers.run(self._save, self.checkpoint)

    def halt(self) -> None:
        """End the background flush and leave everything else as it is."""
        for timer in (self._timer, self._slice_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._slice_timer = None

    def _tick(self) -> None:
        self._extras.retry()
        tick = self._queues.tails.tick()
        now = self._clock.monotonic()
        if self._thorough is None and now - self._thorough_at >= self._options.queue_flush_thorough_ms / 1000:
            self._begin_thorough(tick)
        self._due = max(self._due, tick - AGE_TICKS)
        if self._slice_timer is None:
            self._write_slice()
        self._arm()

    def hasten(self) -> None:
        """Begin a thorough flush now, unless one is under way: somebody waits for `durable_offset`."""
        if self._timer is not None and self._thorough is None and not self._busy:
            self._begin_thorough(self._queues.tails.tick())
            if self._slice_timer is None:
                self._write_slice()

    def _begin_thorough(self, tick: int) -> None:
        """Everything that is visible now, and came in *tick* or before, gets durable."""
        self._thorough_at = self._clock.monotonic()
        self._thorough = self._publisher.published_timestamp
        self._thorough_offset = self._publisher.published_offset
        self._due = tick

    def _write_slice(self) -> None:
        """Write some of the queues that are due; after the last of them, sync."""
        self._slice_timer = None
        tails = self._queues.tails
        tails.write_due(self._due, SLICE_QUEUES)
        written = not tails.due(self._due)
        if not written and tails.refusal is None:
            self._slice_timer = self._clock.call_later(PAUSE_S, self._write_slice)
        elif not self._busy:
            self._sync(thorough=self._thorough if written else None)

    def _sync(self, thorough: int | None) -> None:
        """Sync the queues with enough dirty pages, or all with *thorough*, what the checkpoint may say afterwards."""
        dirty = self._queues.dirty()
        if thorough is None:
            least = self._options.queue_flush_least_pages * PAGE_BYTES
            dirty = [q for q in dirty if (q.written_offset - q.dirty_from) * ENTRY_BYTES >= least]
        else:
            self._thorough = None
        if dirty or thorough is not None:
            self._flush(dirty, thorough)

    def _flush(self, dirty: list[ConsumeQueue], thorough: int | None) -> None:
        starts, offset = [queue.dirty_from for queue in dirty], self._thorough_offset
        work, folders = self._collect(dirty)
        unsynced: Unsynced = []
        mark = None
        if thorough is not None:
            mark = self.index.begin_checkpoint() if self.index is not None else None
            unsynced, extra_work, extra_folders = self._extras.take_dirty()
            work, folders = work + extra_work, folders | extra_folders
        self._busy = True

        def done(_: None, error: BaseException | None) -> None:
            self._busy = False
            if error is not None:
                for queue, start in zip(dirty, starts, strict=True):
                    if not queue.dropped:
                        queue.dirty_from = start if queue.dirty_from < 0 else min(start, queue.dirty_from)
                self._queues.queue_files.new_folders = {**folders, **self._queues.queue_files.new_folders}
                self._extras.give_dirty(unsynced)
                if self.index is not None and mark is not None:
                    self.index.checkpoint_failed(mark)
                self._log(f"the consume queues could not be made durable, a crash would have them rebuilt: {error}")
            elif thorough is not None:
                self.durable_offset = offset
                self._index_done(mark)
                self._move_checkpoint(thorough)
                if self.checkpoint != self._saved or self._note != self._saved_note:
                    self._busy = True
                    self._workers.submit(self._save, self.checkpoint, done=self._saved_or_not)

        self._workers.submit(_sync_all, self._files, work, folders, mark, done=done)

    def _index_done(self, mark: IndexMark | None) -> None:
        """*mark* is durable."""
        if self.index is None or mark is None:
            return
        self.index.checkpointed(mark)
        self._note = mark.note
        self.checkpoint = self.checkpoint._replace(
            index_timestamp=max(mark.full_timestamp, self.checkpoint.index_timestamp)
        )

    def _collect(self, dirty: list[ConsumeQueue]) -> tuple[list[Work], dict[Path, None]]:
        """Files to sync, and folders with new names; the queues count as clean from now on."""
        work = [(queue.folder, queue.file_starts(queue.dirty_from, queue.written_offset)) for queue in dirty]
        for queue in dirty:
            queue.dirty_from = -1
        folders = self._queues.queue_files.new_folders
        self._queues.queue_files.new_folders = {}
        return work, folders

    def _move_checkpoint(self, timestamp: int) -> None:
        self.checkpoint = self.checkpoint._replace(
            log_timestamp=max(self._log_flusher.flushed_timestamp, self.checkpoint.log_timestamp),
            queue_timestamp=max(timestamp, self.checkpoint.queue_timestamp),
        )

    def _save(self, checkpoint: Checkpoint) -> None:
        note = self._note
        self._files.replace(self._options.root / "checkpoint", encode_checkpoint(checkpoint))
        if note is not None:
            save_note(self._files, self._options.root, checkpoint, note)
        self._saved, self._saved_note = checkpoint, note

    def _saved_or_not(self, _: None, error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            self._log(f"the checkpoint could not be written, a crash would take longer to recover from: {error}")

    def _arm(self) -> None:
        self._timer = self._clock.call_later(self._options.queue_flush_interval_ms / 1000, self._tick)


def _sync_all(files: Files, work: Iterable[Work], folders: Iterable[Path], mark: IndexMark | None) -> None:
    """Make queues and index durable. Runs in a thread."""
    _sync_queues(files, work, folders)
    if mark is not None:
        sync_mark(files, mark)


def _sync_queues(files: Files, work: Iterable[Work], folders: Iterable[Path]) -> None:
    """Make queue files, and the names in *folders*, durable. Runs in a thread; skips what was dropped."""
    for folder, starts in work:
        for start in starts:
            try:
                file = files.open(folder / file_name(start))
            except FileNotFoundError:
                continue
            try:
                file.datasync()
            finally:
                file.close()
    for folder in folders:
        if files.stat(folder) is not None:
            files.sync_dir(folder)
