"""Body compression: sysFlag bits and the three formats of RocketMQ.

    | bits 0x700 | 0x000 or 0x300 zlib stream | 0x100 LZ4 frame | 0x200 Zstandard frame |   0x001 means compressed

All RocketMQ clients read zlib, clients since 5.0 also the others. LZ4 and Zstandard need additional packages.

Sources: apache/rocketmq common/.../compression/CompressionType.java, common/.../message/MessageDecoder.java,
client/.../impl/producer/DefaultMQProducerImpl.java (tryToCompressMessage).
"""

from __future__ import annotations

import importlib
import zlib
from typing import Any

from gantrymq.errors import ClientError, FormatError, GantryError
from gantrymq.model.sys_flag import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)

__all__ = ["MAX_BODY_BYTES", "decompress", "decompress_or_raw", "import_package"]

MAX_BODY_BYTES = 64 * 1024 * 1024  # of a decompressed body, as a few KB could otherwise fill the memory


def decompress(body: bytes | memoryview, sys_flag: int) -> bytes:
    """Return the decompressed body; a copy of *body* if sysFlag marks it as not compressed.

    Raises:
        FormatError: the bytes do not have the format in sysFlag, or exceed `MAX_BODY_BYTES` when decompressed.
        ClientError: the required package is not installed; the message names it.
    """
    if not sys_flag & COMPRESSED:
        return bytes(body)
    kind = sys_flag & COMPRESSION_MASK
    if kind in (0, COMPRESSION_ZLIB):
        return _inflate(body)
    if kind == COMPRESSION_LZ4:
        return _unpack_lz4(bytes(body))
    if kind == COMPRESSION_ZSTD:
        return _unpack_zstd(bytes(body))
    raise FormatError(f"sysFlag {sys_flag:#x} names compression {kind:#x}; known are 0x100, 0x200 and 0x300")


def decompress_or_raw(body: bytes | memoryview, sys_flag: int) -> tuple[bytes, str]:
    """Return the decompressed body and an empty string, or the stored bytes and the error message."""
    try:
        plain = decompress(body, sys_flag)
    except GantryError as problem:
        return bytes(body), str(problem)
    return plain, ""


def _inflate(body: bytes | memoryview) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, MAX_BODY_BYTES)
    except zlib.error as problem:
        raise FormatError(f"compressed body of {len(body)} bytes is not a zlib stream: {problem}") from None
    return _check_complete(plain, stream.eof, len(body), "zlib")


def _unpack_lz4(body: bytes) -> bytes:
    lz4 = import_package("lz4.frame", "lz4", "LZ4")
    stream = lz4.LZ4FrameDecompressor()
    try:
        plain = bytes(stream.decompress(body, max_length=MAX_BODY_BYTES))
    except RuntimeError as problem:
        raise FormatError(f"compressed body of {len(body)} bytes is not an LZ4 frame: {problem}") from None
    return _check_complete(plain, bool(stream.eof), len(body), "LZ4")


def _unpack_zstd(body: bytes) -> bytes:
    zstandard = import_package("zstandard", "zstandard", "Zstandard")
    try:
        promised = int(zstandard.get_frame_parameters(body).content_size)  # may be unknown
        plain = bytes(zstandard.ZstdDecompressor().stream_reader(body).read(MAX_BODY_BYTES))
    except zstandard.ZstdError as problem:
        raise FormatError(f"compressed body of {len(body)} bytes is not a Zstandard frame: {problem}") from None
    finished = len(plain) == promised if promised != zstandard.CONTENTSIZE_UNKNOWN else len(plain) < MAX_BODY_BYTES
    return _check_complete(plain, finished, len(body), "Zstandard")


def _check_complete(plain: bytes, finished: bool, length: int, kind: str) -> bytes:
    if finished:
        return plain
    if len(plain) >= MAX_BODY_BYTES:
        raise FormatError(f"{kind} body of {length} bytes grows beyond {MAX_BODY_BYTES} bytes")
    raise FormatError(f"{kind} body of {length} bytes is cut short")


def import_package(module: str, distribution: str, kind: str) -> Any:
    """Return the module for *kind*. Raises ClientError if *distribution* is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ClientError(
            f"the body is compressed with {kind}, which needs a package: pip install {distribution}"
        ) from None
