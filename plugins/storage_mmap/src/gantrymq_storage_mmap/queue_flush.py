"""Making queues durable, and the checkpoint that says how far they are.

Queue entries can be rebuilt from the log, so nobody waits for them. Every second the queues with enough dirty pages are
synced in a thread; every minute all dirty ones are, and then the checkpoint moves: recovery after a crash reads the log
from there.

Source: apache/rocketmq store/.../DefaultMessageStore.java (FlushConsumeQueueService), StoreCheckpoint.java.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gantrymq.formats.checkpoint import Checkpoint, encode_checkpoint
from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.world import Clock, Files, Timer, Workers
from gantrymq_storage_mmap.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.flush import PAGE_BYTES, LogFlusher
from gantrymq_storage_mmap.log_file import file_name
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.publisher import Publisher
from gantrymq_storage_mmap.queue_table import QueueTable

__all__ = ["QueueFlusher"]


class QueueFlusher:
    """The background flush of queues and checkpoint. All methods belong to the event loop."""

    def __init__(
        self,
        queues: QueueTable,
        publisher: Publisher,
        log_flusher: LogFlusher,
        world: tuple[Files, Workers, Clock],
        options: Options,
        log: Callable[[str], object],
    ) -> None:
        """Nothing runs before `start`. *log* is told, in one sentence, of a flush that failed."""
        self.checkpoint = Checkpoint()
        self._queues = queues
        self._publisher = publisher
        self._log_flusher = log_flusher
        self._files, self._workers, self._clock = world
        self._options = options
        self._log = log
        self._timer: Timer | None = None
        self._thorough_at = 0.0
        self._busy = False
        self._saved = Checkpoint()

    def start(self, checkpoint: Checkpoint) -> None:
        """Begin the background flush; *checkpoint* is what the file says."""
        self.checkpoint = self._saved = checkpoint
        self._thorough_at = self._clock.monotonic()
        self._arm()

    async def stop(self) -> None:
        """Make every queue durable and write the checkpoint.

        Raises:
            OSError: that failed.
        """
        self.halt()
        while self._busy:
            await self._clock.sleep(0.001)
        dirty, timestamp = self._queues.dirty(), self._publisher.published_timestamp
        work, folders = self._collect(dirty)
        await self._workers.run(_sync_queues, self._files, work, folders)
        self._move_checkpoint(timestamp)
        await self._workers.run(self._save, self.checkpoint)

    def halt(self) -> None:
        """End the background flush and leave everything else as it is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._publisher.retry()
        now = self._clock.monotonic()
        thorough = now - self._thorough_at >= self._options.queue_flush_thorough_ms / 1000
        if not self._busy:
            dirty = self._queues.dirty()
            if thorough:
                self._thorough_at = now
            else:
                least = self._options.queue_flush_least_pages * PAGE_BYTES
                dirty = [q for q in dirty if (q.max_offset - q.dirty_from) * ENTRY_BYTES >= least]
            if dirty or thorough:
                self._flush(dirty, thorough)
        self._arm()

    def _flush(self, dirty: list[ConsumeQueue], thorough: bool) -> None:
        timestamp = self._publisher.published_timestamp
        starts = [queue.dirty_from for queue in dirty]
        work, folders = self._collect(dirty)
        self._busy = True

        def done(_: None, error: BaseException | None) -> None:
            self._busy = False
            if error is not None:
                for queue, start in zip(dirty, starts, strict=True):
                    if not queue.dropped:
                        queue.dirty_from = start if queue.dirty_from < 0 else min(start, queue.dirty_from)
                self._queues.queue_files.new_folders |= set(folders)
                self._log(f"the consume queues could not be made durable, a crash would have them rebuilt: {error}")
            elif thorough:
                self._move_checkpoint(timestamp)
                if self.checkpoint != self._saved:
                    self._busy = True
                    self._workers.submit(self._save, self.checkpoint, done=self._saved_or_not)

        self._workers.submit(_sync_queues, self._files, work, folders, done=done)

    def _collect(self, dirty: list[ConsumeQueue]) -> tuple[list[Path], list[Path]]:
        """Files to sync, and folders with new names; the queues count as clean from now on."""
        work: list[Path] = []
        for queue in dirty:
            work += [queue.folder / file_name(s) for s in queue.file_starts(queue.dirty_from, queue.max_offset)]
            queue.dirty_from = -1
        folders = sorted(self._queues.queue_files.new_folders)
        self._queues.queue_files.new_folders = set()
        return work, folders

    def _move_checkpoint(self, timestamp: int) -> None:
        self.checkpoint = self.checkpoint._replace(
            log_timestamp=max(self._log_flusher.flushed_timestamp, self.checkpoint.log_timestamp),
            queue_timestamp=max(timestamp, self.checkpoint.queue_timestamp),
        )

    def _save(self, checkpoint: Checkpoint) -> None:
        self._files.replace(self._options.root / "checkpoint", encode_checkpoint(checkpoint))
        self._saved = checkpoint

    def _saved_or_not(self, _: None, error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            self._log(f"the checkpoint could not be written, a crash would take longer to recover from: {error}")

    def _arm(self) -> None:
        self._timer = self._clock.call_later(self._options.queue_flush_interval_ms / 1000, self._tick)


def _sync_queues(files: Files, paths: Sequence[Path], folders: Sequence[Path]) -> None:
    """Make queue files, and the names in *folders*, durable. Runs in a thread; skips what was dropped."""
    for path in paths:
        try:
            file = files.open(path)
        except FileNotFoundError:
            continue
        try:
            file.datasync()
        finally:
            file.close()
    for folder in folders:
        if files.stat(folder) is not None:
            files.sync_dir(folder)
