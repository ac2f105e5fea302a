"""The next log file, made in a thread before it is needed.

A log file's blocks are reserved when it is made, so a full disk shows here as an error and never as a SIGBUS at a write
into the mapping. When a file is needed sooner than the thread is done, it is made on the spot: both do the same to the
same path, and the one that comes second is dropped.

Source of the idea: apache/rocketmq store/.../AllocateMappedFileService.java.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gantrymq.world import Files, Workers
from gantrymq_storage_mmap.log_file import LogFile, file_name
from gantrymq_storage_mmap.log_folder import create_log_file

__all__ = ["Preallocation"]


class Preallocation:
    """Makes log files. All methods belong to the event loop."""

    def __init__(
        self, files: Files, workers: Workers, folder: Path, file_bytes: int, log: Callable[[str], object]
    ) -> None:
        """*log* is told, in one sentence, when a file could not be made beforehand."""
        self._files = files
        self._workers = workers
        self._folder = folder
        self._file_bytes = file_bytes
        self._log = log
        self._ready: LogFile | None = None
        self._making = -1  # start of the file a thread is making, -1 for none
        self._in_use = -1  # start of the newest file that was handed out
        self._failed = -1  # start of a file that could not be made beforehand; it is not tried again
        self._closed = False

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
        self._workers.submit(
            create_log_file,
            self._files,
            self._folder,
            start,
            self._file_bytes,
            done=lambda f, e: self._made(start, f, e),
        )

    def take(self, start: int) -> LogFile:
        """The file at *start*, ready to be written.

        Raises:
            OSError: it could not be made; nothing is left behind.
        """
        ready, self._ready = self._ready, None
        if ready is None or ready.start != start:
            if ready is not None:
                ready.close()
            try:
                ready = create_log_file(self._files, self._folder, start, self._file_bytes)
            except OSError:
                if self._making != start:
                    self._files.remove(self._folder / file_name(start))
                raise
        self._in_use = start
        return ready

    def close(self) -> None:
        """Let go of a file that was made and not used; it stays, of full length and zeros, for the next start."""
        self._closed = True
        if self._ready is not None:
            self._ready.close()
            self._ready = None

    def _made(self, start: int, made: LogFile | None, error: BaseException | None) -> None:
        self._making = -1
        if made is not None:
            if self._in_use >= start or self._closed:
                made.close()
            else:
                self._ready = made
        elif self._in_use < start:
            self._failed = start
            self._log(f"the next commit log file {file_name(start)} could not be made beforehand: {error}")
            self._files.remove(self._folder / file_name(start))
