"""Writes index files from rebuilt parts. A file is named for the store time of its first message, in a given time zone.

RocketMQ names a file for its creation time; no two files have the same name, and names are in the order of the files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gantrymq.plugin.world import File, Files
from gantrymq_store_files.index import IndexHeader, IndexLayout, index_file_name, write_header
from gantrymq_store_files.index_table import IndexTable
from gantrymq_store_tools.range_part import IndexKeys, RangePart

__all__ = ["IndexWriter", "file_named_ms"]

SLOTS_AT_ONCE = 256 * 1024
KEYS_AT_ONCE = 64 * 1024


def file_named_ms(first_ms: int, before_ms: int) -> int:
    """Return the time a file is named for: the store time of its first message, but later than the name of the previous
    file.
    """
    return max(first_ms, before_ms + 1)


class IndexWriter:
    """Writes the index of one store into a folder. Call `add` for each part in log order, then `finish`."""

    def __init__(
        self,
        files: Files,
        target: Path,
        layout: IndexLayout,
        utc_offset_ms: Callable[[int], int],
        *,
        follows: IndexHeader | None = None,
        named_ms: int = 0,
    ) -> None:
        """Write nothing yet.

        Args:
            target: the index folder; created with the first file.
            layout: of every file.
            utc_offset_ms: how far local time is ahead of UTC at a wall time.
            follows: header of the file before the first one, if another writer writes it; its end time and end offset
                are used.
            named_ms: the time that file is named for.
        """
        self.entries = 0
        self.names: list[str] = []
        self._files = files
        self._target = target
        self._layout = layout
        self._utc_offset_ms = utc_offset_ms
        self._table: IndexTable | None = None
        self._file: File | None = None
        self._header = IndexHeader() if follows is None else follows.following()
        self._named_ms = named_ms

    def add(self, part: RangePart) -> None:
        """Write the keys of *part*. Raises OSError."""
        columns = part.index
        start, count = 0, len(columns.hashes)
        while start < count:
            table = self._writable(columns, start)
            assert self._file is not None
            end = start + KEYS_AT_ONCE
            put = table.put(columns.hashes[start:end], columns.log_offsets[start:end], columns.timestamps[start:end])
            self._file.pwrite(put.entries, self._layout.entry_at(put.first))
            start += put.taken
            self.entries += put.taken

    def finish(self) -> int:
        """Complete the last file and return the number of files. Raises OSError."""
        self._close()
        if self.names:
            self._files.sync_dir(self._target)
        return len(self.names)

    def _writable(self, columns: IndexKeys, start: int) -> IndexTable:
        if self._table is not None and not self._table.full:
            return self._table
        header = self._table.header.following() if self._table is not None else self._header
        self._close()
        self._named_ms = file_named_ms(columns.timestamps[start], self._named_ms)
        name = index_file_name(self._named_ms, self._utc_offset_ms(self._named_ms))
        self._files.make_dirs(self._target)
        self._file = self._files.open(self._target / name, create=True)
        self._file.truncate(self._layout.file_bytes)
        self.names.append(name)
        self._table = IndexTable(self._layout, header)
        return self._table

    def _close(self) -> None:
        if self._table is None or self._file is None:
            return
        table, file = self._table, self._file
        for first in range(0, self._layout.slots, SLOTS_AT_ONCE):
            file.pwrite(table.slot_bytes(first, SLOTS_AT_ONCE), self._layout.slot_at(first))
        file.pwrite(write_header(table.header), 0)
        file.datasync()
        file.close()
        self._file = None
