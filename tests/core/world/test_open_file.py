"""Common behaviour of all files."""

import errno

import pytest


@pytest.fixture
def opened(place):
    files, root = place
    opened = files.open(root / "a", create=True)
    yield opened
    opened.close()


@pytest.fixture
def read_only(place, opened):
    opened.pwrite(b"abc", 0)
    files, root = place
    again = files.open(root / "a", read_only=True)
    yield again
    again.close()


def test_what_was_written_is_read_and_a_hole_is_zero(opened):
    opened.pwrite(b"tail", 10)
    opened.pwrite(memoryview(bytearray(b"head")), 0)
    assert opened.size() == 14
    assert opened.pread(14, 0) == b"head" + bytes(6) + b"tail"


def test_a_read_of_what_is_in_memory_gives_the_same_bytes_or_nothing(opened):
    opened.pwrite(b"0123456789", 0)
    assert opened.pread_cached(4, 3) in (b"3456", None)
    assert opened.pread_cached(100, 7) is None


def test_reads_are_short_only_at_the_end(opened):
    opened.pwrite(b"0123456789", 0)
    assert opened.pread(4, 3) == b"3456"
    assert opened.pread(100, 7) == b"789"
    assert opened.pread(1, 10) == b""
    assert opened.pread(1, 99) == b""
    assert opened.pread(0, 0) == b""


def test_truncate_cuts_and_grows_by_zeros(opened):
    opened.pwrite(b"0123456789", 0)
    opened.truncate(4)
    opened.truncate(8)
    assert opened.pread(100, 0) == b"0123" + bytes(4)


def test_allocate_keeps_content_and_never_shrinks(opened):
    opened.pwrite(b"abc", 0)
    opened.allocate(10_000)
    assert opened.size() == 10_000
    assert opened.pread(10_000, 0) == b"abc" + bytes(9997)
    opened.allocate(5)
    opened.allocate(0)
    assert opened.size() == 10_000
    with pytest.raises(ValueError, match="-1"):
        opened.allocate(-1)


def test_a_closed_file_refuses_everything(opened):
    opened.close()
    opened.close()
    for call in (
        opened.size,
        opened.datasync,
        lambda: opened.pread(1, 0),
        lambda: opened.pread_cached(1, 0),
        lambda: opened.pwrite(b"a", 0),
        lambda: opened.truncate(0),
        lambda: opened.allocate(1),
        lambda: opened.prefetch(0, 1),
        lambda: opened.drop_cache(0, 1),
    ):
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EBADF):
            call()


def test_a_read_only_file_refuses_writes(read_only):
    assert read_only.pread(3, 0) == b"abc"
    with pytest.raises(OSError, check=lambda error: error.errno == errno.EBADF):
        read_only.pwrite(b"x", 0)


def test_what_the_cache_is_told_changes_no_byte(opened):
    opened.pwrite(b"abc" * 5000, 0)
    opened.datasync()
    for tell in (opened.drop_cache, opened.prefetch):
        tell(4096, 8192)
        tell(10_000, 1 << 20)
        assert opened.pread(20_000, 0) == b"abc" * 5000


def test_the_path_is_where_it_was_opened(place, opened):
    assert opened.path == place[1] / "a"


def test_what_was_written_lies_in_the_written_parts_and_elsewhere_are_zeros(opened):
    opened.truncate(1_000_000)
    for at in (0, 300_000, 999_990):
        opened.pwrite(b"0123456789", at)
    found = opened.written(0, 1_000_000)
    assert found == sorted(found)
    assert all(0 <= low < high <= 1_000_000 for low, high in found)
    for at in (0, 300_000, 999_990):
        assert any(low <= at and at + 10 <= high for low, high in found)
    assert opened.written(300_005, 300_010) == [(300_005, 300_010)]


def test_a_file_without_a_byte_that_was_written_has_no_part_that_matters(opened):
    opened.truncate(1_000_000)
    assert not any(any(opened.pread(high - low, low)) for low, high in opened.written(0, 1_000_000))
