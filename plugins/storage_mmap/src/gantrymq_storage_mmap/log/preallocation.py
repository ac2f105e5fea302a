"""The next log file, made in a thread before it is needed.

A log file's blocks are reserved when it is made, so a full disk shows here as an error, and not in the middle of a
write. When a file is needed before the thread has begun, it is made on the spot; when the thread is at it, it is waited
for: where the file system cannot reserve, zeros are written, and a zero that comes later would be a lost message. One
that found no room is tried again in a thread (`retry`), not by every message that needs it.

Source of the idea: apache/rocketmq store/.../AllocateMappedFileService.java.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from gantrymq.world import Files, Workers
from gantrymq_storage_mmap.full_disk import is_full, no_room
from gantrymq_storage_mmap.log.file import LogFile, file_name
from gantrymq_storage_mmap.log.folder import create_log_file
from gantrymq_storage_mmap.log.warming import Warming

__all__ = ["Preallocation"]


class Preallocation:
    """Makes log files. All methods belong to the event loop."""

    def __init__(
        self,
        files: Files,
        workers: Workers,
        folder: Path,
        file_bytes: int,
        log: Callable[[str], object],
        warm_sync_bytes: int = 0,
    ) -> None:
        """Nothing is made before it is asked for.

        Args:
            files: where files are made.
            workers: make them.
            folder: of the log.
            file_bytes: size of each.
            log: is told, in one sentence, when a file could not be made or locked beforehand.
            warm_sync_bytes: bytes between the syncs of a file that is warmed, see `Warming`; 0 for no warming.
        """
        self._files = files
        self._workers = workers
        self._folder = folder
        self._file_bytes = file_bytes
        self._log = log
        self._ready: LogFile | None = None
        self._making = -1  # start of the file a thread is making, -1 for none
        self._in_use = -1  # start of the newest file that was handed out
        self._failed = -1  # start of a file that could not be made beforehand; only `retry` tries it again
        self._told = -1  # start of the file whose failure was told
        self.refusal: str | None = None  # a sentence while the file that is needed now finds no room
        self._closed = False
        self._warm_sync_bytes = warm_sync_bytes
        self._warming = Warming(warm_sync_bytes)  # of the file a thread is making
        self._guard = Lock()  # held while a file is made; of the next
        self._handed_out = -1  # start of the newest file that `take` made or handed out
        self._may_lock = True  # until the system refused; a refusal is told once

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
                    self._handed_out = start
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
            if self._handed_out >= start:
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
