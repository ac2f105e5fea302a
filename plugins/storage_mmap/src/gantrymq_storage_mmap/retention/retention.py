"""Retention: when cleaning runs, and in which order. What may go is decided in `retention_rules`.

    a minute after the start, then every cleanResourceInterval      all rules
    after a look at the disk that found too little room             the oldest files, whatever their age
    an operator asks                                                up to 20 rounds by age, whatever the hour

One run at a time: log files one by one with a pause between them, then the minima of topics with a time of their own,
then queue files, then the index. Threads do what blocks; the loop only learns what has become of it.

Source: apache/rocketmq store/.../DefaultMessageStore.java (addScheduleTask, CleanCommitLogService,
CleanConsumeQueueService).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Protocol

from gantrymq.config import Settings
from gantrymq.interfaces import Cleaning, CleanReport
from gantrymq.world import Timer, World
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.retention.disk_watch import DiskWatch
from gantrymq_storage_mmap.retention.log_cleaning import LogCleaner
from gantrymq_storage_mmap.retention.queue_cleaning import QueueCleaner
from gantrymq_storage_mmap.retention.rules import Plan, forced_bytes, make_plan

__all__ = ["ExpiringIndex", "Retention"]

FIRST_S = 60.0
MANUAL_ROUNDS = 20
WAIT_S = 0.01  # between looks whether queue entries are durable
WAITS = 1000
ASK_EVERY = 50


class ExpiringIndex(Protocol):
    """What follows the log's minimum besides the queues."""

    def delete_before(self, log_offset: int) -> object:
        """Delete what only names records before *log_offset*. Called on the loop; an awaitable is awaited."""


class Retention:
    """Cleans one store. All methods belong to the event loop."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        log: CommitLog,
        watch: DiskWatch,
        log_cleaner: LogCleaner,
        queue_cleaner: QueueCleaner,
        tell: Callable[[str], object],
        index: ExpiringIndex | None = None,
    ) -> None:
        """Nothing runs before `start`. *tell* gets one sentence for each run that deleted something or failed."""
        self._clock = world.clock
        self._settings = settings
        self._log = log
        self._watch = watch
        self._log_cleaner = log_cleaner
        self._queue_cleaner = queue_cleaner
        self._tell = tell
        self._index = index
        self._index_min = -1  # the index was told of this minimum
        self._moved = True  # something began later since queue files and index were cleaned
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._resting: asyncio.Future[None] | None = None
        self._rounds = 0  # that an operator asked for and are not run yet
        self._stopped = True
        self._problem = ""

    def start(self) -> None:
        """Begin to look at the disk and to clean."""
        self._stopped = False
        self._watch.start(self._looked)
        self._timer = self._clock.call_later(FIRST_S, self._tick)

    def halt(self) -> None:
        """Begin nothing more; what is under way ends as soon as it can."""
        self._stopped = True
        self._watch.halt()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._resting is not None:
            _wake(self._resting)

    async def stop(self) -> None:
        """`halt`, and wait until nothing is under way."""
        self.halt()
        if self._task is not None:
            await self._task
        while self._watch.busy:
            await self._clock.sleep(0.001)

    async def clean(self, what: Cleaning) -> CleanReport:
        """Clean because an operator, or the broker, asks for it.

        Raises:
            OSError: the disk failed.
        """
        if what is Cleaning.EXPIRED_QUEUES:
            return CleanReport(queues=await self._queue_cleaner.remove_expired())
        if what is Cleaning.RESERVE_TIMES:
            moved = await self._queue_cleaner.by_reserve_time()
            self._moved = self._moved or moved > 0
            return CleanReport(queues=moved)
        plan = await self._plan(MANUAL_ROUNDS * self._watch.rules.batch_max, manual=True)
        if plan.files:
            self._rounds = MANUAL_ROUNDS
            self._kick()
        return CleanReport(log_files=plan.files, log_bytes=plan.files * self._log.file_bytes)

    # --- when -------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._settings.number("cleanResourceInterval") / 1000, self._tick)
        self._kick(regular=True)

    def _looked(self) -> None:
        """After every look at the disk."""
        room = self._watch.room
        if room is not None and forced_bytes(self._watch.rules, room):
            self._kick()

    def _kick(self, *, regular: bool = False) -> None:
        if self._task is None and not self._stopped:
            self._task = asyncio.get_running_loop().create_task(self._run(regular))

    async def _pause(self, key: str) -> bool:
        """Wait as long as the setting *key* says; false when the store is to stop."""
        if not self._stopped and (pause_ms := self._settings.number(key)):
            resting = self._resting = asyncio.get_running_loop().create_future()
            timer = self._clock.call_later(pause_ms / 1000, _wake, resting)
            await resting
            timer.cancel()
        return not self._stopped

    # --- one run ----------------------------------------------------------------------------------------------------

    async def _run(self, regular: bool) -> None:
        """One run; only a regular one looks at the topics' own times."""
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
                await self._clean_index()
                self._moved = False
            self._problem = ""
        except Exception as error:
            self._rounds = 0
            if self._problem != str(error):
                self._problem = str(error)
                self._tell(f"what has expired could not be deleted, it is tried again: {error}")
        finally:
            self._task = None

    async def _clean_log(self) -> int:
        """Delete what is due, at most one batch; returns how many files went."""
        plan = await self._plan(self._watch.rules.batch_max, manual=self._rounds > 0)
        deleted = 0
        try:
            while deleted < plan.files and not self._stopped:
                if deleted and not await self._pause("deleteCommitLogFilesInterval"):
                    break
                if not await self._queues_have_it():
                    break
                await self._log_cleaner.delete_first()
                deleted += 1
                if self._watch.refusal() is not None:
                    self._watch.tick()
        finally:
            if deleted:
                self._tell(
                    f"{deleted} commit log files were deleted because {plan.reason}; the log begins at "
                    f"{self._log.min_offset} now"
                )
        return deleted

    async def _queues_have_it(self) -> bool:
        """Wait until the oldest file's entries are durable; false when that takes too long, or the store is to stop."""
        for attempt in range(WAITS):
            if await self._log_cleaner.queues_have_it():
                return True
            if attempt % ASK_EVERY == 0:
                self._log_cleaner.hasten_queues()
            await self._clock.sleep(WAIT_S)
            if self._stopped:
                break
        return False

    async def _plan(self, most: int, *, manual: bool) -> Plan:
        """What to delete as the disk is now, at most so many files."""
        candidates = self._log_cleaner.candidates(most)
        if not candidates:
            return Plan(0, "")
        room = await self._watch.fresh()
        ages = await self._log_cleaner.ages(candidates)
        now = self._clock.now_ms()
        return make_plan(self._watch.rules, most, room, ages, now, self._clock.utc_offset_ms(now), manual=manual)

    async def _clean_index(self) -> None:
        log_min = self._log.min_offset
        if self._index is not None and log_min != self._index_min:
            found = self._index.delete_before(log_min)
            if isawaitable(found):
                await found
            self._index_min = log_min


def _wake(resting: asyncio.Future[None]) -> None:
    if not resting.done():
        resting.set_result(None)
