import sys
import zlib

import pytest

from gantrymq.errors import ClientError, FormatError
from gantrymq.formats import compression
from gantrymq.formats.compression import ZLIB_FLAGS, compress, decompress, readable

TEXT = b"gantry " * 2000


def test_flags_are_those_of_java():
    assert ZLIB_FLAGS == 0x301


@pytest.mark.parametrize("flags", [0x301, 0x001])  # 0x001: what Go and C++ write
def test_zlib_round_trip(flags):
    assert decompress(memoryview(compress(TEXT)), flags) == TEXT


def test_body_without_the_bit_is_left_alone():
    assert decompress(memoryview(TEXT), 0x300) == TEXT


@pytest.mark.parametrize("body", [b"no stream at all", compress(TEXT)[:-9], b""])
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
    kept, problem = readable(memoryview(body), flags)
    assert kept == body
    assert word in problem


def test_a_body_that_can_be_read_has_no_problem():
    assert readable(compress(TEXT), 0x301) == (TEXT, "")
