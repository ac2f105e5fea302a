"""Queues that go while the broker runs: folders are moved aside at once, noted in a thread, and removed in it.

Moving is a rename, so that a topic of the same name can begin anew right away. Until the note is durable a crash brings
the topic's queues back from the log, as if it had not been deleted; whoever was told waits for the note. Deletions that
come while one note is being saved share the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from gantrymq.errors import StoreError
from gantrymq.world import Files, Workers
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.table import QueueTable

__all__ = ["ASIDE", "Dropping"]

ASIDE: Final = "dropped"  # beside consumequeue: what was moved aside and is not removed yet


class Dropping:
    """Drops queues of one table. All methods belong to the event loop."""

    def __init__(
        self,
        files: Files,
        workers: Workers,
        root: Path,
        queues: QueueTable,
        dropped: DroppedTopics,
        tell: Callable[[str], object],
    ) -> None:
        """*tell* is told, in one sentence, of folders that cannot be removed."""
        self._files = files
        self._workers = workers
        self._aside = root / ASIDE
        self._queues = queues
        self._dropped = dropped
        self._tell = tell
        self._numbers = 0  # folders moved aside since the start
        self._waiters: list[asyncio.Future[None]] = []
        self.busy = 0  # threads at work
        self._saving = False
        self._removing = False
        self._gone: list[Path] = []  # moved aside, to be removed
        self._left: dict[Path, None] = {}  # folders out of which they were moved, to be synced before that

    def load(self) -> None:
        """Look what was moved aside before an earlier stop, and not removed."""
        names = self._files.list(self._aside)
        self._gone = [self._aside / name for name in names]
        self._numbers = max((int(n) for name in names if (n := name.rpartition(".")[2]).isdecimal()), default=0)

    def start(self) -> None:
        """Remove what is aside."""
        self._remove()

    def drop(self, topic: str, log_end: int) -> Awaitable[None]:
        """Forget the queues of *topic*; done when a crash cannot bring them back.

        Args:
            topic: it may be made anew at once.
            log_end: end of the log now; a later record of this topic starts it anew.

        Raises:
            OSError: a folder cannot be moved.
            StoreError (when awaited): the note cannot be saved.
        """
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if topic not in self._queues.by_topic:
            self._queues.forget(topic)
            saved.set_result(None)
            return saved
        self.move_aside(topic)
        self._queues.forget(topic)
        self._dropped.note(topic, log_end)
        self._waiters.append(saved)
        self._save()
        return saved

    def remove(self, queue: ConsumeQueue) -> None:
        """Forget one queue that has no record in the log and nothing that waits. Raises OSError."""
        self._queues.forget_queue(queue)
        for row in (queue, queue.ext):
            if row is not None and self._move_aside(row.folder, f"{row.topic}.{row.queue_id}"):
                folder = row.folder.parent
                if not self._files.list(folder):
                    self._files.remove_dir(folder)
        self._remove()

    def move_aside(self, name: str) -> None:
        """Move the folders of a topic, or of one queue of it ("topic/id"), out of the way. Raises OSError."""
        for table in self._queues.file_tables:
            self._move_aside(table.folder / name, name.replace("/", "."))

    def _move_aside(self, folder: Path, name: str) -> bool:
        if self._files.stat(folder) is None:
            return False
        if not self._numbers:
            self._files.make_dirs(self._aside)
        self._numbers += 1
        target = self._aside / f"{name}.{self._numbers}"
        self._files.rename(folder, target)
        self._gone.append(target)
        self._left[folder.parent] = None
        return True

    # --- threads ----------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._saving or not self._waiters:
            return
        self._saving = True
        self.busy += 1
        waiters, self._waiters = self._waiters, []

        def done(_: None, error: BaseException | None) -> None:
            self._saving = False
            self.busy -= 1
            for waiter in waiters:
                if not waiter.done():
                    if error is None:
                        waiter.set_result(None)
                    else:
                        waiter.set_exception(StoreError(f"the deletion of a topic cannot be noted: {error}"))
                        waiter.exception()  # told here; nobody has to wait
            if error is not None:
                self._tell(f"deleted topics cannot be noted, a crash would bring their queues back: {error}")
            self._save()
            self._remove()

        self._workers.submit(self._dropped.save, self._dropped.text(), done=done)

    def _remove(self) -> None:
        if self._removing or not self._gone:
            return
        self._removing = True
        self.busy += 1
        gone, self._gone, left, self._left = self._gone, [], list(self._left), {}

        def done(_: None, error: BaseException | None) -> None:
            self._removing = False
            self.busy -= 1
            if error is not None:
                self._tell(f"the queues of deleted topics in {self._aside} could not be removed: {error}")
            self._remove()

        self._workers.submit(_remove_trees, self._files, [self._aside, *left], gone, done=done)


def _remove_trees(files: Files, changed: Sequence[Path], folders: Sequence[Path]) -> None:
    """Remove *folders*, once the moves that brought them here, in *changed*, are durable. Runs in a thread."""
    for folder in changed:
        if files.stat(folder) is not None:
            files.sync_dir(folder)
    for folder in folders:
        _remove_tree(files, folder)
    files.sync_dir(changed[0])


def _remove_tree(files: Files, folder: Path) -> None:
    for name in files.list(folder):
        path = folder / name
        stat = files.stat(path)
        if stat is not None and stat.is_dir:
            _remove_tree(files, path)
        else:
            files.remove(path)
    files.remove_dir(folder)
