"""Copies log, queues and index of a store that a broker may be writing, up to given ends.

Files of the log, of a queue and of the index are copied the newest first: brokers delete the oldest one, and what is
older than a deleted file is not needed. If a topic is deleted meanwhile, its queues are left out.

Queues and index are copied up to the store's checkpoint. Full log files before it may become hard links, to the store
or to an earlier backup: no broker writes to them any more, it can only delete them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gantrymq.errors import FormatError
from gantrymq.plugin.formats import COMMIT_LOG
from gantrymq.plugin.world import FileReader, Files
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.checkpoint import Checkpoint
from gantrymq_store_files.ext_unit import read_ext_unit
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.index import HEADER_BYTES, read_header
from gantrymq_store_files.log_walk import LogWalk
from gantrymq_store_files.queue_entry import ENTRY_BYTES
from gantrymq_store_tools.backup_manifest import STORED, read_manifest
from gantrymq_store_tools.findings import ProgressListener
from gantrymq_store_tools.layout import Layout, Series, StoreFile
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.summed_copy import NewFolder, Sum

_ENTRY_HEAD = struct.Struct(">qi")  # log offset and record size, in entries of both kinds of queues
_HEAD_BYTES = 8
_SAMPLE_BYTES = 4096


def queue_end(open_files: OpenFiles, series: Series, entry_bytes: int, log_offset: int) -> int:
    """Return the position after the last entry of a queue whose record is before *log_offset*; entries are in order.

    Raises:
        OSError: the disk failed. FileNotFoundError: a file of the queue does not exist any more.
    """
    low, high = 0, -(-(open_files.used_end(series) - series.start) // entry_bytes)
    while low < high:
        middle = (low + high) // 2
        data = open_files.read_series(series, series.start + middle * entry_bytes, _ENTRY_HEAD.size)
        found, size = _ENTRY_HEAD.unpack(data)
        if size > 0 and found < log_offset:
            low = middle + 1
        else:
            high = middle
    return series.start + low * entry_bytes


def ext_end(open_files: OpenFiles, series: Series, before_ms: int) -> int:
    """Return the position in the ext files of a queue after its units of messages stored before *before_ms*.

    Raises:
        OSError: the disk failed. FileNotFoundError: the last file does not exist any more.
    """
    file = series.files[-1]
    data, at = open_files.read(file.path, 0, file.size), 0
    try:
        while (unit := read_ext_unit(data, at)) is not None and unit.store_timestamp < before_ms:
            at += unit.size
    except FormatError:  # being written
        pass
    return file.start + at


def log_end(files: Files, layout: Layout, start: int | None) -> int:
    """Return the end of the last sound record; a record that is being written does not count.

    Args:
        start: log offset of a record or of the end; None for the last log file that is not empty.

    Raises:
        OSError: the disk failed. FileNotFoundError: a log file does not exist any more.
    """
    reader = _SparseReader(files, layout.log)
    try:
        if start is None:
            start = reader.start
            for file in layout.log.files:
                if any(reader.read(file.start, _HEAD_BYTES)):
                    start = file.start
        walk = LogWalk(reader, start, check_beyond_end=False)
        for _ in walk:
            pass
        return walk.sound_end
    finally:
        reader.close()


class _SparseReader(LogReader):
    """A reader that knows the holes, so that the unused part of the log is not read."""

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of the range that may have been written."""
        file = self.file_at(start)
        if file is None:
            return []
        found = self._opened(file).written(start - file.start, end - file.start)
        return [(file.start + low, file.start + high) for low, high in found]


class DurableTo(NamedTuple):
    """What is copied of a store that is in use, or was killed."""

    log_offset: int  # entries of later records are not copied
    checkpoint: Checkpoint  # ext units of later records, and index files that it does not cover, are not copied


class DerivedCopy:
    """Copies everything that a broker derives from the log."""

    def __init__(self, files: Files, new: NewFolder, layout: Layout, progress: ProgressListener) -> None:
        """Copy nothing yet. *new* receives the files; *progress* is told of the bytes that are read."""
        self._files = files
        self._new = new
        self._layout = layout
        self._progress = progress
        self._open = OpenFiles(files)

    def run(self, durable: DurableTo | None) -> None:
        """Copy up to *durable*; everything if it is None.

        Raises:
            StoreError: a file cannot be read.
            OSError: the disk failed, or is full.
        """
        try:
            self._copy_queues(durable)
            self._copy_ext(durable)
            self._copy_index(durable)
        finally:
            self._open.close()

    def _copy_queues(self, durable: DurableTo | None) -> None:
        layout = self._layout
        for table, entry_bytes in ((layout.queues, ENTRY_BYTES), (layout.batch, BATCH_ENTRY_BYTES)):
            for _, series in sorted(table.items()):
                end = series.end
                if durable is not None:
                    try:
                        end = queue_end(self._open, series, entry_bytes, durable.log_offset)
                    except FileNotFoundError:  # its topic was deleted, or its first file by age
                        continue
                self._copy(series.files, end)

    def _copy_ext(self, durable: DurableTo | None) -> None:
        for _, series in sorted(self._layout.ext.items()):
            end = series.end
            if durable is not None:
                try:
                    end = ext_end(self._open, series, durable.checkpoint.queue_timestamp)
                except FileNotFoundError:
                    continue
            self._copy(series.files, end)

    def _copy_index(self, durable: DurableTo | None) -> None:
        self._copy([file for file in self._layout.index if durable is None or self._is_covered(file, durable)])

    def _is_covered(self, file: StoreFile, durable: DurableTo) -> bool:
        header = self._files.peek(file.path, HEADER_BYTES, 0) or b""
        return len(header) == HEADER_BYTES and (
            0 < read_header(header).end_timestamp <= durable.checkpoint.index_timestamp
        )

    def _copy(self, series: Sequence[StoreFile], end: int | None = None) -> None:
        """Copy files of one series up to *end*."""
        for file in reversed(series):
            if end is not None and file.start >= end:
                continue
            length = None if end is None else end - file.start
            try:
                self._new.copy(file.path, self._layout.name(file.path), length, self._progress.advance)
            except FileNotFoundError:
                return


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
        for at in (0, max(0, stored.used - _SAMPLE_BYTES)):
            length = min(_SAMPLE_BYTES, stored.size - at)
            samples = [(self._files.peek(each, length, at) or b"").rstrip(b"\0") for each in (source, earlier)]
            if not samples[0] or samples[0] != samples[1]:
                return None
        rest = self._files.peek(source, _SAMPLE_BYTES, stored.used)
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
