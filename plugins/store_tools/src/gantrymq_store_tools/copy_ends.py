"""Positions in queues, ext files and the log of a store that a broker may be writing: where the data to copy ends."""

from __future__ import annotations

import struct

from gantrymq.errors import FormatError
from gantrymq.plugin.world import Files
from gantrymq_store_files.ext_unit import read_ext_unit
from gantrymq_store_files.log_walk import LogWalk
from gantrymq_store_tools.layout import Layout, Series
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles

__all__ = ["ext_end", "log_end", "queue_end"]

_ENTRY_HEAD = struct.Struct(">qi")  # log offset and record size, in entries of both kinds of queues
HEAD_BYTES = 8


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
                if any(reader.read(file.start, HEAD_BYTES)):
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
