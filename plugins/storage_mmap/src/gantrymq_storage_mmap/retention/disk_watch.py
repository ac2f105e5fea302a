"""Checks the free disk space, refuses writes while there is too little or a write fails, and accepts them again.

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

from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import Timer, World, is_disk_full
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.writer import LogWriter
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.retention.rules import FULL, DiskState, Refusal, RetentionSettings, is_near, refusal_for
from gantrymq_storage_mmap.retention.settings import read_retention
from gantrymq_store_files.queue_entry import ENTRY_BYTES

_REFUSED_S = 0.4
_NEAR_S = 1.0


@attrs.define(eq=False)
class DiskWatch:
    """Free space of the store's disks. All methods belong to the event loop, except those that run in a thread.

    Nothing is checked before `check` or `start`.
    """

    _world: World
    _settings: Settings  # may change while the store runs
    _root: Path  # the store's folder
    _log_folder: Path
    _log: CommitLog  # its files count in full, without the preallocated one
    _queues: QueueTable  # counted by their entries
    _writes: LogWriter  # state of failed writes
    _index_bytes: Callable[[], int]  # returns the disk space of the index
    _report: Callable[[str], object]  # called with one sentence about each change
    disks: DiskState | None = attrs.field(default=None, init=False)  # result of the newest check
    _retention: RetentionSettings = attrs.field(init=False)  # as of a revision of the settings
    _revision: int = attrs.field(default=-1, init=False)
    _timer: Timer | None = attrs.field(default=None, init=False)
    _due: float = attrs.field(default=0.0, init=False)
    _checking: bool = attrs.field(default=False, init=False)
    _zeroing: bool = attrs.field(default=False, init=False)
    _halted: bool = attrs.field(default=True, init=False)
    _problem: str = attrs.field(default="", init=False)
    _reported: str = attrs.field(default="", init=False)  # cause of the refusal that was logged
    _on_checked: Callable[[], object] = attrs.field(default=lambda: None, init=False)
    _full: Refusal | None = attrs.field(default=None, init=False)

    @property
    def retention(self) -> RetentionSettings:
        """The present settings; they may change at runtime."""
        if self._revision != self._settings.revision:
            self._retention, self._revision = read_retention(self._settings), self._settings.revision
        return self._retention

    @property
    def busy(self) -> bool:
        """Whether a thread is working."""
        return self._checking or self._zeroing

    def refusal(self) -> Refusal | None:
        """Why log or queues cannot be written, None if they can."""
        if self._full is not None:
            return self._full
        if self._log.ahead.refusal is not None:
            return Refusal("no_room", self._log.ahead.refusal)
        if self._writes.torn_bytes and self._writes.refusal is not None:
            return Refusal("no_room", self._writes.refusal)
        if self._queues.pending.full and self._queues.pending.refusal is not None:
            return Refusal("no_room", self._queues.pending.refusal)
        if self._writes.refusal is not None:
            return Refusal("log_write_failed", self._writes.refusal)
        if self._queues.pending.refusal is not None:
            return Refusal("queue_write_failed", self._queues.pending.refusal)
        return None

    def check(self) -> DiskState:
        """Check now and return the result. Blocks; may run in a thread while nothing else uses the store."""
        return self._take(self._check(*self._to_count()))

    async def check_in_thread(self) -> DiskState:
        """Check now, in a thread, and return the result. Raises OSError."""
        return self._take(await self._world.workers.run(self._check, *self._to_count()))

    def start(self, on_checked: Callable[[], object]) -> None:
        """Start periodic checks; *on_checked* is called after each."""
        self._on_checked = on_checked
        self._halted = False
        self._arm()

    def halt(self) -> None:
        """Stop the checks."""
        self._halted = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check_soon(self) -> None:
        """Check soon, because a write was refused."""
        if not self._halted and self._due - self._world.clock.monotonic() > _REFUSED_S:
            self._arm()

    def tick(self) -> None:
        """Check, and repeat failed writes, in a thread, unless one is running."""
        if not self._halted:
            self._arm()
        self._retry_writes()
        if not self._checking:
            self._checking = True
            self._world.workers.submit(self._check, *self._to_count(), done=self._checked)

    # --- one look ---------------------------------------------------------------------------------------------------

    def _to_count(self) -> tuple[int, Sequence[ConsumeQueue]]:
        """Return the size of log and index, and the queues; nothing if there is no quota."""
        if not self.retention.quota_bytes:
            return 0, ()
        log_bytes = len(self._log.files) * self._log.file_bytes
        return log_bytes + self._index_bytes(), list(self._queues.by_name.values())

    def _check(self, other_bytes: int, queues: Sequence[ConsumeQueue]) -> DiskState:
        """Runs in a thread."""
        store_bytes = other_bytes + sum(queue.max_offset - queue.min_offset for queue in queues) * ENTRY_BYTES
        return DiskState(
            self._log_folder,
            self._root,
            self._world.files.disk_use(self._log_folder),
            self._world.files.disk_use(self._root),
            store_bytes,
        )

    def _checked(self, disks: DiskState | None, error: BaseException | None) -> None:
        self._checking = False
        if disks is None:
            if self._problem != str(error):
                self._problem = str(error)
                self._report(
                    f"the free space of {self._root} cannot be determined, the last known state is kept: {error}"
                )
            return
        self._problem = ""
        self._take(disks)
        if not self._halted:
            if self._due - self._world.clock.monotonic() > self._pause_s():
                self._arm()
            self._on_checked()

    def _take(self, disks: DiskState) -> DiskState:
        self.disks = disks
        self._full = refusal_for(self.retention, disks)
        refusal = self.refusal()
        cause = "" if refusal is None else refusal.cause
        if refusal is not None and cause != self._reported:
            self._report(f"writes are refused: {refusal.sentence}")
        elif self._reported and not cause:
            room = "there is room again, writes are accepted"
            self._report(room if self._reported in FULL else "the disk works again, writes are accepted")
        self._reported = cause
        return disks

    # --- again ------------------------------------------------------------------------------------------------------

    def _retry_writes(self) -> None:
        """Repeat the writes that failed because the disk was full."""
        self._log.ahead.retry()
        self._queues.pending.retry()
        torn, file = self._writes.torn_bytes, self._log.current
        if torn and file is not None and not self._zeroing:
            self._zeroing = True
            self._world.workers.submit(file.write, self._log.end, bytes(torn), done=self._zeroed)

    def _zeroed(self, _: None, error: BaseException | None) -> None:
        """Handle the result of zeroing a torn write: on success, there is space again and nothing is torn."""
        self._zeroing = False
        if error is None:
            self._writes.refusal, self._writes.torn_bytes = None, 0
        elif not is_disk_full(error):
            self._writes.failed(error)

    # --- when -------------------------------------------------------------------------------------------------------

    def _pause_s(self) -> float:
        if self.refusal() is not None:
            return _REFUSED_S
        usual = self._settings.number("cleanResourceInterval") / 1000
        near = self.disks is not None and is_near(self.retention, self.disks)
        return min(_NEAR_S, usual) if near else usual

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        pause = self._pause_s()
        self._due = self._world.clock.monotonic() + pause
        self._timer = self._world.clock.call_later(pause, self.tick)
