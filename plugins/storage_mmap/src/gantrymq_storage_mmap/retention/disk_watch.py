"""Checks the free disk space, refuses writes while there is too little, and accepts them again.

    every cleanResourceInterval   normally
    every second                  near a limit
    every 0.4 seconds             while writes are refused

Whatever failed because the disk was full (the next log file, queue entries, a write into the log) is repeated at every
check, so writes resume within a second of space becoming available. All checks and repetitions run in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from gantrymq.config import Settings
from gantrymq.world import Timer, World, is_disk_full
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.writer import LogWriter
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.retention.rules import DiskState, Refusal, RetentionRules, is_near, refusal_for
from gantrymq_storage_mmap.retention.settings import read_rules
from gantrymq_store_files.queue_entry import ENTRY_BYTES

__all__ = ["DiskWatch"]

REFUSED_S = 0.4
NEAR_S = 1.0


@attrs.define(eq=False)
class DiskWatch:
    """Free space of the store's disks. All methods belong to the event loop, except those that run in a thread.

    Nothing is checked before `look` or `start`.
    """

    _world: World
    _settings: Settings  # may change while the store runs
    _root: Path  # the store's folder
    _log_folder: Path
    _log: CommitLog  # its files count in full, without the preallocated one
    _queues: QueueTable  # counted by their entries
    _writes: LogWriter  # state of failed writes
    _index_bytes: Callable[[], int]  # returns the disk space of the index
    _tell: Callable[[str], object]  # called with one sentence when writes are refused and when they are accepted again
    disks: DiskState | None = attrs.field(default=None, init=False)  # result of the newest check
    _rules: RetentionRules = attrs.field(init=False)  # as of a revision of the settings
    _revision: int = attrs.field(default=-1, init=False)
    _timer: Timer | None = attrs.field(default=None, init=False)
    _due: float = attrs.field(default=0.0, init=False)
    _looking: bool = attrs.field(default=False, init=False)
    _mending: bool = attrs.field(default=False, init=False)
    _halted: bool = attrs.field(default=True, init=False)
    _problem: str = attrs.field(default="", init=False)
    _told: str = attrs.field(default="", init=False)  # cause of the refusal that was logged
    _seen: Callable[[], object] = attrs.field(default=lambda: None, init=False)
    _full: Refusal | None = attrs.field(default=None, init=False)

    @property
    def rules(self) -> RetentionRules:
        """The present settings; they may change at runtime."""
        if self._revision != self._settings.revision:
            self._rules, self._revision = read_rules(self._settings), self._settings.revision
        return self._rules

    @property
    def busy(self) -> bool:
        """Whether a thread is working."""
        return self._looking or self._mending

    def refusal(self) -> Refusal | None:
        """Why there is no space for writes, None if there is."""
        if self._full is not None:
            return self._full
        if self._log.ahead.refusal is not None:
            return Refusal("no_room", self._log.ahead.refusal)
        if self._writes.torn_bytes and self._writes.refusal is not None:
            return Refusal("no_room", self._writes.refusal)
        if self._queues.pending.full and self._queues.pending.refusal is not None:
            return Refusal("no_room", self._queues.pending.refusal)
        return None

    def look(self) -> DiskState:
        """Check now and return the result. Blocks; may run in a thread while nothing else uses the store."""
        return self._take(self._look(*self._to_count()))

    async def fresh(self) -> DiskState:
        """Check now, in a thread, and return the result. Raises OSError."""
        return self._take(await self._world.workers.run(self._look, *self._to_count()))

    def start(self, seen: Callable[[], object]) -> None:
        """Start periodic checks; *seen* is called after each."""
        self._seen = seen
        self._halted = False
        self._arm()

    def halt(self) -> None:
        """Stop the checks."""
        self._halted = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hurry(self) -> None:
        """Check soon, because a write was refused."""
        if not self._halted and self._due - self._world.clock.monotonic() > REFUSED_S:
            self._arm()

    def tick(self) -> None:
        """Check, and repeat failed writes, in a thread, unless one is running."""
        if not self._halted:
            self._arm()
        self._mend()
        if not self._looking:
            self._looking = True
            self._world.workers.submit(self._look, *self._to_count(), done=self._looked)

    # --- one look ---------------------------------------------------------------------------------------------------

    def _to_count(self) -> tuple[int, Sequence[ConsumeQueue]]:
        """Return the size of log and index, and the queues; nothing if there is no quota."""
        if not self.rules.quota_bytes:
            return 0, ()
        log_bytes = len(self._log.files) * self._log.file_bytes
        return log_bytes + self._index_bytes(), list(self._queues.by_name.values())

    def _look(self, other_bytes: int, queues: Sequence[ConsumeQueue]) -> DiskState:
        """Runs in a thread."""
        store_bytes = other_bytes + sum(queue.max_offset - queue.min_offset for queue in queues) * ENTRY_BYTES
        return DiskState(
            self._log_folder,
            self._root,
            self._world.files.disk_use(self._log_folder),
            self._world.files.disk_use(self._root),
            store_bytes,
        )

    def _looked(self, disks: DiskState | None, error: BaseException | None) -> None:
        self._looking = False
        if disks is None:
            if self._problem != str(error):
                self._problem = str(error)
                self._tell(
                    f"the free space of {self._root} cannot be determined, the last known state is kept: {error}"
                )
            return
        self._problem = ""
        self._take(disks)
        if not self._halted:
            if self._due - self._world.clock.monotonic() > self._pause_s():
                self._arm()
            self._seen()

    def _take(self, disks: DiskState) -> DiskState:
        self.disks = disks
        self._full = refusal_for(self.rules, disks)
        refusal = self.refusal()
        cause = "" if refusal is None else refusal.cause
        if refusal is not None and cause != self._told:
            self._tell(f"writes are refused: {refusal.sentence}")
        elif self._told and not cause:
            self._tell("there is room again, writes are accepted")
        self._told = cause
        return disks

    # --- again ------------------------------------------------------------------------------------------------------

    def _mend(self) -> None:
        """Repeat the writes that failed because the disk was full."""
        self._log.ahead.retry()
        self._queues.pending.retry()
        torn, file = self._writes.torn_bytes, self._log.current
        if torn and file is not None and not self._mending:
            self._mending = True
            self._world.workers.submit(file.write, self._log.end, bytes(torn), done=self._mended)

    def _mended(self, _: None, error: BaseException | None) -> None:
        """Handle the result of zeroing a torn write: on success, there is space again and nothing is torn."""
        self._mending = False
        if error is None:
            self._writes.refusal, self._writes.torn_bytes = None, 0
        elif not is_disk_full(error):
            self._writes.failed(error)

    # --- when -------------------------------------------------------------------------------------------------------

    def _pause_s(self) -> float:
        if self.refusal() is not None:
            return REFUSED_S
        usual = self._settings.number("cleanResourceInterval") / 1000
        near = self.disks is not None and is_near(self.rules, self.disks)
        return min(NEAR_S, usual) if near else usual

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        pause = self._pause_s()
        self._due = self._world.clock.monotonic() + pause
        self._timer = self._world.clock.call_later(pause, self.tick)
