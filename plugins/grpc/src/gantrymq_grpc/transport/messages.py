"""Messages of gRPC within the data of a stream.

    | compressed u8, 0 or 1 | length u32 | message |

Source: grpc/grpc doc/PROTOCOL-HTTP2.md, doc/compression.md.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

from gantrymq_grpc.transport.status import GrpcError, StatusCode

PREFIX: Final = struct.Struct(">BI")
_GZIP: Final = 31  # zlib's window bits for gzip
ACCEPTED_ENCODINGS: Final = "identity,gzip"


def prefixed(message: bytes) -> bytes:
    """Return *message* with its prefix, uncompressed."""
    return PREFIX.pack(0, len(message)) + message


def single_message(data: bytes, max_bytes: int) -> bytes | None:
    """Return the message if *data* is one that is complete and not compressed, as in most calls."""
    if len(data) < PREFIX.size:
        return None
    compressed, length = PREFIX.unpack_from(data)
    if compressed or length != len(data) - PREFIX.size or length > max_bytes:
        return None
    return data[PREFIX.size :]


class MessageReader:
    """The messages of one stream."""

    __slots__ = ("_encoding", "_max_bytes", "_partial", "_wanted")

    def __init__(self, encoding: str, max_bytes: int) -> None:
        """*encoding*: the client's ``grpc-encoding``, or empty."""
        self._encoding = encoding
        self._max_bytes = max_bytes
        self._partial = bytearray()  # an incomplete message with its prefix
        self._wanted = PREFIX.size  # the bytes that must be there to go on

    @property
    def pending_bytes(self) -> int:
        """Size of the incomplete message so far."""
        return len(self._partial)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete with *data*.

        Raises:
            GrpcError: a message exceeds the limit, or cannot be decompressed. The reader must not be used any more.
        """
        complete = []
        position = 0
        while position < len(data):
            taken = data[position : position + self._wanted - len(self._partial)]
            position += len(taken)
            self._partial += taken
            if len(self._partial) < self._wanted:
                break
            compressed, length = PREFIX.unpack_from(self._partial)
            if length > self._max_bytes:
                raise too_large(length, self._max_bytes)
            if self._wanted < PREFIX.size + length:
                self._wanted = PREFIX.size + length
                continue
            message = bytes(memoryview(self._partial)[PREFIX.size :])
            complete.append(self._decompressed(message) if compressed else message)
            self._partial = bytearray()
            self._wanted = PREFIX.size
        return complete

    def _decompressed(self, message: bytes) -> bytes:
        if self._encoding != "gzip":
            named = f"grpc-encoding is {self._encoding}" if self._encoding else "there is no grpc-encoding"
            raise GrpcError(StatusCode.INTERNAL, f"a message is marked as compressed, but {named}; expected gzip")
        decompressor = zlib.decompressobj(_GZIP)
        try:
            plain = decompressor.decompress(message, self._max_bytes + 1)
        except zlib.error as error:
            raise GrpcError(StatusCode.INTERNAL, f"a message cannot be decompressed: {error}") from error
        if len(plain) > self._max_bytes:
            raise too_large(len(plain), self._max_bytes, "more than ")
        if not decompressor.eof:
            raise GrpcError(StatusCode.INTERNAL, "a message cannot be decompressed: it is incomplete")
        return plain


def too_large(size: int, limit: int, more: str = "") -> GrpcError:
    """Return the error for a request that exceeds *limit*."""
    return GrpcError(StatusCode.RESOURCE_EXHAUSTED, f"the request has {more}{size} bytes, the limit is {limit}")


class SharedBytes:
    """Bytes that connections hold, with a limit for all together; above it the one that holds most is closed."""

    def __init__(self, limit: int) -> None:
        """Start without bytes."""
        self.total = 0
        self._limit = limit
        self._held: dict[Callable[[int, int], object], int] = {}

    def update(self, drop: Callable[[int, int], object], held: int) -> None:
        """Set the bytes of one connection.

        Args:
            drop: identifies the connection; called with its bytes and the limit if it must be closed.
            held: its bytes now; 0 forgets it.
        """
        self.total += held - self._held.get(drop, 0)
        if held:
            self._held[drop] = held
        else:
            self._held.pop(drop, None)
        while self.total > self._limit and self._held:
            largest = max(self._held, key=self._held.__getitem__)
            size = self._held.pop(largest)
            self.total -= size
            largest(size, self._limit)
