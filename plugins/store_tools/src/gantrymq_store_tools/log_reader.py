"""Reads the log's files by log offset, without mappings: a disk failure raises an error instead of ending the process.

It is the `LogSource` of the store tools. Bytes that cannot be read are returned as zeros and recorded, page by page;
bytes missing from a file that is too short are returned as zeros.
"""

from __future__ import annotations

from gantrymq.plugin.world import File, Files
from gantrymq_store_files.log_source import FileRanges
from gantrymq_store_tools.layout import Series, StoreFile

__all__ = ["LogReader"]

_PAGE_BYTES = 4096


class LogReader(FileRanges):
    """The bytes of one log. One file is open at a time; call `close` at the end."""

    def __init__(self, files: Files, log: Series) -> None:
        """Nothing is opened yet."""
        super().__init__([file.start for file in log.files], log.file_bytes)
        self.log = log
        self.unreadable: list[tuple[int, int, str]] = []  # log offset, bytes, reason; each page once
        self._files = files
        self._open: tuple[StoreFile, File] | None = None
        self._failed: set[int] = set()

    def file_at(self, log_offset: int) -> StoreFile | None:
        """Return the file that holds *log_offset*, None if there is none."""
        number = self.number_at(log_offset)
        return None if number is None else self.log.files[number]

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the whole range: files are not searched for holes."""
        return [(start, end)]

    def read(self, log_offset: int, length: int) -> bytes:
        """Return exactly *length* bytes from *log_offset*, a range within one file of the expected size."""
        file = self.file_at(log_offset)
        assert file is not None
        opened, position = self._opened(file), log_offset - file.start
        try:
            data = opened.pread(length, position)
        except OSError as error:
            data = self._by_pages(opened, log_offset, length, position, error)
        return data if len(data) == length else data.ljust(length, b"\0")

    def close(self) -> None:
        """Close the open file."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _opened(self, file: StoreFile) -> File:
        if self._open is None or self._open[0] is not file:
            self.close()
            self._open = (file, self._files.open(file.path, read_only=True))
        return self._open[1]

    def _by_pages(self, opened: File, log_offset: int, length: int, position: int, error: OSError) -> bytes:
        parts = []
        at = position
        while at < position + length:
            step = min(_PAGE_BYTES - at % _PAGE_BYTES, position + length - at)
            try:
                parts.append(opened.pread(step, at).ljust(step, b"\0"))
            except OSError as problem:
                page = log_offset - position + at - at % _PAGE_BYTES
                if page not in self._failed:
                    self._failed.add(page)
                    self.unreadable.append((page, _PAGE_BYTES, str(problem or error)))
                parts.append(bytes(step))
            at += step
        return b"".join(parts)
