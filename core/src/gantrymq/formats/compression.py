"""Body compression: sysFlag bits and the three formats of RocketMQ.

    | bits 0x700 | 0x000 or 0x300 zlib stream | 0x100 LZ4 frame | 0x200 Zstandard frame |   0x001 means compressed

All RocketMQ clients read zlib, clients since 5.0 also the others. LZ4 and Zstandard need additional packages.

Sources: apache/rocketmq common/.../compression/CompressionType.java, common/.../message/MessageDecoder.java,
client/.../impl/producer/DefaultMQProducerImpl.java (tryToCompressMessage).
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from typing import Any

from gantrymq.errors import ClientError, FormatError, GantryError
from gantrymq.model.sys_flag import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)

MAX_BODY_BYTES = 64 * 1024 * 1024  # of a decompressed body, as a few KB could otherwise fill the memory
SHORTENED = "shortened:"  # begin of the message of a body of which only the beginning was decompressed


def decompress(body: bytes | memoryview, sys_flag: int) -> bytes:
    """Return the decompressed body; a copy of *body* if sysFlag marks it as not compressed.

    Raises:
        FormatError: the bytes do not have the format in sysFlag, or exceed `MAX_BODY_BYTES` when decompressed.
        ClientError: the required package is not installed; the message names it.
    """
    if not sys_flag & COMPRESSED:
        return bytes(body)
    return b"".join(decompressed_parts(body, sys_flag, MAX_BODY_BYTES + 1))


def decompress_head(body: bytes | memoryview, sys_flag: int, max_bytes: int) -> tuple[bytes, bool]:
    """Return the first *max_bytes* of the decompressed body, and whether there are more. Raises as `decompress`.

    The rest is not decompressed, and not checked.
    """
    head = b""
    for part in decompressed_parts(body, sys_flag, max_bytes):
        if len(head) == max_bytes:
            return head, True
        head += part
        if len(head) > max_bytes:
            return head[:max_bytes], True
    return head, False


def decompress_or_raw(body: bytes | memoryview, sys_flag: int, max_bytes: int = MAX_BODY_BYTES) -> tuple[bytes, str]:
    """Return the decompressed body and an empty string, or the stored bytes and the error message.

    Of a body that is larger than *max_bytes* when decompressed, return the beginning and a message that starts with
    `SHORTENED`; but an error above `MAX_BODY_BYTES`.
    """
    try:
        if max_bytes >= MAX_BODY_BYTES or not sys_flag & COMPRESSED:
            return decompress(body, sys_flag), ""
        head, is_shortened = decompress_head(body, sys_flag, max_bytes)
    except GantryError as problem:
        return bytes(body), str(problem)
    return head, f"{SHORTENED} only the first {max_bytes} bytes were decompressed" if is_shortened else ""


def decompressed_parts(body: bytes | memoryview, sys_flag: int, size: int) -> Iterator[bytes]:
    """Yield the decompressed body in parts of up to *size* bytes, with memory for one of them; raises as `decompress`.

    Parts before a damaged place are yielded before the error.
    """
    kind = sys_flag & COMPRESSION_MASK
    parts: Iterator[bytes]
    if not sys_flag & COMPRESSED:
        parts, name = (bytes(body[at : at + size]) for at in range(0, len(body), size)), ""
    elif kind in (0, COMPRESSION_ZLIB):
        parts, name = _inflated(body, size), "zlib"
    elif kind == COMPRESSION_LZ4:
        parts, name = _unpacked_lz4(bytes(body), size), "LZ4"
    elif kind == COMPRESSION_ZSTD:
        parts, name = _unpacked_zstd(bytes(body), size), "Zstandard"
    else:
        raise FormatError(f"sysFlag {sys_flag:#x} names compression {kind:#x}; known are 0x100, 0x200 and 0x300")
    total = 0
    for part in parts:
        total += len(part)
        if total > MAX_BODY_BYTES:
            raise FormatError(f"{name} body of {len(body)} bytes grows beyond {MAX_BODY_BYTES} bytes")
        if part:
            yield part


def _inflated(body: bytes | memoryview, size: int) -> Iterator[bytes]:
    stream, rest = zlib.decompressobj(), body
    while not stream.eof:
        try:
            part = stream.decompress(rest, size)
        except zlib.error as problem:
            raise FormatError(f"compressed body of {len(body)} bytes is not a zlib stream: {problem}") from None
        rest = stream.unconsumed_tail
        if not (part or rest or stream.eof):
            raise _cut_short(body, "zlib")
        yield part


def _unpacked_lz4(body: bytes, size: int) -> Iterator[bytes]:
    stream, rest = import_package("lz4.frame", "lz4", "LZ4").LZ4FrameDecompressor(), body
    while not stream.eof:
        try:
            part = bytes(stream.decompress(rest, max_length=size))
        except (RuntimeError, EOFError) as problem:
            raise FormatError(f"compressed body of {len(body)} bytes is not an LZ4 frame: {problem}") from None
        rest = b""
        if not (part or stream.eof):
            raise _cut_short(body, "LZ4")
        yield part


def _unpacked_zstd(body: bytes, size: int) -> Iterator[bytes]:
    zstandard = import_package("zstandard", "zstandard", "Zstandard")
    total = 0
    try:
        promised = int(zstandard.get_frame_parameters(body).content_size)  # may be unknown
        stream = zstandard.ZstdDecompressor().stream_reader(body)
        while part := bytes(stream.read(size)):
            total += len(part)
            yield part
    except zstandard.ZstdError as problem:
        raise FormatError(f"compressed body of {len(body)} bytes is not a Zstandard frame: {problem}") from None
    if promised not in (total, zstandard.CONTENTSIZE_UNKNOWN):
        raise _cut_short(body, "Zstandard")


def _cut_short(body: bytes | memoryview, kind: str) -> FormatError:
    return FormatError(f"{kind} body of {len(body)} bytes is cut short")


def import_package(module: str, distribution: str, kind: str) -> Any:
    """Return the module for *kind*. Raises ClientError if *distribution* is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ClientError(
            f"the body is compressed with {kind}, which needs a package: pip install {distribution}"
        ) from None
