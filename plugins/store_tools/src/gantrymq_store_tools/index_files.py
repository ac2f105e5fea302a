"""Index files: detecting their numbers of slots and entries, and writing them from rebuilt parts.

The files do not state their numbers. A file of T bytes has S slots and E entries with T = 40 + 4 S + 20 E, which many
pairs satisfy. The newest entry identifies the right pair: it holds the header's end offset, and the slot of its hash
holds its number. RocketMQ's own proportion, four entries to a slot, is tried first, then every position where the end
offset occurs.

A file is named for the store time of its first message, in a given time zone. RocketMQ names it for its creation time;
no two files have the same name, and names are in the order of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gantrymq.plugin.world import File, Files
from gantrymq_store_files.index import (
    ENTRY,
    HEADER_BYTES,
    SLOT,
    IndexHeader,
    IndexLayout,
    index_file_name,
    read_header,
    write_header,
)
from gantrymq_store_files.index_table import IndexTable
from gantrymq_store_tools.layout import StoreFile
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.record_entries import IndexKeys, RangePart

__all__ = ["IndexWriter", "file_named_ms", "find_index_layout", "usual_layout"]

_CHUNK_BYTES = 1024 * 1024
_SLOTS_AT_ONCE = 256 * 1024
_KEYS_AT_ONCE = 64 * 1024


def find_index_layout(files: Sequence[StoreFile], open_files: OpenFiles) -> IndexLayout | None:
    """Return the layout of *files*, which have one size; None if no file confirms one. Raises OSError."""
    for file in reversed(files):
        for layout in _candidates(file, open_files):
            if _confirmed(file, layout, open_files):
                return layout
    return None


def usual_layout(file_bytes: int) -> IndexLayout | None:
    """Return the layout with RocketMQ's proportion that has *file_bytes* bytes, None if there is none."""
    rest = file_bytes - HEADER_BYTES
    slots = rest // 84
    return IndexLayout(slots, slots * 4) if slots > 0 and rest == slots * 84 else None


def _candidates(file: StoreFile, open_files: OpenFiles) -> Iterator[IndexLayout]:
    for per_slot in (4, 1, 2, 3, 5, 8, 10):
        slots = (file.size - HEADER_BYTES) // (4 + 20 * per_slot)
        layout = IndexLayout(slots, slots * per_slot)
        if slots > 0 and layout.file_bytes == file.size:
            yield layout
    if file.size < HEADER_BYTES:
        return
    header = read_header(open_files.read(file.path, 0, HEADER_BYTES))
    last = header.index_count - 1
    if last < 1 or header.end_offset == 0:  # zeros are everywhere in a new file, and searching them takes minutes
        return
    wanted = header.end_offset.to_bytes(8, "big", signed=True)
    for at in range(HEADER_BYTES, file.size, _CHUNK_BYTES):
        data = open_files.read(file.path, at, _CHUNK_BYTES + 8)
        place = data.find(wanted)
        while 0 <= place < _CHUNK_BYTES:
            slot_bytes = at + place - SLOT.size - ENTRY.size * last - HEADER_BYTES
            entry_bytes = file.size - HEADER_BYTES - slot_bytes
            if slot_bytes > 0 and slot_bytes % SLOT.size == 0 and entry_bytes % ENTRY.size == 0 and entry_bytes > 0:
                yield IndexLayout(slot_bytes // SLOT.size, entry_bytes // ENTRY.size)
            place = data.find(wanted, place + 1)


def _confirmed(file: StoreFile, layout: IndexLayout, open_files: OpenFiles) -> bool:
    header = read_header(open_files.read(file.path, 0, HEADER_BYTES))
    last = header.index_count - 1
    if not 0 < last < layout.entries:
        return False
    raw = open_files.read(file.path, layout.entry_at(last), ENTRY.size)
    if len(raw) < ENTRY.size:
        return False
    key_hash, log_offset, _, _ = ENTRY.unpack(raw)
    if key_hash < 0 or log_offset != header.end_offset:
        return False
    slot = open_files.read(file.path, layout.slot_at(key_hash % layout.slots), SLOT.size)
    return bool(SLOT.unpack(slot)[0] == last)


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
            end = start + _KEYS_AT_ONCE
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
        for first in range(0, self._layout.slots, _SLOTS_AT_ONCE):
            file.pwrite(table.slot_bytes(first, _SLOTS_AT_ONCE), self._layout.slot_at(first))
        file.pwrite(write_header(table.header), 0)
        file.datasync()
        file.close()
        self._file = None
