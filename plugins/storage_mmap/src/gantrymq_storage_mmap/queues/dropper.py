"""Removing queues while the broker runs: folders are moved aside at once, then noted and deleted in a thread.

Moving is a rename, so a topic of the same name can be created immediately. Until the note is durable, a crash restores
the topic's queues from the log as if it had not been deleted; callers are notified when the note is durable. Deletions
that arrive while the thread is busy share the next note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from gantrymq.errors import StoreError
from gantrymq.plugin.world import FileTree, Workers
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.table import QueueTable

DROPPED_FOLDER: Final = "dropped"  # next to consumequeue: folders that were moved aside and not deleted yet


@attrs.define(eq=False)
class QueueDropper:
    """Drops queues of one table. All methods belong to the event loop."""

    _files: FileTree
    _workers: Workers
    _aside: Path  # destination of folders that are moved aside
    _queues: QueueTable
    _dropped: DroppedTopics
    _report: Callable[[str], object]  # called with one sentence about folders that cannot be removed
    _numbers: int = attrs.field(default=0, init=False)  # folders moved aside since the start
    _waiters: list[asyncio.Future[None]] = attrs.field(factory=list, init=False)
    _working: bool = attrs.field(default=False, init=False)
    _gone: list[Path] = attrs.field(factory=list, init=False)  # moved aside, to be deleted
    # folders from which they were moved, to be synced before the deletion
    _left: dict[Path, None] = attrs.field(factory=dict, init=False)

    @property
    def busy(self) -> bool:
        """Whether a thread is working or about to start."""
        return self._working or bool(self._waiters)

    def load(self) -> None:
        """Find folders that were moved aside before an earlier stop and not deleted."""
        names = self._files.list(self._aside)
        self._gone = [self._aside / name for name in names]
        self._numbers = max((int(n) for name in names if (n := name.rpartition(".")[2]).isdecimal()), default=0)

    def drop(self, topic: str, log_end: int, log_min: int) -> Awaitable[None]:
        """Forget the queues of *topic*. The result is done when a crash cannot restore them.

        Args:
            topic: may be created again at once.
            log_end: end of the log now; later records of this topic belong to a new topic.
            log_min: start of the log.

        Raises:
            OSError: a folder cannot be moved.
            StoreError (when awaited): the note cannot be saved.
        """
        loop = asyncio.get_running_loop()
        saved: asyncio.Future[None] = loop.create_future()
        queued = topic in self._queues.by_topic
        if queued:
            self.move_aside(topic)
        self._queues.forget(topic)
        if not queued and log_end <= log_min:
            saved.set_result(None)
            return saved
        self._dropped.note(topic, log_end, log_min)
        self._waiters.append(saved)
        # Later, together with all topics dropped in this step of the event loop: their moves would wait for the sync.
        loop.call_soon(self.begin)
        return saved

    def remove(self, queue: ConsumeQueue) -> None:
        """Remove one queue that has no record in the log and no pending entries. Raises OSError."""
        self._queues.forget_queue(queue)
        for segments in (queue, queue.ext):
            if segments is not None and self._move_aside(segments.folder, f"{segments.topic}.{segments.queue_id}"):
                folder = segments.folder.parent
                if not self._files.list(folder):
                    self._files.remove_dir(folder)
        self.begin()

    def move_aside(self, name: str) -> None:
        """Move the folders of a topic, or of one of its queues ("topic/id"), out of the way. Raises OSError."""
        for table in self._queues.file_tables:
            self._move_aside(table.folder / name, name.replace("/", "."))

    def _move_aside(self, folder: Path, name: str) -> bool:
        if not self._numbers:
            self._files.make_dirs(self._aside)
        target = self._aside / f"{name}.{self._numbers + 1}"
        try:
            self._files.rename(folder, target)
        except FileNotFoundError:
            return False
        self._numbers += 1
        self._gone.append(target)
        self._left[folder.parent] = None
        return True

    # --- threads ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a thread for all waiting work, unless one is running."""
        if self._working or not (self._waiters or self._gone):
            return
        self._working = True
        waiters, self._waiters = self._waiters, []
        gone, self._gone, left, self._left = self._gone, [], list(self._left), {}

        def done(problem: OSError | None, error: BaseException | None) -> None:
            self._working = False
            for waiter in waiters:
                if not waiter.done():
                    if error is None:
                        waiter.set_result(None)
                    else:
                        waiter.set_exception(StoreError(f"the deletion of a topic cannot be noted: {error}"))
                        waiter.exception()  # marks the exception as retrieved; callers need not await
            if error is not None:
                self._gone, self._left = gone + self._gone, dict.fromkeys(left) | self._left
                self._report(f"deleted topics cannot be noted, a crash would bring their queues back: {error}")
            elif problem is not None:
                self._report(f"the queues of deleted topics in {self._aside} could not be removed: {problem}")
            self.begin()

        self._workers.submit(self._work, self._dropped.text() if waiters else None, left, gone, done=done)

    def _work(self, note: bytes | None, left: Sequence[Path], gone: Sequence[Path]) -> OSError | None:
        """Save the note, sync the moves, then delete the moved folders. Runs in a thread.

        Further moves wait meanwhile (`Deletions` of the broker), because each would block on these syncs.

        Returns:
            Why folders could not be removed, or None; the next start tries again.

        Raises:
            OSError: the note cannot be saved.
        """
        if note is not None:
            self._dropped.save(note)
        if not gone:
            return None
        try:
            # The moves first: otherwise a crash could leave a partly deleted folder under its topic's name.
            for folder in dict.fromkeys((self._aside, *left)):
                if self._files.stat(folder) is not None:
                    self._files.sync_dir(folder)
            for folder in gone:
                _remove_tree(self._files, folder)
            self._files.sync_dir(self._aside)
        except OSError as problem:
            return problem
        return None


def _remove_tree(files: FileTree, folder: Path) -> None:
    for name in files.list(folder):
        path = folder / name
        stat = files.stat(path)
        if stat is not None and stat.is_dir:
            _remove_tree(files, path)
        else:
            files.remove(path)
    files.remove_dir(folder)
