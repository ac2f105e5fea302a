"""Files with parts of the log, for rebuilds whose ranges are processed by several processes or machines.

    | mark 8 | length of the head u32, big-endian | head, JSON | queue entries | batch entries | keys |

A part can be read without its entries, or with the entries of some queues and a slice of its keys, so a process that
writes a few queues or one index file reads no more than it needs. Keys are three consecutive columns: hashes int32, log
offsets int64, store times int64, in the machine's byte order, which the head states.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Collection
from pathlib import Path
from typing import Any

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.model import Queue
from gantrymq.plugin.world import File, Files, FileTree
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_tools.record_entries import IndexKeys, RangePart, Run

_MARK = b"GMQPART1"
_LENGTH = struct.Struct(">I")
_PLAIN = (
    "start",
    "end",
    "zeros_from",
    "records",
    "record_bytes",
    "first_timestamp",
    "last_timestamp",
    "records_end",
)


@attrs.define
class PartHead:
    """The head of a part file."""

    path: Path
    part: RangePart  # without entries and keys
    keys: int  # number of keys
    entry_bytes: dict[Queue, int]  # bytes of entries by queue, ordinary and batch
    unreadable: list[tuple[int, int, str]]  # log offset, bytes, reason
    _queues: list[list[Any]]
    _batches: list[list[Any]]
    _body_at: int
    _keys_at: int


def write_part(files: FileTree, path: Path, part: RangePart, unreadable: list[tuple[int, int, str]]) -> None:
    """Write *part* to the file *path* atomically. Raises OSError."""
    pieces: list[bytes | bytearray] = []
    at = 0
    tables: dict[str, list[list[Any]]] = {"queues": [], "batches": []}
    for name, table in (("queues", part.queues), ("batches", part.batches)):
        for queue, runs in table.items():
            data = b"".join([run.entries for run in runs])
            bounds = [[run.start, run.end, len(run.entries)] for run in runs]
            tables[name].append([queue.topic, queue.queue_id, at, bounds])
            pieces.append(data)
            at += len(data)
    keys = part.index
    head = {
        **{name: getattr(part, name) for name in _PLAIN},
        **tables,
        "damages": [list(damage) for damage in part.damages],
        "unreadable": unreadable,
        "keys": len(keys.hashes),
        "keys_at": at,
        "byteorder": sys.byteorder,
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    columns = [keys.hashes.tobytes(), keys.log_offsets.tobytes(), keys.timestamps.tobytes()]
    files.replace(path, b"".join([_MARK, _LENGTH.pack(len(text)), text, *pieces, *columns]))


def read_head(files: Files, path: Path) -> PartHead:
    """Read the head of a part file.

    Raises:
        FormatError: it is not a part file, or it was written on a machine with another byte order.
        OSError: it cannot be read.
    """
    file = files.open(path, read_only=True)
    try:
        start = file.pread(len(_MARK) + _LENGTH.size, 0)
        if len(start) < len(_MARK) + _LENGTH.size or not start.startswith(_MARK):
            raise FormatError(f"{path} is not a part file; expected {_MARK!r} at its start")
        (length,) = _LENGTH.unpack_from(start, len(_MARK))
        head = json.loads(file.pread(length, len(start)))
    finally:
        file.close()
    if head["byteorder"] != sys.byteorder:
        raise FormatError(f"{path} was written on a {head['byteorder']}-endian machine, this one is {sys.byteorder}")
    part = RangePart(**{name: head[name] for name in _PLAIN})
    part.damages = [LogDamage(*damage) for damage in head["damages"]]
    entry_bytes: dict[Queue, int] = {}
    for topic, queue_id, _, bounds in (*head["queues"], *head["batches"]):
        queue = Queue(topic, queue_id)
        entry_bytes[queue] = entry_bytes.get(queue, 0) + sum(length for _, _, length in bounds)
    body_at = len(start) + length
    unreadable = [(place, size, why) for place, size, why in head["unreadable"]]
    keys_at = body_at + head["keys_at"]
    return PartHead(
        path, part, head["keys"], entry_bytes, unreadable, head["queues"], head["batches"], body_at, keys_at
    )


def read_part(
    files: Files, head: PartHead, queues: Collection[Queue] = (), keys: tuple[int, int] = (0, 0)
) -> RangePart:
    """Read the part of *head* with the entries of *queues* and the keys numbered ``[keys[0], keys[1])``.

    Raises:
        FormatError: the file is shorter than its head says.
        OSError: it cannot be read.
    """
    file = files.open(head.path, read_only=True)
    try:
        part = attrs.evolve(head.part, queues={}, batches={}, index=IndexKeys())
        for table, entries in ((part.queues, head._queues), (part.batches, head._batches)):
            for topic, queue_id, at, bounds in entries:
                if (queue := Queue(topic, queue_id)) in queues:
                    table[queue] = _runs(file, head._body_at + at, bounds)
        first, end = keys
        part.index.hashes = _column(file, "i", head._keys_at, first, end)
        part.index.log_offsets = _column(file, "q", head._keys_at + 4 * head.keys, first, end)
        part.index.timestamps = _column(file, "q", head._keys_at + 12 * head.keys, first, end)
    finally:
        file.close()
    return part


def _runs(file: File, at: int, bounds: list[list[int]]) -> list[Run]:
    runs = []
    for start, end, length in bounds:
        runs.append(Run(start, bytearray(_exactly(file, at, length)), end))
        at += length
    return runs


def _column(file: File, letter: str, at: int, first: int, end: int) -> array[int]:
    column: array[int] = array(letter)
    column.frombytes(_exactly(file, at + first * column.itemsize, max(end - first, 0) * column.itemsize))
    return column


def _exactly(file: File, at: int, length: int) -> bytes:
    data = file.pread(length, at)
    if len(data) != length:
        raise FormatError(f"{file.path} ends at {at + len(data)}, but its head announces {length} bytes from {at} on")
    return data
