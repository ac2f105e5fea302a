"""Header blocks of HTTP/2 (HPACK): those of clients decoded, those of responses built in advance.

Clients repeat most of their metadata, which then takes one byte per entry. The decoder keeps entries as text and
resolves such bytes with a list; the decoder of the library hpack, which makes a tuple of bytes for each, took 80 us for
the metadata of one call, more than all the rest of the call. Its tables are used here. Responses use no dynamic table,
so their blocks do not depend on the connection.

Source: RFC 7541.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from gantrymq_grpc.transport.frames import ConnectionFault, ErrorCode

Header = tuple[str, str]

_STATIC: Final[list[Header | None]] = [
    None,
    *((name.decode(), value.decode()) for name, value in HeaderTable.STATIC_TABLE),
]
TABLE_BYTES: Final = 4096  # of the dynamic table, HTTP/2's default, which we do not change
_ENTRY_OVERHEAD: Final = 32
_ERRORS: Final = "replace"  # bytes that are not UTF-8: headers become texts of answers and of the log
_MAX_CACHED: Final = 200  # longer strings are decoded each time, so that the cache stays small


class HeaderDecoder:
    """The decoder of one connection; its table changes with every block."""

    def __init__(self, max_bytes: int) -> None:
        """*max_bytes*: limit of the headers of a block, with 32 bytes more for each."""
        self._max_bytes = max_bytes
        self._dynamic: list[Header] = []  # newest last
        self._sizes: list[int] = []  # of these entries, as the client counts them
        self._bytes = 0
        self._limit = TABLE_BYTES

    def decode(self, block: bytes) -> list[Header] | None:
        """Return names and values in order, or None if they exceed the limit.

        Raises:
            ConnectionFault: the block cannot be decoded; the connection cannot continue.
        """
        try:
            return self._decode(block)
        except (IndexError, HPACKDecodingError) as error:
            text = f"a header block cannot be decoded: {error}"
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, text) from error

    def _decode(self, block: bytes) -> list[Header] | None:
        headers: list[Header] = []
        position, size, total = 0, len(block), 0
        while position < size:
            byte = block[position]
            if byte & 0x80:
                if byte != 0xFF:
                    index, position = byte & 0x7F, position + 1
                else:
                    index, position = _integer(block, position, 0x7F)
                header = self._entry(index)
            elif byte & 0xE0 == 0x20:
                self._limit, position = _integer(block, position, 0x1F)
                if self._limit > TABLE_BYTES or headers:
                    raise HPACKDecodingError("a change of the table's size that is not allowed")
                self._evict(0)
                continue
            else:
                indexed = byte & 0x40
                index, position = _integer(block, position, 0x3F if indexed else 0x0F)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, _, position = _string(block, position)
                    if not name.isascii():
                        raise HPACKDecodingError("the name of a header is not ASCII")
                    name = name.lower()
                value, value_bytes, position = _string(block, position)
                header = (name, value)
                if indexed:
                    self._add(header, len(name) + value_bytes + _ENTRY_OVERHEAD)
            total += len(header[0]) + len(header[1]) + _ENTRY_OVERHEAD
            if total <= self._max_bytes:
                headers.append(header)
        return headers if total <= self._max_bytes else None

    def _entry(self, index: int) -> Header:
        if index < len(_STATIC):
            header = _STATIC[index]
            if header is None:
                raise HPACKDecodingError("index 0")
            return header
        position = len(self._dynamic) - (index - len(_STATIC) + 1)
        if position < 0:
            raise HPACKDecodingError(f"index {index} of {len(_STATIC) - 1 + len(self._dynamic)}")
        return self._dynamic[position]

    def _add(self, header: Header, size: int) -> None:
        self._evict(size)
        if size <= self._limit:
            self._dynamic.append(header)
            self._sizes.append(size)
            self._bytes += size

    def _evict(self, needed: int) -> None:
        """Drop the oldest entries until *needed* bytes fit."""
        while self._dynamic and self._bytes + needed > self._limit:
            self._dynamic.pop(0)
            self._bytes -= self._sizes.pop(0)


def _integer(block: bytes, position: int, mask: int) -> tuple[int, int]:
    """Return an integer with a prefix of the bits *mask*, and the position after it."""
    value = block[position] & mask
    position += 1
    if value < mask:
        return value, position
    for shift in (0, 7, 14, 21):
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise HPACKDecodingError("an integer of more than 28 bits")


def _string(block: bytes, position: int) -> tuple[str, int, int]:
    """Return a string, its size before it was decoded to text, and the position after it."""
    huffman = block[position] & 0x80
    length, position = _integer(block, position, 0x7F)
    end = position + length
    if end > len(block):
        raise HPACKDecodingError("a string longer than its block")
    data = block[position:end]
    if huffman:
        text, size = _decoded(data) if length <= _MAX_CACHED else _decoded.__wrapped__(data)
        return text, size, end
    return data.decode(errors=_ERRORS), length, end


@lru_cache(2048)
def _decoded(data: bytes) -> tuple[str, int]:
    plain = decode_huffman(data)
    return plain.decode(errors=_ERRORS), len(plain)


def literal(name: str, value: str) -> bytes:
    """Return a header without use of any table."""
    return b"\x00" + _plain(name) + _plain(value)


def _plain(text: str) -> bytes:
    data = text.encode()
    if len(data) < 0x7F:
        return bytes((len(data),)) + data
    rest, length = len(data) - 0x7F, b"\x7f"
    while rest > 0x7F:
        length += bytes((rest & 0x7F | 0x80,))
        rest >>= 7
    return length + bytes((rest,)) + data


STATUS_200: Final = b"\x88"  # index 8 of the static table


def http_status(status: int) -> bytes:
    """Return the header ``:status`` with a status other than 200."""
    return b"\x08" + _plain(str(status))  # literal, its name is index 8 of the static table
