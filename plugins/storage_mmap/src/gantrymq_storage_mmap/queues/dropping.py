"""Queues that go while the broker runs: folders are moved aside at once, noted in a thread, and removed in it.

Moving is a rename, so that a topic of the same name can begin anew right away. Until the note is durable a crash brings
the topic's queues back from the log, as if it had not been deleted; whoever was told waits for the note. Deletions that
come while the thread is at work share the next note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from gantrymq.errors import StoreError
from gantrymq.world import Files, Workers
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.table import QueueTable

__all__ = ["ASIDE", "Dropping"]

ASIDE: Final = "dropped"  # beside consumequeue: what was moved aside and is not removed yet


@attrs.define(eq=False)
class Dropping:
    """Drops queues of one table. All methods belong to the event loop."""

    _files: Files
    _workers: Workers
    _aside: Path  # folder for what is moved aside
    _queues: QueueTable
    _dropped: DroppedTopics
    _tell: Callable[[str], object]  # is told, in one sentence, of folders that cannot be removed
    _numbers: int = attrs.field(default=0, init=False)  # folders moved aside since the start
    _waiters: list[asyncio.Future[None]] = attrs.field(factory=list, init=False)
    _working: bool = attrs.field(default=False, init=False)
    _gone: list[Path] = attrs.field(factory=list, init=False)  # moved aside, to be removed
    # folders out of which they were moved, to be synced before that
    _left: dict[Path, None] = attrs.field(factory=dict, init=False)

    @property
    def busy(self) -> bool:
        """Whether a thread is at work, or soon will be."""
        return self._working or bool(self._waiters)

    def load(self) -> None:
        """Look what was moved aside before an earlier stop, and not removed."""
        names = self._files.list(self._aside)
        self._gone = [self._aside / name for name in names]
        self._numbers = max((int(n) for name in names if (n := name.rpartition(".")[2]).isdecimal()), default=0)

    def drop(self, topic: str, log_end: int, log_min: int) -> Awaitable[None]:
        """Forget the queues of *topic*; done when a crash cannot bring them back.

        Args:
            topic: it may be made anew at once.
            log_end: end of the log now; a later record of this topic starts it anew.
            log_min: where the log begins.

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
        loop.call_soon(self.begin)  # with those that are dropped in this step, whose moves would wait for the sync
        return saved

    def remove(self, queue: ConsumeQueue) -> None:
        """Forget one queue that has no record in the log and nothing that waits. Raises OSError."""
        self._queues.forget_queue(queue)
        for row in (queue, queue.ext):
            if row is not None and self._move_aside(row.folder, f"{row.topic}.{row.queue_id}"):
                folder = row.folder.parent
                if not self._files.list(folder):
                    self._files.remove_dir(folder)
        self.begin()

    def move_aside(self, name: str) -> None:
        """Move the folders of a topic, or of one queue of it ("topic/id"), out of the way. Raises OSError."""
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
        """Have a thread do everything that waits; one at a time."""
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
                        waiter.exception()  # told here; nobody has to wait
            if error is not None:
                self._gone, self._left = gone + self._gone, dict.fromkeys(left) | self._left
                self._tell(f"deleted topics cannot be noted, a crash would bring their queues back: {error}")
            elif problem is not None:
                self._tell(f"the queues of deleted topics in {self._aside} could not be removed: {problem}")
            self.begin()

        self._workers.submit(self._work, self._dropped.text() if waiters else None, left, gone, done=done)

    def _work(self, note: bytes | None, left: Sequence[Path], gone: Sequence[Path]) -> OSError | None:
        """Runs in a thread: save the note, then remove what was moved aside, once that is durable.

        The moves of the next ones wait meanwhile (`Deletions` of the broker), as each would wait for these syncs.

        Returns:
            Why folders could not be removed; the next start tries again.

        Raises:
            OSError: the note cannot be saved.
        """
        if note is not None:
            self._dropped.save(note)
        if not gone:
            return None
        try:
            for folder in dict.fromkeys((self._aside, *left)):
                if self._files.stat(folder) is not None:
                    self._files.sync_dir(folder)
            for folder in gone:
                _remove_tree(self._files, folder)
            self._files.sync_dir(self._aside)
        except OSError as problem:
            return problem
        return None


def _remove_tree(files: Files, folder: Path) -> None:
    for name in files.list(folder):
        path = folder / name
        stat = files.stat(path)
        if stat is not None and stat.is_dir:
            _remove_tree(files, path)
        else:
            files.remove(path)
    files.remove_dir(folder)
