import errno

import pytest

from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile

FILE_BYTES = 10
TEXT = b"0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def faults(rig):
    return rig.faults


@pytest.fixture
def segments(rig):
    files = QueueFiles(rig.world.files, rig.root / "queues", FILE_BYTES, 4)
    yield SegmentedFile(files, "T", 7)
    files.close()


def on_disk(segments):
    """Contents by file name."""
    return {int(path.name): path.read_bytes() for path in sorted(segments.folder.iterdir())}


def fill(segments, written, end):
    """Let the segmented file hold `TEXT` up to *end*, durable in files up to *written*."""
    segments.append(TEXT[:written])
    segments.write_tail()
    segments.synced(written)
    segments.append(TEXT[written:end])


def test_what_is_appended_is_read_before_anything_is_written(segments):
    segments.append(TEXT[:12])
    segments.append(TEXT[12:15])
    assert (segments.end, segments.tail_start, segments.written, segments.unwritten) == (15, 0, 0, 15)
    assert segments.read(0, 100) == TEXT[:15]
    assert segments.read(13, 1) == TEXT[13:14]
    assert segments.read_cached(4, 3) == TEXT[4:7]
    assert segments.read_files(0, 10) == b""
    assert not segments.folder.exists()


def test_a_written_tail_is_in_sparse_files_of_one_size_named_by_their_first_byte(segments):
    segments.append(TEXT[:23])
    segments.write_tail()
    assert on_disk(segments) == {0: TEXT[:10], 10: TEXT[10:20], 20: TEXT[20:23] + bytes(7)}
    assert segments.folder == segments.files.folder / "T" / "7"
    assert (segments.end, segments.tail_start, segments.written, len(segments.tail)) == (23, 0, 23, 23)


def test_what_fits_a_file_is_one_write_and_nothing_is_written_twice(segments, faults):
    segments.append(TEXT[:4])
    segments.write_tail()
    segments.append(TEXT[4:6])
    segments.append(TEXT[6:10])
    segments.write_tail()
    segments.write_tail()
    assert faults.calls["pwrite"] == 2
    assert on_disk(segments) == {0: TEXT[:10]}


@pytest.mark.parametrize("cached", [False, True])
def test_every_read_joins_one_file_and_the_tail(segments, faults, cached):
    fill(segments, written=23, end=31)
    faults.cached = cached
    for position in range(31):
        for length in (1, 3, 10, 40):
            # One file, and after it the tail if it is reached.
            behind = position + length if position >= 20 else min(position + length, position - position % 10 + 10)
            expected = TEXT[position : min(behind, 31)]
            split, tail = segments.split(position, length)
            assert segments.read(position, length) == expected
            assert segments.read_files(position, split, tail) == expected
            assert segments.read_cached(position, length) == (expected if cached or position >= 23 else None)


def test_split_says_how_much_comes_from_files(segments):
    fill(segments, written=8, end=12)
    assert segments.split(0, 8) == (8, b"")
    assert segments.split(0, 10) == (8, TEXT[8:10])
    assert segments.split(6, 100) == (2, TEXT[8:12])
    assert segments.split(8, 2) == (0, TEXT[8:10])
    assert segments.split(12, 2) == (0, b"")
    segments.write_tail()
    segments.synced(12)
    assert segments.split(6, 100) == (100, b"")


def test_bytes_that_are_missing_are_not_made_up_from_what_follows_them(segments):
    fill(segments, written=8, end=12)
    segments.files.forget(segments)
    (segments.folder / f"{0:020d}").unlink()
    assert segments.read(4, 8) == segments.read_files(4, *segments.split(4, 8)) == segments.read_cached(4, 8) == b""
    assert segments.read(8, 4) == TEXT[8:12]


def test_a_write_that_fails_keeps_the_bytes_and_may_be_made_again(segments, faults):
    segments.append(TEXT[:15])
    faults.failing, faults.only = {"create": errno.ENOSPC}, f"{10:020d}"
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            segments.write_tail()
        assert (segments.unwritten, segments.written, segments.read(0, 100)) == (15, 0, TEXT[:15])
    segments.append(TEXT[15:17])
    faults.failing = {}
    segments.write_tail()
    assert on_disk(segments) == {0: TEXT[:10], 10: TEXT[10:17] + bytes(3)}


def test_the_tail_is_kept_until_it_is_durable_and_no_further_than_it_is_written(segments):
    segments.append(TEXT[:12])
    segments.write_tail()
    segments.append(TEXT[12:15])
    segments.synced(5)
    assert (segments.tail_start, bytes(segments.tail)) == (5, TEXT[5:15])
    segments.synced(3)  # an older checkpoint
    assert segments.tail_start == 5
    segments.synced(15)  # not that far: the rest is in no file
    assert (segments.tail_start, bytes(segments.tail), segments.unwritten) == (12, TEXT[12:15], 3)


def test_after_a_failed_sync_all_that_was_not_durable_is_written_again(segments):
    fill(segments, written=8, end=12)
    segments.write_tail()
    segments.append(TEXT[12:13])
    for path in segments.folder.iterdir():  # the system gave the pages up
        path.write_bytes(TEXT[:8].ljust(10, b"\0") if path.name == f"{0:020d}" else bytes(10))
    segments.rewrite()
    assert (segments.written, segments.unwritten) == (8, 5)
    segments.write_tail()
    assert on_disk(segments) == {0: TEXT[:10], 10: TEXT[10:13] + bytes(7)}


def test_a_row_that_is_cut_goes_on_there_and_leaves_its_files(segments):
    fill(segments, written=13, end=18)
    segments.cut(6)
    assert (segments.end, segments.tail_start, segments.unwritten, segments.tail) == (6, 6, 0, b"")
    assert on_disk(segments)[0] == TEXT[:10]
    segments.append(b"XY")
    assert segments.read(4, 10) == TEXT[4:6] + b"XY"
    segments.write_tail()
    assert on_disk(segments)[0] == TEXT[:6] + b"XY" + TEXT[8:10]
