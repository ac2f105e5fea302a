"""Records: the format of a message in the commit log and in pull responses. Big-endian.

    | total size i32 | magic u32 | body crc i32 | queue id i32 | flag i32 | queue offset i64 | log offset i64 |
    | sys flag i32 | born time i64 | born host 8 or 20 | store time i64 | store host 8 or 20 | reconsume times i32 |
    | prepared offset i64 | body length i32, body | topic length u8 (v1) or i16 (v2), topic | length i16, properties |

- total size includes its own four bytes.
- A host is 4 or 16 address bytes and the port as int32; sys flag bit 0x10 marks an IPv6 born host, 0x20 an IPv6 store
  host. With two IPv4 hosts the store time is at position 56 and the body at 88.
- body crc is the CRC-32 of the stored (possibly compressed) body without its top bit; 0 without a body.
- Version 2 differs in the topic length only; it is used for topics longer than 127 bytes.

Source: apache/rocketmq common/.../message/MessageDecoder.java (decode), MessageVersion.java;
store/.../MessageExtEncoder.java (calMsgLength, encode).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from zlib import crc32

from gantrymq.errors import FormatError
from gantrymq.model import properties as property_text
from gantrymq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6

Buffer = bytes | bytearray | memoryview

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAX_V1_TOPIC_BYTES = 127  # the length is one signed byte
MAX_TOPIC_BYTES = 32767  # version 2: the length is a signed short
MAX_PROPERTIES_BYTES = property_text.MAX_BYTES
MIN_RECORD_BYTES = 91  # version 1, two IPv4 hosts, no body, topic or properties

HEAD_FIELDS = (  # all fields before the body, with struct's format letters
    ("total_size", "i"),
    ("magic", "I"),
    ("body_crc", "i"),
    ("queue_id", "i"),
    ("flag", "i"),
    ("queue_offset", "q"),
    ("log_offset", "q"),
    ("sys_flag", "i"),
    ("born_timestamp", "q"),
    ("born_host", "8s"),  # 20s for IPv6
    ("store_timestamp", "q"),
    ("store_host", "8s"),  # 20s for IPv6
    ("reconsume_times", "i"),
    ("prepared_offset", "q"),
    ("body_length", "i"),
)


def _head(**hosts: str) -> struct.Struct:
    return struct.Struct(">" + "".join(hosts.get(name, letters) for name, letters in HEAD_FIELDS))


HEAD_V4 = _head()
HEADS = (  # index: the two host bits of sys flag, shifted down by four
    HEAD_V4,
    _head(born_host="20s"),
    _head(store_host="20s"),
    _head(born_host="20s", store_host="20s"),
)
PROPERTIES_LENGTH = struct.Struct(">h")
_TOPIC_LENGTH_V2 = struct.Struct(">h")
_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6


class RecordView:
    """View of one record in the memory it was read from. Numbers and topic are decoded, the rest is not copied.

    Slices (`raw`, `body`, `properties_bytes`) keep the memory alive and are valid as long as it is.
    """

    __slots__ = (
        "_body_at",
        "_body_length",
        "_properties",
        "_properties_at",
        "body_crc",
        "born_host",
        "born_timestamp",
        "flag",
        "log_offset",
        "magic",
        "prepared_offset",
        "queue_id",
        "queue_offset",
        "raw",
        "reconsume_times",
        "store_host",
        "store_timestamp",
        "sys_flag",
        "topic",
        "total_size",
    )

    total_size: int  # bytes, including the length prefix
    magic: int  # MAGIC_V1 or MAGIC_V2
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int  # entries
    log_offset: int  # bytes from the start of the whole log
    sys_flag: int
    born_timestamp: int  # ms, the client's clock
    born_host: bytes  # 8 or 20 packed bytes, see model.hosts
    store_timestamp: int  # ms, the broker's clock
    store_host: bytes  # 8 or 20 packed bytes
    reconsume_times: int
    prepared_offset: int  # bytes
    topic: str
    raw: memoryview  # the whole record
    _body_at: int
    _body_length: int
    _properties_at: int
    _properties: dict[str, str] | None

    @property
    def version(self) -> int:
        """1 or 2."""
        return 1 if self.magic == MAGIC_V1 else 2

    @property
    def body(self) -> memoryview:
        """The stored body, compressed if the client compressed it."""
        return self.raw[self._body_at : self._body_at + self._body_length]

    @property
    def properties_bytes(self) -> memoryview:
        """The stored property text."""
        return self.raw[self._properties_at :]

    @property
    def properties(self) -> dict[str, str]:
        """The properties, decoded on first access and cached."""
        if self._properties is None:
            self._properties = property_text.decode(self.raw[self._properties_at :])
        return self._properties

    def __repr__(self) -> str:
        return (
            f"RecordView(topic={self.topic!r}, queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
            f"log_offset={self.log_offset}, total_size={self.total_size})"
        )


def read_record(buf: Buffer, position: int = 0) -> RecordView:
    """Decode the record that starts at *position*.

    All lengths are checked against the record and the buffer. The CRC and the plausibility of values are not checked
    (gantrymq-store-files does that).

    Args:
        buf: bytes that contain the whole record.
        position: bytes from the start of *buf*.

    Raises:
        FormatError: the record is cut short, has no record magic, inconsistent lengths, or a topic that is not UTF-8.
    """
    source = buf if type(buf) is memoryview else memoryview(buf)
    left = len(source) - position
    if left < MIN_RECORD_BYTES:
        raise FormatError(f"record at {position}: {left} bytes are left, the shortest record has {MIN_RECORD_BYTES}")
    head = HEAD_V4.unpack_from(source, position)
    size = head[0]
    magic = head[1]
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise FormatError(
            f"record at {position}: magic {magic:#010x} where {MAGIC_V1:#010x} (v1) or {MAGIC_V2:#010x} (v2) belongs"
        )
    if not MIN_RECORD_BYTES <= size <= left:
        raise FormatError(
            f"record at {position}: total size {size} where {MIN_RECORD_BYTES} to {left} (the bytes left) is possible"
        )
    body_at = HEAD_V4.size
    if head[7] & _HOST_BITS:
        layout = HEADS[(head[7] & _HOST_BITS) >> 4]
        body_at = layout.size
        if size < body_at + 3:
            raise FormatError(f"record at {position}: total size {size} is too short for its IPv6 hosts")
        head = layout.unpack_from(source, position)
    raw = source[position : position + size]
    body_length = head[14]
    topic_at = body_at + body_length
    wide = 1 if magic == MAGIC_V2 else 0
    if body_length < 0 or topic_at + 3 + wide > size:
        raise FormatError(f"record at {position}: body length {body_length} does not fit total size {size}")
    topic_length = _TOPIC_LENGTH_V2.unpack_from(raw, topic_at)[0] if wide else raw[topic_at]
    topic_at += 1 + wide
    length_at = topic_at + topic_length
    if topic_length < 0 or length_at + 2 > size:
        raise FormatError(f"record at {position}: topic length {topic_length} does not fit total size {size}")
    if length_at + 2 + PROPERTIES_LENGTH.unpack_from(raw, length_at)[0] != size:
        raise FormatError(
            f"record at {position}: properties length {PROPERTIES_LENGTH.unpack_from(raw, length_at)[0]} "
            f"where {size - length_at - 2} makes up total size {size}"
        )
    view = RecordView.__new__(RecordView)
    try:
        view.topic = str(raw[topic_at:length_at], "utf-8")
    except UnicodeDecodeError as problem:
        raise FormatError(f"record at {position}: byte {problem.start} of the topic is not UTF-8") from None
    view.raw = raw
    (
        view.total_size,
        view.magic,
        view.body_crc,
        view.queue_id,
        view.flag,
        view.queue_offset,
        view.log_offset,
        view.sys_flag,
        view.born_timestamp,
        view.born_host,
        view.store_timestamp,
        view.store_host,
        view.reconsume_times,
        view.prepared_offset,
        view._body_length,
    ) = head
    view._body_at = body_at
    view._properties_at = length_at + 2
    view._properties = None
    return view


def iter_records(buf: Buffer) -> Iterator[RecordView]:
    """Yield the consecutive records in *buf*, such as the body of a pull response.

    Raises:
        FormatError: as in `read_record`, for the first invalid record.
    """
    source = memoryview(buf)
    position, end = 0, len(source)
    while position < end:
        record = read_record(source, position)
        yield record
        position += record.total_size


def body_crc(body: Buffer) -> int:
    """Return the checksum of a stored body: CRC-32 without its top bit, 0 for an empty body."""
    # RocketMQ's UtilAll.crc32 clears the bit, as an int of Java would be negative with it.
    return crc32(body) & 0x7FFFFFFF


def host_bits(born_host: bytes, store_host: bytes) -> int:
    """Return the sys flag bits for IPv6 hosts."""
    return (BORN_HOST_V6 if len(born_host) == 20 else 0) | (STORE_HOST_V6 if len(store_host) == 20 else 0)


@lru_cache(maxsize=1024)
def topic_part(topic: str) -> tuple[int, bytes]:
    """Return the magic of the record version for *topic*, and the topic preceded by its length.

    Raises:
        FormatError: the topic is longer than 32,767 bytes or not encodable.
    """
    try:
        raw = topic.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise FormatError(f"topic {topic!r} cannot be written as UTF-8: {problem}") from None
    if len(raw) <= MAX_V1_TOPIC_BYTES:
        return MAGIC_V1, bytes((len(raw),)) + raw
    if len(raw) > MAX_TOPIC_BYTES:
        raise FormatError(f"topic of {len(raw)} bytes; a record holds at most {MAX_TOPIC_BYTES}")
    return MAGIC_V2, _TOPIC_LENGTH_V2.pack(len(raw)) + raw


def encode_record(
    *,
    topic: str,
    queue_id: int,
    body: Buffer,
    properties: bytes,
    queue_offset: int = 0,
    log_offset: int = 0,
    store_timestamp: int = 0,
    born_timestamp: int = 0,
    born_host: bytes = b"\x7f\0\0\1\0\0\0\0",
    store_host: bytes = b"\x7f\0\0\1\0\0\0\0",
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
) -> bytes:
    """Encode one record. Version and IPv6 bits are derived from topic and hosts.

    Raises:
        FormatError: topic or properties are too long, or a number does not fit its field.
    """
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise FormatError(f"properties of {len(properties)} bytes; a record holds at most {MAX_PROPERTIES_BYTES}")
    magic, named = topic_part(topic)
    bits = host_bits(born_host, store_host)
    layout = HEADS[bits >> 4]
    try:
        head = layout.pack(
            layout.size + len(body) + len(named) + 2 + len(properties),
            magic,
            crc32(body) & 0x7FFFFFFF,
            queue_id,
            flag,
            queue_offset,
            log_offset,
            sys_flag & ~_HOST_BITS | bits,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsume_times,
            prepared_offset,
            len(body),
        )
    except struct.error as problem:
        raise FormatError(f"record of topic {topic!r}: {problem}") from None
    return b"".join((head, body, named, PROPERTIES_LENGTH.pack(len(properties)), properties))
