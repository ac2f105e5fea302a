"""Check of one position of the log: a sound record, a blank, nothing, or data that must not be trusted.

Java's recovery checks lengths and the CRC of the body. It accepts a record whose write was torn inside its topic or its
properties: the lengths still add up while the text consists of zero bytes. So this check covers the whole structure:

- total size, magic, and lengths that add up exactly;
- the log offset in the record equals its position;
- the body's CRC;
- the topic is not empty, is UTF-8, and contains no zero byte;
- the property text is UTF-8 (lone surrogates, which Java may write, are accepted) and contains no zeros as left by a
  torn write: none at its end, and no run of 512 (the smallest unit that a disk tears). A single zero inside a value is
  legal; a client may have sent it.

Source of the first three: apache/rocketmq store/.../CommitLog.java (checkMessageAndReturnSize).
"""

from __future__ import annotations

import enum
import struct
from functools import partial
from typing import NamedTuple
from zlib import crc32

from gantrymq import speedups
from gantrymq.errors import FormatError
from gantrymq.formats.record import (
    HEAD_V4,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    PROPERTIES_LENGTH,
    RecordView,
    read_record,
)
from gantrymq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from gantrymq_store_files.blank import BLANK_BYTES, MAGIC_BLANK
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES

_START = struct.Struct(">iI")
_PLAIN_HEAD = struct.Struct(">iII8xqqi44xi")  # the fields of HEAD_V4 needed to check a plain record
_HEAD_V4_BYTES = HEAD_V4.size
_LOG_OFFSET_AT = 28
HEAD_BYTES = 36  # of a record, up to and including its log offset
_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_SECTOR_BYTES = 512
_SMALL_BYTES = 16 * 1024  # up to this size, copying is faster than a memoryview
_ZERO_SECTOR = bytes(_SECTOR_BYTES)


class LogContent(enum.Enum):
    """Kinds of content at a position of the log."""

    RECORD = enum.auto()
    BLANK = enum.auto()  # the rest of the file is deliberately unused
    END = enum.auto()  # never written: size and magic are zero, or do not fit the file
    TORN = enum.auto()  # an interrupted write: zeros in place of its last bytes
    DAMAGED = enum.auto()  # anything else


class CheckResult(NamedTuple):
    """Result of checking one position."""

    found: LogContent
    size: int  # bytes of the record, or from the blank to the end of the file; 0 otherwise
    record: RecordView | None
    problem: str  # description of the damage, empty if there is none


def check_bytes(buf: memoryview, position: int, log_offset: int, *, check_crc: bool = True) -> CheckResult:
    """Check the content at *position*.

    Args:
        buf: the bytes of one log file up to its end (at least to the end of the record).
        position: from the start of *buf*.
        log_offset: the same position, counted from the start of the whole log.
        check_crc: False skips the body's CRC (``checkCRCOnRecover=false``).
    """
    left = len(buf) - position
    if left < BLANK_BYTES:
        return CheckResult(LogContent.END, 0, None, "")
    size, magic = _START.unpack_from(buf, position)
    if magic == MAGIC_BLANK:
        if size == left:
            return CheckResult(LogContent.BLANK, size, None, "")
        return CheckResult(LogContent.DAMAGED, 0, None, f"blank at {log_offset} claims {size} bytes, {left} are left")
    if size == 0 and magic == 0:
        return CheckResult(LogContent.END, 0, None, "")
    try:
        record = read_record(buf, position)
    except FormatError as problem:
        torn = _ends_in_zeros(buf, position, size)
        return CheckResult(
            LogContent.TORN if torn else LogContent.DAMAGED, 0, None, f"log offset {log_offset}: {problem}"
        )
    problem_text = _problem(record, log_offset, check_crc)
    if problem_text is None:
        return CheckResult(LogContent.RECORD, size, record, "")
    torn = _ends_in_zeros(buf, position, size)
    return CheckResult(
        LogContent.TORN if torn else LogContent.DAMAGED, 0, None, f"record at log offset {log_offset}: {problem_text}"
    )


