"""Copies the log up to a given end. Full files may become hard links, to the store or to an earlier backup.

Only files that lie before the checkpoint are linked: no broker writes to them any more, it can only delete them. The
newest file is copied first, because brokers delete the oldest one: what is older than a deleted file is not needed.
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.plugin.formats import COMMIT_LOG
from gantrymq.plugin.world import FileReader
from gantrymq_store_files.file_names import file_name
from gantrymq_store_tools.backup_manifest import STORED, read_manifest
from gantrymq_store_tools.findings import ProgressListener
from gantrymq_store_tools.layout import Series, StoreFile
from gantrymq_store_tools.summed_copy import NewFolder, Sum

__all__ = ["EarlierLog", "LogCopy"]

SAMPLE_BYTES = 4096


class EarlierLog:
    """The log files of an earlier backup."""

    def __init__(self, files: FileReader, backup: Path) -> None:
        """Read its manifest. Raises StoreError: *backup* is no complete backup."""
        self._files = files
        self._root = backup / STORED
        self._stored = {file.path: file for file in read_manifest(files, backup).files}

    def find(self, source: Path, path: str) -> tuple[Path, Sum] | None:
        """Return the file *path* of the earlier backup and its sum, if it is that of the full log file *source*.

        Its first and its last bytes are compared: they hold times, positions and ids of messages. Raises OSError.
        """
        stored, stat, earlier = self._stored.get(path), self._files.stat(source), self._root / path
        if stored is None or stat is None or stat.size != stored.size:
            return None
        for at in (0, max(0, stored.used - SAMPLE_BYTES)):
            length = min(SAMPLE_BYTES, stored.size - at)
            samples = [(self._files.peek(each, length, at) or b"").rstrip(b"\0") for each in (source, earlier)]
            if not samples[0] or samples[0] != samples[1]:
                return None
        rest = self._files.peek(source, SAMPLE_BYTES, stored.used)
        return None if rest and any(rest) else (earlier, Sum(stored.size, stored.used, stored.sha256))


class LogCopy:
    """Copies one log into a new folder."""

    def __init__(
        self,
        new: NewFolder,
        log: Series,
        end: int,
        progress: ProgressListener,
        *,
        fixed_to: int,
        link: bool,
        earlier: EarlierLog | None,
    ) -> None:
        """Copy nothing yet.

        Args:
            new: receives the files.
            log: the log's files.
            end: log offset of the end of the copy.
            progress: told of the bytes that are read.
            fixed_to: log offset before which no broker changes a full file any more.
            link: link such files to the store.
            earlier: link such files to this backup if it has them.
        """
        self._new = new
        self._log = log
        self._end = end
        self._progress = progress
        self._fixed_to = min(fixed_to, end)
        self._link = link
        self._earlier = earlier

    def run(self) -> int | None:
        """Copy, and return the start of the log in the copy; None if all files were deleted meanwhile.

        Raises:
            StoreError: a file cannot be read.
            OSError: the disk failed, or is full.
        """
        start = None
        for file in reversed(self._log.files):
            if file.start >= self._end > self._log.start:
                continue
            try:
                self._one(file)
            except FileNotFoundError:
                break
            start = file.start
        return start

    def _one(self, file: StoreFile) -> None:
        path, advance = f"{COMMIT_LOG}/{file_name(file.start)}", self._progress.advance
        if file.size == self._log.file_bytes and file.start + file.size <= self._fixed_to:
            if self._earlier is not None and (found := self._earlier.find(file.path, path)) is not None:
                source, known = found
                if self._new.link(source, path, known):
                    return
            if self._link and self._new.link(file.path, path, advance=advance):
                return
        self._new.copy(file.path, path, self._end - file.start, advance)
