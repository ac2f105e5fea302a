import random
import sys
import tracemalloc
import zlib

import pytest

from gantrymq.client.sending.encoded_message import Compressor
from gantrymq.errors import ClientError, ConfigError, FormatError
from gantrymq.formats import compression
from gantrymq.formats.compression import (
    SHORTENED,
    decompress,
    decompress_head,
    decompress_or_raw,
    decompressed_parts,
)

TEXT = b"gantry " * 2000


@pytest.mark.parametrize(
    ("kind", "package", "flags"), [("zlib", "zlib", 0x301), ("lz4", "lz4.frame", 0x101), ("zstd", "zstandard", 0x201)]
)
def test_each_kind_is_read_again_and_has_the_flags_of_java(kind, package, flags):
    pytest.importorskip(package)
    for level in (1, 5, 9):
        body, bits = Compressor(kind, level).pack(TEXT)
        assert (bits, len(body) < len(TEXT) // 10, decompress(body, bits)) == (flags, True, TEXT)


def test_a_body_that_gets_no_shorter_stays_as_it_is():
    body = random.Random(18).randbytes(100_000)
    assert Compressor().pack(body) == (body, 0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("gzip",), "compression 'gzip' is unknown; known are zlib, lz4, zstd"),
        (("zlib", 10), "compression level 10 is invalid; levels are 0 to 9"),
        (("lz4",), "compression lz4: .* pip install lz4"),
        (("zstd",), "compression zstd: .* pip install zstandard"),
    ],
)
def test_what_cannot_compress_says_so(monkeypatch, given, words):
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match=words):
        Compressor(*given)


@pytest.mark.parametrize("flags", [0x301, 0x001])  # 0x001: as written by Go and C++
def test_zlib_round_trip(flags):
    assert decompress(memoryview(zlib.compress(TEXT)), flags) == TEXT


def test_body_without_the_bit_is_left_alone():
    assert decompress(memoryview(TEXT), 0x300) == TEXT


@pytest.mark.parametrize("body", [b"no stream at all", zlib.compress(TEXT)[:-9], b""])
def test_broken_stream_is_refused(body):
    with pytest.raises(FormatError, match="zlib"):
        decompress(body, 0x301)


def test_body_that_grows_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(compression, "MAX_BODY_BYTES", 1000)
    with pytest.raises(FormatError, match="grows beyond 1000 bytes"):
        decompress(zlib.compress(bytes(1001)), 0x301)


def test_unknown_kind_is_refused():
    with pytest.raises(FormatError, match="0x400"):
        decompress(b"", 0x401)


@pytest.mark.parametrize(
    ("flags", "module", "package"), [(0x101, "lz4.frame", "lz4"), (0x201, "zstandard", "zstandard")]
)
def test_missing_package_is_named(monkeypatch, flags, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ClientError, match=f"pip install {package}"):
        decompress(b"x", flags)


def test_lz4_is_read_where_it_is_installed():
    lz4 = pytest.importorskip("lz4.frame")
    frame = lz4.compress(TEXT)
    assert decompress(frame, 0x101) == TEXT
    for broken in (b"no frame", frame[:-9]):
        with pytest.raises(FormatError, match="LZ4"):
            decompress(broken, 0x101)


def test_zstandard_is_read_where_it_is_installed():
    zstandard = pytest.importorskip("zstandard")
    frame = zstandard.ZstdCompressor().compress(TEXT)
    assert decompress(frame, 0x201) == TEXT
    for broken in (b"no frame", frame[:-9]):
        with pytest.raises(FormatError, match="Zstandard"):
            decompress(broken, 0x201)


@pytest.mark.parametrize(("body", "flags", "word"), [(b"no stream at all", 0x301, "zlib"), (b"x", 0x401, "0x400")])
def test_a_body_that_cannot_be_read_is_kept_with_the_reason(body, flags, word):
    kept, problem = decompress_or_raw(memoryview(body), flags)
    assert kept == body
    assert word in problem


def test_a_body_that_can_be_read_has_no_problem():
    assert decompress_or_raw(zlib.compress(TEXT), 0x301) == (TEXT, "")


def packed(kind, plain):
    """Return *plain* compressed, and its sysFlag bits."""
    if kind != "zlib":
        pytest.importorskip({"lz4": "lz4.frame", "zstd": "zstandard"}[kind])
    return Compressor(kind, 5).pack(plain)


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
@pytest.mark.parametrize("size", [1, 4096, len(TEXT) - 1, len(TEXT), len(TEXT) + 1])
def test_the_beginning_of_a_body_is_decompressed_alone(kind, size):
    body, flags = packed(kind, TEXT)
    assert decompress_head(body, flags, size) == (TEXT[:size], size < len(TEXT))
    assert b"".join(decompressed_parts(body, flags, size)) == TEXT
    plain, problem = decompress_or_raw(body, flags, size)
    assert (plain, problem.startswith(SHORTENED)) == (TEXT[:size], size < len(TEXT))


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_the_beginning_of_a_large_body_needs_little_memory(kind):
    body, flags = packed(kind, bytes(32 * 1024 * 1024))
    tracemalloc.start()
    try:
        assert decompress_head(body, flags, 4096) == (bytes(4096), True)
        parts = sum(map(len, decompressed_parts(body, flags, 65536)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert parts == 32 * 1024 * 1024
    assert peak < 1024 * 1024


def test_parts_before_a_damaged_place_are_yielded():
    body = zlib.compress(random.Random(5).randbytes(100_000))
    parts = decompressed_parts(body[:-20_000], 0x301, 1000)
    assert len(next(parts)) == 1000
    with pytest.raises(FormatError, match="cut short"):
        list(parts)


def test_a_body_that_is_not_compressed_is_never_shortened():
    assert decompress_or_raw(TEXT, 0, 10) == (TEXT, "")
    assert list(decompressed_parts(b"abcde", 0, 2)) == [b"ab", b"cd", b"e"]
    assert decompress_head(b"abcde", 0, 2) == (b"ab", True)
