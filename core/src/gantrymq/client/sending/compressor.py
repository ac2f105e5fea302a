"""Compression of message bodies, in the formats that `gantrymq.formats.compression` reads.

Source: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (tryToCompressMessage).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from gantrymq.client.errors import OptionUnusable
from gantrymq.errors import ClientError
from gantrymq.formats.compression import import_package
from gantrymq.model.sys_flag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD

_FLAGS = {"zlib": COMPRESSION_ZLIB, "lz4": COMPRESSION_LZ4, "zstd": COMPRESSION_ZSTD}


class Compressor:
    """Compresses in one format, at one level."""

    def __init__(self, kind: str = "zlib", level: int = 5) -> None:
        """Load the package of the format.

        Args:
            kind: zlib, which every client reads, lz4 or zstd.
            level: 0 (fastest) to 9 (smallest), as in Java; ignored for LZ4.

        Raises:
            OptionUnusable: unknown kind or level, or the package is not installed.
        """
        if not isinstance(kind, str) or kind not in _FLAGS:
            raise OptionUnusable(f"compression {kind!r} is unknown; known are {', '.join(_FLAGS)}")
        if not isinstance(level, int) or not 0 <= level <= 9:
            raise OptionUnusable(f"compression level {level} is invalid; levels are 0 to 9")
        self.flags = COMPRESSED | _FLAGS[kind]  # for sysFlag
        self._pack = _packer(kind, level)

    def pack(self, body: bytes) -> tuple[bytes, int]:
        """Return the body to send and its sysFlag bits: compressed, or unchanged with 0 if compression does not shorten
        it.
        """
        packed = self._pack(body)
        return (packed, self.flags) if len(packed) < len(body) else (body, 0)


def _packer(kind: str, level: int) -> Callable[[bytes], bytes]:
    if kind == "zlib":
        return lambda body: zlib.compress(body, level)
    try:
        if kind == "lz4":
            lz4 = import_package("lz4.frame", "lz4", "LZ4")
            return lambda body: bytes(lz4.compress(body))
        zstandard = import_package("zstandard", "zstandard", "Zstandard")
    except ClientError as problem:
        raise OptionUnusable(f"compression {kind}: {problem}") from None
    return lambda body: bytes(zstandard.ZstdCompressor(level=level).compress(body))  # not thread-safe, so one per call
