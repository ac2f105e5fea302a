"""Dispatch entries of plain records, many at a time.

A plain record is of version 1 between IPv4 hosts, its topic is ASCII and not that of delayed messages, its property
text is ASCII without zeros and without a check sum of the whole record (`record_crc`). Everything that `check_bytes`
checks is compared in place. Processing stops at the first record that is not plain, not sound or not complete; it is
left to `check_bytes`, which also determines the damage.
"""

from __future__ import annotations

from zlib import crc32

from gantrymq import speedups
from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import HEAD_V4, MAGIC_V1, MIN_RECORD_BYTES, PROPERTIES_LENGTH
from gantrymq.model.java import string_hash
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.properties import TAGS
from gantrymq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from gantrymq_store_files.record_crc import CRC_TAIL_BYTES, CRC_TAIL_START

_HEAD_BYTES = HEAD_V4.size
_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_SMALL_BYTES = 16 * 1024  # up to this size, copying is faster than a memoryview
_DELAYED = SCHEDULE_TOPIC.encode()
_TAGS = f"{TAGS}\x01".encode()
_LATER_TAGS = b"\x02" + _TAGS


def _plain_entries(
    data: bytes, position: int, log_offset: int, end: int, most: int, check_crc: bool, topics: dict[bytes, str]
) -> list[DispatchEntry]:
    """Return the plain records that follow each other from *position* on.

    Args:
        data: bytes of one log file.
        position: start of the first record in *data*.
        log_offset: the same position in the whole log.
        end: records from this log offset on are not included.
        most: maximum number of records.
        check_crc: whether to check bodies.
        topics: topics by their bytes, so that entries share them; new ones are added.
    """
    found: list[DispatchEntry] = []
    length = len(data)
    while len(found) < most and log_offset < end and position + MIN_RECORD_BYTES <= length:
        head = HEAD_V4.unpack_from(data, position)
        size, magic, crc, queue_id, _, queue_offset, place, sys_flag, _, _, timestamp, _, _, prepared, body_bytes = head
        record_end = position + size
        body_at = position + _HEAD_BYTES
        topic_at = body_at + body_bytes + 1
        if (
            magic != MAGIC_V1
            or place != log_offset
            or sys_flag & _HOST_BITS
            or body_bytes < 0
            or topic_at + 2 > record_end
            or record_end > length
        ):
            break
        length_at = topic_at + data[topic_at - 1]
        if (
            length_at + 2 > record_end
            or length_at + 2 + PROPERTIES_LENGTH.unpack_from(data, length_at)[0] != record_end
        ):
            break
        properties = data[length_at + 2 : record_end]
        if not properties.isascii() or 0 in properties or data.startswith(CRC_TAIL_START, record_end - CRC_TAIL_BYTES):
            break
        tag = _tag(properties)
        if tag is None:
            break
        if check_crc:
            small = body_bytes <= _SMALL_BYTES
            body = data[body_at : topic_at - 1] if small else memoryview(data)[body_at : topic_at - 1]
            if crc32(body) & 0x7FFFFFFF != crc:
                break
        name = data[topic_at:length_at]
        topic = topics.get(name)
        if topic is None:
            if not name or not name.isascii() or 0 in name or name == _DELAYED:
                break
            topic = topics[name] = name.decode()
        code = string_hash(tag.decode()) if tag else 0
        found.append(
            DispatchEntry(
                topic, queue_id, queue_offset, log_offset, size, code, timestamp, sys_flag, prepared, properties
            )
        )
        position = record_end
        log_offset += size
    return found


def _tag(properties: bytes) -> bytes | None:
    """Return the value of the last TAGS, empty without one; None if it is empty, so that an earlier one counts."""
    at = properties.rfind(_LATER_TAGS)
    if at >= 0:
        start = at + len(_LATER_TAGS)
    elif properties.startswith(_TAGS):
        start = len(_TAGS)
    else:
        return b""
    end = properties.find(b"\x02", start)
    return (properties[start:] if end < 0 else properties[start:end]) or None


plain_entries = (
    _plain_entries
    if speedups.compiled is None
    else speedups.compiled.EntryReader(DispatchEntry, (_DELAYED, _TAGS, CRC_TAIL_START), MAGIC_V1, _HOST_BITS)
)
