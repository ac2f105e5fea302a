"""The next log file, made in a thread before it is needed.

A log file's blocks are reserved when it is made, so a full disk shows here as an error, and not in the middle of a
write. When a file is needed before the thread has begun, it is made on the spot; when the thread is at it, it is waited
for: where the file system cannot reserve, zeros are written, and a zero that comes later would be a lost message. One
that found no room is tried again in a thread (`retry`), not by every message that needs it.

It may be warmed as well (`Warming`): zeros in every block, pages in the cache, and locked there if that is allowed. A
reserved block that was never written costs its first sync a change of the file system's own tables as well: measured
on ext4, the median sync of 20 KB took 60 us in a file that was only reserved and 35 us in one filled with zeros. So
warming writes zeros, as RocketMQ does, but through the descriptor, as this store writes everything; the file is
then locked with ``mlock`` so that no other file's pages push its own out.

It costs a second writing of the whole log, and as much memory as the hot files have; therefore it is off by default.
The sync after every few pages keeps the zeros from piling up in front of a sender's sync. A file that is made because
it is needed at once is not warmed.

Source: apache/rocketmq store/.../AllocateMappedFileService.java, DefaultMappedFile.java (warmMappedFile, mlock).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

import attrs

from gantrymq.world import Files, Workers, is_full
from gantrymq_storage_mmap.full_disk import no_room
from gantrymq_storage_mmap.log.file import LogFile, create_log_file
from gantrymq_store_files.file_names import file_name

__all__ = ["Preallocation", "Warming"]

STEP_BYTES: Final = 64 * 1024  # one write of zeros; whoever takes the file waits for one at most
_ZEROS: Final = bytes(STEP_BYTES)


@attrs.define(eq=False)
class Warming:
    """The warming of one file. `warm` runs in a thread, the rest belongs to the event loop.

    The file may be needed while it is being warmed; then another descriptor writes records to it, and a zero that is
    written afterwards would destroy one. So each step is made under a lock, and `stop` takes the same lock: when it has
    returned, no more zeros are written.
    """

    _sync_bytes: int  # sync after so many, and after the last
    _may_lock: bool = attrs.field(default=True, kw_only=True)  # whether to try ``mlock``
    problem: str | None = attrs.field(default=None, init=False)  # why the file could not be locked, a sentence
    _guard: Lock = attrs.field(factory=Lock, init=False)
    _stopped: bool = attrs.field(default=False, init=False)

    def stop(self) -> None:
        """End it; returns when no more zeros will be written. Harmless when it is done or never began."""
        with self._guard:
            self._stopped = True

    def warm(self, file: LogFile) -> None:
        """Fill *file*, which holds no record, and lock it. Runs in a thread; returns early once stopped.

        Raises:
            OSError: the disk refused.
        """
        position, synced, size = 0, 0, file.end - file.start
        while position < size:
            length = min(STEP_BYTES, size - position)
            with self._guard:
                if self._stopped:
                    return
                file.file.pwrite(memoryview(_ZEROS)[:length], position)
            position += length
            if position - synced >= self._sync_bytes or position == size:
                file.file.datasync()
                synced = position
        if self._may_lock:
            try:
                file.lock()
            except OSError as error:
                self.problem = (
                    f"the commit log file {file.path.name} is warm but cannot be locked in memory: {error.strerror}; "
                    "allow the broker to lock more (ulimit -l, LimitMEMLOCK of systemd), or leave it as it is"
                )


@attrs.define(eq=False)
class Preallocation:
    """Makes log files. All methods belong to the event loop; nothing is made before it is asked for."""

    _files: Files
    _workers: Workers  # make the files
    _folder: Path  # of the log
    _file_bytes: int
    _log: Callable[[str], object]  # is told, in one sentence, when a file could not be made or locked beforehand
    _warm_sync_bytes: int  # between the syncs of a file that is warmed, see `Warming`; 0 for no warming
    refusal: str | None = attrs.field(default=None, init=False)  # a sentence while the file needed now finds no room
    _ready: LogFile | None = attrs.field(default=None, init=False)
    _making: int = attrs.field(default=-1, init=False)  # start of the file a thread is making, -1 for none
    _in_use: int = attrs.field(default=-1, init=False)  # start of the newest file that was handed out
    # start of a file that could not be made beforehand; only `retry` tries it again
    _failed: int = attrs.field(default=-1, init=False)
    _told: int = attrs.field(default=-1, init=False)  # start of the file whose failure was told
    _closed: bool = attrs.field(default=False, init=False)
    _warming: Warming = attrs.field(factory=lambda: Warming(0), init=False)  # of the file that a thread made last
    _guard: Lock = attrs.field(factory=Lock, init=False)  # held while a file is made
    _may_lock: bool = attrs.field(default=True, init=False)  # until the system refused; a refusal is told once

    @property
    def busy(self) -> bool:
        """Whether a thread is at work."""
        return self._making >= 0

    def prepare(self, start: int) -> None:
        """See that the file at *start* is made in the background, unless it is already."""
        if (
            self._closed
            or self._making >= 0
            or self._failed == start
            or (self._ready is not None and self._ready.start == start)
        ):
            return
        self._making = start
        self._warming = warming = Warming(self._warm_sync_bytes, may_lock=self._may_lock)
        self._workers.submit(self._make, start, warming, done=lambda f, e: self._made(start, f, e))

    def take(self, start: int) -> LogFile:
        """The file at *start*, ready to be written.

        Raises:
            OSError: it could not be made; nothing is left behind.
        """
        ready, self._ready = self._ready, None
        if ready is None or ready.start != start:
            if ready is not None:
                ready.close()
            self._warming.stop()  # before the first record: a zero written later would be a lost message
            if self.refusal is not None and self._failed == start:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder / file_name(start)))
            try:
                with self._guard:
                    ready = create_log_file(self._files, self._folder, start, self._file_bytes)
                    self._in_use = start
            except OSError as error:
                self._files.remove(self._folder / file_name(start))
                if is_full(error):
                    self._failed = start
                    self.refusal = no_room(self._folder, f"the next commit log file of {self._file_bytes} bytes", error)
                raise
        self._in_use = start
        self._failed, self.refusal = -1, None
        return ready

    def retry(self) -> None:
        """Try the file again that could not be made; `refusal` is None when that succeeded."""
        if self._failed >= 0:
            start, self._failed = self._failed, -1
            self.prepare(start)

    def close(self) -> None:
        """Let go of a file that was made and not used; it stays, of full length and zeros, for the next start."""
        self._closed = True
        self._warming.stop()
        if self._ready is not None:
            self._ready.close()
            self._ready = None

    def _make(self, start: int, warming: Warming) -> LogFile | None:
        """Make the file at *start* and warm it; None where it was handed out before. Runs in a thread."""
        with self._guard:
            if self._in_use >= start:
                return None
            made = create_log_file(self._files, self._folder, start, self._file_bytes)
        if self._warm_sync_bytes:
            try:
                warming.warm(made)
            except BaseException:
                made.close()
                raise
        return made

    def _made(self, start: int, made: LogFile | None, error: BaseException | None) -> None:
        self._making = -1
        if self._warming.problem is not None and self._may_lock:
            self._may_lock = False
            self._log(self._warming.problem)
        if made is not None:
            if self._in_use >= start or self._closed:
                made.close()
            else:
                self._ready = made
                self.refusal = None
        elif error is not None and self._in_use < start:
            self._failed = start
            if self._told != start:
                self._told = start
                self._log(f"the next commit log file {file_name(start)} could not be made beforehand: {error}")
            self._files.remove(self._folder / file_name(start))
