"""Single items of a store as stored in their files: a record, queue entries, index files, the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gantrymq.errors import FormatError, QueryNotFound
from gantrymq.plugin.model import Queue
from gantrymq.plugin.world import FileReader
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES, read_batch_entry
from gantrymq_store_files.checkpoint import decode_checkpoint
from gantrymq_store_files.ext_unit import MAX_UNIT_BYTES, ext_position, read_ext_unit
from gantrymq_store_files.index import ENTRY as INDEX_ENTRY
from gantrymq_store_files.index import HEADER_BYTES, read_header
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, is_ext_address, is_pre_blank
from gantrymq_store_tools.index_files import find_index_layout, usual_layout
from gantrymq_store_tools.layout import Layout, Series
from gantrymq_store_tools.open_files import OpenFiles

_READ_ENTRIES = 1024


def checkpoint_fields(files: FileReader, layout: Layout) -> dict[str, Any]:
    """Return the five fields of the checkpoint.

    Raises:
        QueryNotFound: there is no checkpoint.
    """
    if layout.checkpoint is None:
        raise QueryNotFound(f"{layout.root} has no checkpoint")
    return decode_checkpoint(files.read(layout.checkpoint.path))._asdict()


def queue_rows(layout: Layout, open_files: OpenFiles, queue: Queue, first: int | None) -> Iterator[dict[str, Any]]:
    """Yield entries of an ordinary or batch queue from queue offset *first* on (None: from its first file).

    Raises:
        QueryNotFound: the store has no such queue.
    """
    if queue in layout.batch:
        yield from _batch_rows(layout.batch[queue], open_files, first)
        return
    series = layout.queues.get(queue)
    if series is None:
        there = sorted(each.queue_id for each in (*layout.queues, *layout.batch) if each.topic == queue.topic)
        known = f"it has {', '.join(map(str, there))}" if there else "it has no queue of that topic"
        raise QueryNotFound(f"the store has no queue {queue.queue_id} of topic {queue.topic}; {known}")
    offset = max(series.start // ENTRY_BYTES, first or 0)
    end = series.end // ENTRY_BYTES
    while offset < end:
        data = open_files.read_series(series, offset * ENTRY_BYTES, min(_READ_ENTRIES, end - offset) * ENTRY_BYTES)
        for place, size, code in ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY_BYTES]):
            if size <= 0 and place == 0:
                return
            row = {"queue_offset": offset, "log_offset": place, "size": size, "tags_code": code}
            if is_pre_blank(place, size):
                row = {"queue_offset": offset, "blank": True}
            elif is_ext_address(code):
                row["ext"] = _unit(layout.ext.get(queue, Series()), open_files, code)
            yield row
            offset += 1


def index_header(layout: Layout, open_files: OpenFiles, name: str) -> dict[str, Any]:
    """Return the header of one index file, and its numbers of slots and entries if they can be determined.

    Raises:
        QueryNotFound: there is no such file.
    """
    for file in layout.index:
        if file.path.name == name:
            header = read_header(open_files.read(file.path, 0, HEADER_BYTES).ljust(HEADER_BYTES, b"\0"))
            found = find_index_layout(layout.index, open_files) or usual_layout(file.size)
            sizes = {"slots": found.slots, "room": found.entries - 1} if found is not None else {}
            return {"file": name, **header._asdict(), **sizes}
    there = ", ".join(file.path.name for file in layout.index) or "none"
    raise QueryNotFound(f"there is no index file {name}; there is: {there}")


def index_entries(layout: Layout, open_files: OpenFiles, name: str, first: int) -> Iterator[dict[str, Any]]:
    """Yield the entries of one index file from number *first* (at least 1) on.

    Raises:
        QueryNotFound: there is no such file, or the position of its entries cannot be determined.
    """
    header = index_header(layout, open_files, name)
    if "slots" not in header:
        raise QueryNotFound(f"the number of slots of {name} cannot be determined")
    file = next(file for file in layout.index if file.path.name == name)
    start = HEADER_BYTES + header["slots"] * 4
    for number in range(max(first, 1), header["index_count"]):
        raw = open_files.read(file.path, start + number * INDEX_ENTRY.size, INDEX_ENTRY.size)
        if len(raw) < INDEX_ENTRY.size:
            return
        key_hash, log_offset, seconds, previous = INDEX_ENTRY.unpack(raw)
        yield {
            "number": number,
            "hash": key_hash,
            "slot": key_hash % header["slots"],
            "log_offset": log_offset,
            "seconds": seconds,
            "previous": previous,
        }


def file_rows(layout: Layout) -> list[dict[str, Any]]:
    """List every file of the store that these tools read."""
    rows = [{"kind": "log", "file": layout.name(file.path), "bytes": file.size} for file in layout.log.files]
    for kind, table in (("queue", layout.queues), ("ext", layout.ext), ("batch queue", layout.batch)):
        for _, series in sorted(table.items()):
            rows += [{"kind": kind, "file": layout.name(file.path), "bytes": file.size} for file in series.files]
    rows += [{"kind": "index", "file": layout.name(file.path), "bytes": file.size} for file in layout.index]
    if layout.checkpoint is not None:
        rows.append({"kind": "checkpoint", "file": "checkpoint", "bytes": layout.checkpoint.size})
    rows += [{"kind": "config", "file": layout.name(file.path), "bytes": file.size} for file in layout.configs]
    return rows


def _batch_rows(series: Series, open_files: OpenFiles, first: int | None) -> Iterator[dict[str, Any]]:
    for at in range(series.start, series.end, _READ_ENTRIES * BATCH_ENTRY_BYTES):
        length = min(_READ_ENTRIES * BATCH_ENTRY_BYTES, series.end - at)
        data = open_files.read_series(series, at, length)
        for index in range(length // BATCH_ENTRY_BYTES):
            entry = read_batch_entry(data, index)
            if entry is None:
                return
            if first is None or entry.end_offset > first:
                yield {
                    "queue_offset": entry.base_offset,
                    "messages": entry.messages,
                    "log_offset": entry.log_offset,
                    "size": entry.size,
                    "tags_code": entry.tags_code,
                    "stored_ms": entry.store_timestamp,
                }


def _unit(series: Series, open_files: OpenFiles, address: int) -> dict[str, Any] | None:
    position = ext_position(address)
    if not series.start <= position < series.end:
        return None
    left = series.file_bytes - position % series.file_bytes
    try:
        unit = read_ext_unit(open_files.read_series(series, position, min(left, MAX_UNIT_BYTES)), 0)
    except FormatError:
        return None
    if unit is None:
        return None
    return {
        "position": position,
        "tags_code": unit.tags_code,
        "stored_ms": unit.store_timestamp,
        "bits": unit.bits.hex(),
    }
