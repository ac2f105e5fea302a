import random
import sys
import zlib

import pytest

from gantrymq.client.sending.compressor import Compressor
from gantrymq.errors import ClientError, ConfigError, FormatError
from gantrymq.formats import compression
from gantrymq.formats.compression import decompress, decompress_or_raw

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