def verified_queue_offset(piece: bytes, position: int, log_offset: int, size: int, topic: bytes) -> int:
    """Return the queue offset of a record that is certainly sound; -1 if `check_bytes` has to decide.

    Most records of a log are plain (version 1, two IPv4 hosts, ASCII properties) and can be checked without creating an
    object: everything that `check_bytes` checks is compared in place.

    Args:
        piece: bytes that contain the record.
        position: start of the record in *piece*.
        log_offset: the same position in the whole log.
        size: expected size in bytes.
        topic: expected topic.
    """
    end = position + size
    if size < MIN_RECORD_BYTES or end > len(piece):
        return -1
    found, magic, crc, queue_offset, place, flags, body_bytes = _PLAIN_HEAD.unpack_from(piece, position)
    body_at = position + _HEAD_V4_BYTES
    topic_at = body_at + body_bytes + 1
    length_at = topic_at + len(topic)
    if (
        found != size
        or magic != MAGIC_V1
        or place != log_offset
        or flags & _HOST_BITS
        or body_bytes < 0
        or length_at + 2 > end
        or piece[topic_at - 1] != len(topic)
        or not piece.startswith(topic, topic_at)
        or length_at + 2 + PROPERTIES_LENGTH.unpack_from(piece, length_at)[0] != end
    ):
        return -1
    body = piece[body_at : topic_at - 1] if body_bytes <= _SMALL_BYTES else memoryview(piece)[body_at : topic_at - 1]
    if crc32(body) & 0x7FFFFFFF != crc:
        return -1
    properties = piece[length_at + 2 : end]
    return queue_offset if properties.isascii() and 0 not in properties else -1


def _sound_records(
    data: bytes, start: int, entries: bytes, index: int, queue_offset: int, topic: bytes
) -> tuple[int, bytes]:
    """Return the records of consecutive queue entries, as far as they are within *data* and certainly sound.

    Args:
        data: bytes of the log.
        start: log offset of *data*.
        entries: packed.
        index: number of the first entry to use.
        queue_offset: of its record.
        topic: of all records.

    Returns:
        The number of records, 0 if `check_bytes` has to decide about the first one, and their bytes, concatenated.
    """
    parts: list[memoryview] = []
    view = memoryview(data)
    for log_offset, size, _ in ENTRY.iter_unpack(entries[index * ENTRY_BYTES :]):
        position, expected = log_offset - start, queue_offset + len(parts)
        if position < 0 or verified_queue_offset(data, position, log_offset, size, topic) != expected:
            break
        parts.append(view[position : position + size])
    return len(parts), b"".join(parts)


sound_records = (
    _sound_records if speedups.compiled is None else partial(speedups.compiled.sound_records, MAGIC_V1, _HOST_BITS)
)


def head_is_sound(head: bytes, log_offset: int, file_bytes: int) -> bool:
    """Return whether *head*, the first `HEAD_BYTES` bytes of a log file, is that of its first record or of a blank."""
    if len(head) < HEAD_BYTES:
        return False
    size, magic = _START.unpack_from(head)
    if magic == MAGIC_BLANK:
        return bool(size == file_bytes)
    place = int.from_bytes(head[_LOG_OFFSET_AT:HEAD_BYTES], "big")
    return magic in (MAGIC_V1, MAGIC_V2) and MIN_RECORD_BYTES <= size <= file_bytes and place == log_offset


def properties_problem(text: bytes) -> str | None:
    """Return why the stored property text *text* is not trusted, or None."""
    if not text.isascii():
        try:
            text.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as problem:
            return f"byte {problem.start} of the properties is not UTF-8"
    if b"\0" in text and (text[-1] == 0 or _ZERO_SECTOR in text):
        return "the properties hold zero bytes where text belongs"
    return None


def _problem(record: RecordView, log_offset: int, check_crc: bool) -> str | None:
    if record.log_offset != log_offset:
        return f"its log offset field is {record.log_offset}"
    if check_crc and crc32(record.body) & 0x7FFFFFFF != record.body_crc:
        return f"the body's CRC is {crc32(record.body) & 0x7FFFFFFF}, the record says {record.body_crc}"
    if not record.topic or "\0" in record.topic:
        return f"the topic is {record.topic!r}"
    return properties_problem(bytes(record.properties_bytes))


def _ends_in_zeros(buf: memoryview, position: int, size: int) -> bool:
    """Return whether a record of *size* bytes fits here and its last byte is zero, as after an interrupted write.

    A record without properties also ends in zeros; damage in it is taken for a torn write, which makes no difference.
    """
    end = position + size
    return position < end <= len(buf) and buf[end - 1] == 0
