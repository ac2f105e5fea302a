"""A bounded cache of files open for reading; the least recently used file is closed first."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from gantrymq.plugin.world import File, Files
from gantrymq_store_tools.layout import Series

_MAX_OPEN = 64
_LONG_BYTES = 16 * 1024  # a longer hole takes longer to read than to find


class OpenFiles:
    """Reads files and series of files. Call `close` at the end."""

    def __init__(self, files: Files) -> None:
        """Nothing is opened yet."""
        self._files = files
        self._open: OrderedDict[Path, File] = OrderedDict()

    def read(self, path: Path, position: int, length: int) -> bytes:
        """Return up to *length* bytes of one file; fewer at its end. Holes are not read. Raises OSError."""
        file = self._file(path)
        if length > _LONG_BYTES and not file.written(position, position + length):
            return bytes(max(0, min(length, file.size() - position)))
        return file.pread(length, position)

    def used_end(self, series: Series) -> int:
        """Return the position after which the last file of a series is a hole, 0 without files. Raises OSError."""
        if not series.files:
            return 0
        last = series.files[-1]
        ranges = self._file(last.path).written(0, last.size)
        return last.start + (ranges[-1][1] if ranges else 0)

    def read_series(self, series: Series, position: int, length: int) -> bytes:
        """Return exactly *length* bytes from *position* of the series; zeros for missing files. Raises OSError."""
        parts = []
        size, at, end = series.file_bytes, position, position + length
        for file in series.files:
            if file.start >= end:
                break
            if file.start + size <= at:
                continue
            if file.start > at:
                parts.append(bytes(file.start - at))
                at = file.start
            step = min(end, file.start + size) - at
            parts.append(self.read(file.path, at - file.start, step).ljust(step, b"\0"))
            at += step
        parts.append(bytes(end - at))
        return b"".join(parts)

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, path: Path) -> File:
        file = self._open.get(path)
        if file is None:
            if len(self._open) >= _MAX_OPEN:
                self._open.popitem(last=False)[1].close()
            file = self._open[path] = self._files.open(path, read_only=True)
        else:
            self._open.move_to_end(path)
        return file
