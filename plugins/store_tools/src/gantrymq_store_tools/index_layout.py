"""Detection of the numbers of slots and entries of index files, which the files do not state.

A file of T bytes has S slots and E entries with T = 40 + 4 S + 20 E, which many pairs satisfy. The newest entry
identifies the right pair: it holds the header's end offset, and the slot of its hash holds its number. RocketMQ's own
proportion, four entries to a slot, is tried first, then every position where the end offset occurs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gantrymq_store_files.index import ENTRY, HEADER_BYTES, SLOT, IndexLayout, read_header
from gantrymq_store_tools.layout import StoreFile
from gantrymq_store_tools.open_files import OpenFiles

__all__ = ["find_index_layout", "usual_layout"]

CHUNK_BYTES = 1024 * 1024


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
    for at in range(HEADER_BYTES, file.size, CHUNK_BYTES):
        data = open_files.read(file.path, at, CHUNK_BYTES + 8)
        place = data.find(wanted)
        while 0 <= place < CHUNK_BYTES:
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
