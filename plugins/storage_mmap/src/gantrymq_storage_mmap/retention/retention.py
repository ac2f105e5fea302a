"""Retention: when cleaning runs, in which order, and how log files are deleted. What to delete is decided in `rules`.

    a minute after the start, then every cleanResourceInterval      all rules
    after a check of the disk that found too little space          the oldest files, of any age
    on an operator's request                                        up to 20 rounds by age, at any hour

One run at a time: log files one by one with a pause between them, then the minima of topics with their own reserve
time, then queue files, then the index. Blocking work is done in threads; the event loop only receives the results.

A log file is deleted only when it is durable and published, and never the newest one. It is unlinked in a thread, then
the starts of the log and its queues advance in one step of the event loop. The folder is synced before the next file is
deleted, so that a crash never leaves a gap in the log. Readers that still use the file keep its bytes.

Source: apache/rocketmq store/.../DefaultMessageStore.java (addScheduleTask, CleanCommitLogService,
CleanConsumeQueueService), MappedFileQueue.java (deleteExpiredFileByTime).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs

from gantrymq.plugin.interfaces import Cleaning, CleanReport
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import FileReader, FileTree, Timer, TimeSlices, World
from gantrymq_storage_mmap.checkpoint.checkpointer import Checkpointer
from gantrymq_storage_mmap.index.files import IndexFiles
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, first_in_log
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.retention.disk_watch import DiskWatch
from gantrymq_storage_mmap.retention.queue_cleaning import QueueCleaner, advance_batch_queues
from gantrymq_storage_mmap.retention.rules import DeletionPlan, forced_bytes, plan_deletion
from gantrymq_store_files.batch_entry import BatchQueueEntry

_FIRST_S = 60.0
_MANUAL_ROUNDS = 20
_TURN_QUEUES = 2000  # queues advanced in one turn of the event loop
_WAIT_S = 0.01  # between checks whether queue entries are durable
_WAITS = 1000
_ASK_EVERY = 50


@attrs.define(eq=False)
class Retention:
    """Cleans one store. All methods belong to the event loop; nothing runs before `start`."""

    _world: World
    _settings: Settings
    _log: CommitLog
    _queues: QueueTable
    _durable: Callable[[], int]  # returns the log offset before which everything is durable and published
    _checkpointer: Checkpointer
    _watch: DiskWatch
    _queue_cleaner: QueueCleaner
    _index: IndexFiles
    _floor: Callable[[int], int]  # returns the log offset from which readers need the log, at most the argument
    _report: Callable[[str], object]  # called with one sentence for each run that deleted something or failed
    # whether a minimum advanced since queue files and index were cleaned
    _moved: bool = attrs.field(default=True, init=False)
    _timer: Timer | None = attrs.field(default=None, init=False)
    _task: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _resting: asyncio.Future[None] | None = attrs.field(default=None, init=False)
    _rounds: int = attrs.field(default=0, init=False)  # remaining rounds of an operator's request
    _stopped: bool = attrs.field(default=True, init=False)
    _problem: str = attrs.field(default="", init=False)
    _suspended: int = attrs.field(default=0, init=False)
    _lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    def start(self) -> None:
        """Start checking the disk and cleaning."""
        self._stopped = False
        self._watch.start(self._disk_checked)
        self._timer = self._world.clock.call_later(_FIRST_S, self._tick)

    def halt(self) -> None:
        """Start nothing more; a current run ends as soon as it can."""
        self._stopped = True
        self._watch.halt()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._resting is not None:
            _wake(self._resting)

    async def stop(self) -> None:
        """`halt`, and wait until nothing is running."""
        self.halt()
        if self._task is not None:
            await self._task
        while self._watch.busy:
            await self._world.clock.sleep(0.001)

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """Delete nothing inside this context; a current run ends as soon as it can."""
        self._suspended += 1
        if self._resting is not None:
            _wake(self._resting)
        try:
            async with self._lock:
                yield
        finally:
            self._suspended -= 1

    async def clean(self, what: Cleaning) -> CleanReport:
        """Clean on request of an operator or the broker.

        Raises:
            OSError: the disk failed.
        """
        if what is Cleaning.EXPIRED_QUEUES:
            async with self._lock:
                return CleanReport(queues=await self._queue_cleaner.remove_expired())
        if what is Cleaning.RESERVE_TIMES:
            async with self._lock:
                moved = await self._queue_cleaner.by_reserve_time()
            self._moved = self._moved or moved > 0
            return CleanReport(queues=moved)
        plan = await self._plan(_MANUAL_ROUNDS * self._watch.retention.batch_max, manual=True)
        if plan.files:
            self._rounds = _MANUAL_ROUNDS
            self._kick()
        return CleanReport(log_files=plan.files, log_bytes=plan.files * self._log.file_bytes)

    # --- when -------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = self._world.clock.call_later(self._settings.number("cleanResourceInterval") / 1000, self._tick)
        self._kick(regular=True)

    def _disk_checked(self) -> None:
        """Called after every check of the disk."""
        disks = self._watch.disks
        if disks is not None and forced_bytes(self._watch.retention, disks):
            self._kick()

    def _kick(self, *, regular: bool = False) -> None:
        if self._task is None and not self._stopped:
            self._task = asyncio.get_running_loop().create_task(self._run(regular))

    async def _pause(self, key: str) -> bool:
        """Wait for the time of the setting *key*; return False if the store is stopping."""
        if not self._stopped and (pause_ms := self._settings.number(key)):
            resting = self._resting = asyncio.get_running_loop().create_future()
            timer = self._world.clock.call_later(pause_ms / 1000, _wake, resting)
            await resting
            timer.cancel()
        return not self._stopped and not self._suspended

    # --- one run ----------------------------------------------------------------------------------------------------

    async def _run(self, regular: bool) -> None:
        """Clean once; only a *regular* run applies the topics' reserve times."""
        async with self._lock:
            await self._clean_all(regular)

    async def _clean_all(self, regular: bool) -> None:
        try:
            while (deleted := await self._clean_log()) and self._rounds and not self._stopped:
                self._moved = True
                self._rounds -= 1
            self._rounds = 0
            moved = await self._queue_cleaner.by_reserve_time() if regular and not self._stopped else 0
            if deleted or moved:
                self._moved = True
            if self._moved and not self._stopped:
                await self._queue_cleaner.trim(self._pause)
                self._index.delete_before(self._log.min_offset)
                self._moved = False
            self._problem = ""
        except Exception as error:
            self._rounds = 0
            if self._problem != str(error):
                self._problem = str(error)
                self._report(f"expired files could not be deleted, retrying: {error}")
        finally:
            self._task = None

    async def _clean_log(self) -> int:
        """Delete the files that are due, at most one batch; return how many."""
        plan = await self._plan(self._watch.retention.batch_max, manual=self._rounds > 0)
        deleted = 0
        try:
            while deleted < plan.files and not self._stopped:
                if deleted and not await self._pause("deleteCommitLogFilesInterval"):
                    break
                if not await self._wait_for_entries() or self._floor(self._log.files[0].end) < self._log.files[0].end:
                    break
                await self._delete_first()
                deleted += 1
                # Writes are refused for lack of space: check now whether this deletion made enough.
                if self._watch.refusal() is not None:
                    self._watch.tick()
        finally:
            if deleted:
                self._report(
                    f"{deleted} commit log files were deleted because {plan.reason}; the log now begins at "
                    f"{self._log.min_offset}"
                )
        return deleted

    async def _plan(self, most: int, *, manual: bool) -> DeletionPlan:
        """Return what to delete in the present state of the disk, at most *most* files."""
        durable, world = self._floor(self._durable()), self._world
        # The last file receives the next records.
        candidates = [file.path for file in self._log.files[:-1][:most] if file.end <= durable]
        if not candidates:
            return DeletionPlan(0, "")
        disks = await self._watch.check_in_thread()
        ages = await world.workers.run(_modified, world.files, candidates)
        now, settings = world.clock.now_ms(), self._watch.retention
        return plan_deletion(settings, most, disks, ages, now, world.clock.utc_offset_ms(now), manual=manual)

    async def _wait_for_entries(self) -> bool:
        """Wait until the entries of the oldest file are durable; False on timeout or if the store is stopping."""
        for attempt in range(_WAITS):
            if await self._entries_are_durable():
                return True
            if attempt % _ASK_EVERY == 0:
                self._checkpointer.request()
            await self._world.clock.sleep(_WAIT_S)
            if self._stopped:
                break
        return False

    async def _entries_are_durable(self) -> bool:
        """Return whether the queue entries of the oldest log file are durable.

        Without the records they could not be rebuilt, and a queue would lose its offsets. If the disk has no space for
        them, deleting must still be possible to free some: then only the queue offsets are saved.
        """
        if self._checkpointer.durable_offset >= self._log.files[0].end:
            return True
        return self._queues.pending.full and await self._checkpointer.save_queue_ends()

    async def _delete_first(self) -> None:
        """Delete the oldest log file.

        Raises:
            OSError: it cannot be deleted; it stays part of the log, and the next call tries again.
        """
        file = self._log.files[0]
        world, queues = self._world, self._queues
        minima = await world.workers.run(_delete, world.files, file.path, list(queues.by_name.values()), file.end)
        gone = partial(_is_before, file.end)
        await advance_batch_queues(world.workers, [(queue, gone) for queue in queues.batch.values()])
        old = self._log.drop_first()
        slices = TimeSlices(world.clock, _TURN_QUEUES)
        for queue, (minimum, oldest) in minima:
            if not queue.dropped:
                found = max(queue.min_offset, minimum)
                if oldest < 0:  # the first remaining entry is not one of those the thread could see
                    found = queue.first_from(found, file.end)
                queue.min_offset, queue.oldest = found, oldest if found == minimum else -1
            await slices.item_done()
        # Closing the last descriptor of an unlinked file frees its blocks, which may take long.
        await world.workers.run(old.close)


def _wake(resting: asyncio.Future[None]) -> None:
    if not resting.done():
        resting.set_result(None)


def _modified(files: FileReader, paths: Sequence[Path]) -> list[int]:
    """Return when each file was last written, wall time in ms; 0 if it is gone. Runs in a thread."""
    stats = [files.stat(path) for path in paths]
    return [stat.modified_ms if stat is not None else 0 for stat in stats]


def _delete(
    files: FileTree, path: Path, queues: Sequence[ConsumeQueue], log_min: int
) -> list[tuple[ConsumeQueue, tuple[int, int]]]:
    """Delete a log file. Runs in a thread; repeating it is harmless.

    Returns:
        The queues whose minimum may advance, with the result of `first_in_log` on their files.
    """
    files.remove(path)
    files.sync_dir(path.parent)
    return [
        (queue, first_in_log(queue.entry_in_files, queue.min_offset, queue.durable_offset, log_min))
        for queue in queues
        if queue.oldest < log_min
    ]


def _is_before(log_offset: int, entry: BatchQueueEntry) -> bool:
    return entry.log_offset < log_offset
