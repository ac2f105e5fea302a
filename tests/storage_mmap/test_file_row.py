import errno

import pytest

from gantrymq_storage_mmap.queues.file_row import FileRow
from gantrymq_storage_mmap.queues.files import QueueFiles

FILE_BYTES = 10
TEXT = b"0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def faults(rig):
    return rig.faults


@pytest.fixture
def row(rig):
    files = QueueFiles(rig.world.files, rig.root / "queues", FILE_BYTES, 4)
    yield FileRow(files, "T", 7)
    files.close()


def on_disk(row):
    """Contents by file name."""
    return {int(path.name): path.read_bytes() for path in sorted(row.folder.iterdir())}


def fill(row, written, end):
    """Let the row hold `TEXT` up to *end*, durable in files up to *written*."""
    row.append(TEXT[:written])
    row.write_tail()
    row.synced(written)
    row.append(TEXT[written:end])


def test_what_is_appended_is_read_before_anything_is_written(row):
    row.append(TEXT[:12])
    row.append(TEXT[12:15])
    assert (row.end, row.kept_from, row.written, row.unwritten) == (15, 0, 0, 15)
    assert row.read(0, 100) == TEXT[:15]
    assert row.read(13, 1) == TEXT[13:14]
    assert row.read_cached(4, 3) == TEXT[4:7]
    assert row.look(0, 10) == b""
    assert not row.folder.exists()


def test_a_written_tail_lies_in_sparse_files_of_one_size_named_for_their_first_byte(row):
    row.append(TEXT[:23])
    row.write_tail()
    assert on_disk(row) == {0: TEXT[:10], 10: TEXT[10:20], 20: TEXT[20:23] + bytes(7)}
    assert row.folder == row.files.folder / "T" / "7"
    assert (row.end, row.kept_from, row.written, len(row.tail)) == (23, 0, 23, 23)


def test_what_fits_a_file_is_one_write_and_nothing_is_written_twice(row, faults):
    row.append(TEXT[:4])
    row.write_tail()
    row.append(TEXT[4:6])
    row.append(TEXT[6:10])
    row.write_tail()
    row.write_tail()
    assert faults.calls["pwrite"] == 2
    assert on_disk(row) == {0: TEXT[:10]}


@pytest.mark.parametrize("cached", [False, True])
def test_every_read_joins_one_file_and_the_tail(row, faults, cached):
    fill(row, written=23, end=31)
    faults.cached = cached
    for position in range(31):
        for length in (1, 3, 10, 40):
            # One file, and behind it the tail where that is reached.
            behind = position + length if position >= 20 else min(position + length, position - position % 10 + 10)
            expected = TEXT[position : min(behind, 31)]
            split, tail = row.split(position, length)
            assert row.read(position, length) == expected
            assert row.look(position, split, tail) == expected
            assert row.read_cached(position, length) == (expected if cached or position >= 23 else None)


def test_split_says_how_much_comes_from_files(row):
    fill(row, written=8, end=12)
    assert row.split(0, 8) == (8, b"")
    assert row.split(0, 10) == (8, TEXT[8:10])
    assert row.split(6, 100) == (2, TEXT[8:12])
    assert row.split(8, 2) == (0, TEXT[8:10])
    assert row.split(12, 2) == (0, b"")
    row.write_tail()
    row.synced(12)
    assert row.split(6, 100) == (100, b"")


def test_bytes_that_are_missing_are_not_made_up_from_what_follows_them(row):
    fill(row, written=8, end=12)
    row.files.forget(row)
    (row.folder / f"{0:020d}").unlink()
    assert row.read(4, 8) == row.look(4, *row.split(4, 8)) == row.read_cached(4, 8) == b""
    assert row.read(8, 4) == TEXT[8:12]


def test_a_write_that_fails_keeps_the_bytes_and_may_be_made_again(row, faults):
    row.append(TEXT[:15])
    faults.failing, faults.only = {"create": errno.ENOSPC}, f"{10:020d}"
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            row.write_tail()
        assert (row.unwritten, row.written, row.read(0, 100)) == (15, 0, TEXT[:15])
    row.append(TEXT[15:17])
    faults.failing = {}
    row.write_tail()
    assert on_disk(row) == {0: TEXT[:10], 10: TEXT[10:17] + bytes(3)}


def test_the_tail_is_kept_until_it_is_durable_and_no_further_than_it_is_written(row):
    row.append(TEXT[:12])
    row.write_tail()
    row.append(TEXT[12:15])
    row.synced(5)
    assert (row.kept_from, bytes(row.tail)) == (5, TEXT[5:15])
    row.synced(3)  # an older checkpoint
    assert row.kept_from == 5
    row.synced(15)  # not that far: the rest is in no file
    assert (row.kept_from, bytes(row.tail), row.unwritten) == (12, TEXT[12:15], 3)


def test_after_a_failed_sync_all_that_was_not_durable_is_written_again(row):
    fill(row, written=8, end=12)
    row.write_tail()
    row.append(TEXT[12:13])
    for path in row.folder.iterdir():  # the system gave the pages up
        path.write_bytes(TEXT[:8].ljust(10, b"\0") if path.name == f"{0:020d}" else bytes(10))
    row.rewrite()
    assert (row.written, row.unwritten) == (8, 5)
    row.write_tail()
    assert on_disk(row) == {0: TEXT[:10], 10: TEXT[10:13] + bytes(7)}


def test_a_row_that_is_cut_goes_on_there_and_leaves_its_files(row):
    fill(row, written=13, end=18)
    row.cut(6)
    assert (row.end, row.kept_from, row.unwritten, row.tail) == (6, 6, 0, b"")
    assert on_disk(row)[0] == TEXT[:10]
    row.append(b"XY")
    assert row.read(4, 10) == TEXT[4:6] + b"XY"
    row.write_tail()
    assert on_disk(row)[0] == TEXT[:6] + b"XY" + TEXT[8:10]
