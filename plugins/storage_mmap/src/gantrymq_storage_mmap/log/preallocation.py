"""Preallocation of the next log file, in a thread before it is needed.

The blocks of a log file are reserved when it is created, so a full disk shows up here as an error and not in the middle
of a write. If a file is needed before the thread has started, it is created immediately; if the thread is working on
it, the caller waits: on file systems that cannot reserve blocks, zeros are written, and a zero written later would
overwrite a message. If the disk is full, the creation is repeated in a thread (`retry`), not by every message that
needs the file.

The file may also be warmed (`Warming`): zeros in every block, pages in the cache. A reserved block that was never
written costs its first sync an additional change of file system metadata: measured on ext4, the median sync of 20 KB
took 60 us in a file that was only reserved and 35 us in one filled with zeros. So warming writes zeros, as RocketMQ
does, but through the descriptor like all other writes of this store. Unlike RocketMQ, it does not lock the file in
memory: the usual limit of 8 MiB refuses that, and with a lock neither syncs nor reads were faster.

Warming writes the whole log twice; therefore it is off by default. The sync
after every few pages keeps zeros from delaying a sender's sync. A file that is created because it is needed at once is
not warmed.

Source: apache/rocketmq store/.../AllocateMappedFileService.java, DefaultMappedFile.java (warmMappedFile).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

import attrs

from gantrymq.plugin.world import Files, Workers, is_disk_full
from gantrymq_storage_mmap.log.file import LogFile, create_log_file
from gantrymq_storage_mmap.log.writer import no_room
from gantrymq_store_files.file_names import file_name

STEP_BYTES: Final = 64 * 1024  # one write of zeros; `take` waits for one at most
_ZEROS: Final = bytes(STEP_BYTES)


@attrs.define(eq=False)
class Warming:
    """The warming of one file. `warm` runs in a thread, the rest belongs to the event loop.

    The file may be needed while it is being warmed; then another descriptor writes records to it, and a zero that is
    written afterwards would destroy one. So each step holds a lock that `stop` takes too: after `stop` has returned, no
    more zeros are written.
    """

    _sync_bytes: int  # bytes between syncs; the last bytes are synced too
    _guard: Lock = attrs.field(factory=Lock, init=False)
    _stopped: bool = attrs.field(default=False, init=False)

    def stop(self) -> None:
        """Stop the warming and return when no more zeros will be written. Harmless if it is done or never began."""
        with self._guard:
            self._stopped = True

    def warm(self, file: LogFile) -> None:
        """Fill *file*, which holds no record. Runs in a thread; returns early once stopped.

        Raises:
            OSError: a write or sync failed.
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


@attrs.define(eq=False)
class Preallocation:
    """Creates log files. All methods belong to the event loop; nothing is created before the first call."""

    _files: Files
    _workers: Workers  # create the files
    _folder: Path  # of the log
    _file_bytes: int
    _report: Callable[[str], object]  # called with one sentence if a file cannot be preallocated
    _warm_sync_bytes: int  # bytes between syncs while warming, see `Warming`; 0 for no warming
    refusal: str | None = attrs.field(default=None, init=False)  # set while the disk is full
    _ready: LogFile | None = attrs.field(default=None, init=False)
    _making: int = attrs.field(default=-1, init=False)  # start of the file that a thread is creating, -1 for none
    _in_use: int = attrs.field(default=-1, init=False)  # start of the newest file returned by `take`
    # start of a file that could not be preallocated; only `retry` repeats it
    _failed: int = attrs.field(default=-1, init=False)
    _reported: int = attrs.field(default=-1, init=False)  # start of the file whose failure was logged
    _closed: bool = attrs.field(default=False, init=False)
    _warming: Warming = attrs.field(factory=lambda: Warming(0), init=False)  # of the file that a thread created last
    _guard: Lock = attrs.field(factory=Lock, init=False)  # held while a file is created

    @property
    def busy(self) -> bool:
        """Whether a thread is working."""
        return self._making >= 0

    def prepare(self, start: int) -> None:
        """Create the file at *start* in the background, unless that is done or in progress."""
        if (
            self._closed
            or self._making >= 0
            or self._failed == start
            or (self._ready is not None and self._ready.start == start)
        ):
            return
        self._making = start
        self._warming = warming = Warming(self._warm_sync_bytes)
        self._workers.submit(self._make, start, warming, done=lambda f, e: self._made(start, f, e))

    def take(self, start: int) -> LogFile:
        """Return the file at *start*, ready to be written.

        Raises:
            OSError: it cannot be created; nothing is left behind.
        """
        ready, self._ready = self._ready, None
        if ready is None or ready.start != start:
            if ready is not None:
                ready.close()
            self._warming.stop()  # before the first record: a zero written later would overwrite a message
            if self.refusal is not None and self._failed == start:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder / file_name(start)))
            try:
                with self._guard:
                    ready = create_log_file(self._files, self._folder, start, self._file_bytes)
                    self._in_use = start
            except OSError as error:
                self._files.remove(self._folder / file_name(start))
                if is_disk_full(error):
                    self._failed = start
                    self.refusal = no_room(self._folder, f"the next commit log file of {self._file_bytes} bytes", error)
                raise
        self._in_use = start
        self._failed, self.refusal = -1, None
        return ready

    def restart(self, start: int) -> None:
        """Forget all files after the one at *start*, to be deleted by the caller. No thread is working."""
        self._in_use = start
        if self._ready is not None:
            self._ready.close()
            self._ready = None

    def retry(self) -> None:
        """Repeat a failed creation; `refusal` becomes None when it succeeds."""
        if self._failed >= 0:
            start, self._failed = self._failed, -1
            self.prepare(start)

    def close(self) -> None:
        """Close a preallocated file that was not used; it stays, full of zeros, for the next start."""
        self._closed = True
        self._warming.stop()
        if self._ready is not None:
            self._ready.close()
            self._ready = None

    def _make(self, start: int, warming: Warming) -> LogFile | None:
        """Create the file at *start* and warm it; None if it was taken before. Runs in a thread."""
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
        if made is not None:
            if self._in_use >= start or self._closed:
                made.close()
            else:
                self._ready = made
                self.refusal = None
        elif error is not None and self._in_use < start:
            self._failed = start
            if self._reported != start:
                self._reported = start
                self._report(f"the next commit log file {file_name(start)} could not be preallocated: {error}")
            self._files.remove(self._folder / file_name(start))
