"""Reading the log for the index: records from a place on, in pieces that a thread reads and the event loop decodes.

Source of what is passed over: apache/rocketmq store/.../DefaultMessageStore.java (ReputMessageService).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gantrymq.formats.blank import BLANK_BYTES, MAGIC_BLANK
from gantrymq.formats.check import check_place
from gantrymq.interfaces import DispatchEntry
from gantrymq_storage_mmap.log.commit_log import CommitLog

__all__ = ["CHUNK_BYTES", "Decoded", "LogPiece", "decode_piece", "read_piece"]

CHUNK_BYTES = 1024 * 1024
_START = struct.Struct(">iI")


class LogPiece(NamedTuple):
    """Bytes of one log file."""

    start: int  # log offset of the first byte
    data: memoryview
    file_end: int  # log offset where the file ends
    last: bool  # nothing more may be read from this file


class Decoded(NamedTuple):
    """Records of a piece."""

    entries: list[DispatchEntry]
    place: int  # log offset where the next one starts; unchanged where the first did not fit the piece
    problem: str  # why the rest of the file cannot be read, and was passed over


def read_piece(log: CommitLog, start: int, end: int, chunk_bytes: int) -> LogPiece | None:
    """Up to *chunk_bytes* of ``[start, end)`` from one file; None where the log has no such place. Runs in a thread.

    Raises:
        OSError: the disk failed.
    """
    file = log.find(start)
    if file is None:
        return None
    limit = min(file.end, end)
    until = min(start + chunk_bytes, limit)
    return LogPiece(start, memoryview(file.pread(start, until)), file.end, until == limit)


def decode_piece(piece: LogPiece, place: int, count: int) -> Decoded:
    """Up to *count* records of *piece* from log offset *place* on. Budget: 5 us a record."""
    found: list[DispatchEntry] = []
    end = piece.start + len(piece.data)
    while len(found) < count and place < end:
        left = end - place
        if left < BLANK_BYTES:
            return Decoded(found, piece.file_end if piece.last else place, "")
        size, magic = _START.unpack_from(piece.data, place - piece.start)
        if magic == MAGIC_BLANK:
            return Decoded(found, piece.file_end, "")
        if size > left and not piece.last:
            break
        record, problem = check_place(piece.data, place - piece.start, place, check_crc=False)[2:]
        if record is None:
            return Decoded(found, piece.file_end, problem or f"log offset {place}: nothing stands there")
        found.append(
            DispatchEntry(
                record.topic,
                record.queue_id,
                record.queue_offset,
                place,
                size,
                0,  # the index does not look at the tags code
                record.store_timestamp,
                record.sys_flag,
                record.prepared_offset,
                bytes(record.properties_bytes),
            )
        )
        place += size
    return Decoded(found, place, "")
