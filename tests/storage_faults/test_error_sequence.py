"""Reporting of failed writes: errseq, as on Linux."""

import errno

import pytest

from gantrymq_storage_faults import PAGE_BYTES, Failure, FaultPlan, FaultyFiles, Machine
from gantrymq_storage_faults.error_sequence import ErrorSequence

QUIET = {"write_back": 0.0}


def failing(call, **more):
    """Return files of which this call fails once."""
    return FaultPlan(lose=1.0, tear=0.0, failures=(Failure(errno.EIO, {call}, times=1),), **{**QUIET, **more})


def test_an_error_is_told_once_to_each_descriptor_that_was_open():
    mark = ErrorSequence()
    one, other = mark.sample(), mark.sample()
    mark.set(errno.EIO)
    number, one = mark.check(one)
    assert number == errno.EIO
    assert mark.check(one)[0] == 0
    assert mark.check(other)[0] == errno.EIO


def test_an_error_that_nobody_heard_of_is_told_to_the_next_who_opens():
    mark = ErrorSequence()
    mark.set(errno.ENOSPC)
    late = mark.sample()
    number, late = mark.check(late)
    assert number == errno.ENOSPC
    assert mark.check(late)[0] == 0
    assert mark.check(mark.sample())[0] == 0


def test_each_error_counts_by_itself_once_it_was_told():
    mark = ErrorSequence()
    since = mark.sample()
    for number in (errno.EIO, errno.ENOSPC, errno.EIO):
        mark.set(number)
        found, since = mark.check(since)
        assert found == number
    assert mark.check(since)[0] == 0


def test_a_failed_sync_is_told_to_every_open_descriptor_and_to_none_opened_later(disk):
    inner, folder = disk
    files = FaultyFiles(inner, failing("datasync"))
    first, second = (files.open(folder / "f", create=True) for _ in range(2))
    first.pwrite(b"x", 0)
    for file in (first, second):
        with pytest.raises(OSError, match="f") as told:
            file.datasync()
        assert told.value.errno == errno.EIO
        file.datasync()
    files.open(folder / "f").datasync()
    other = files.open(folder / "other", create=True)
    other.pwrite(b"x", 0)
    other.datasync()


def test_a_write_that_failed_in_the_background_is_told_to_who_syncs_next(disk):
    inner, folder = disk
    files = FaultyFiles(inner, failing("write_back", write_back=1.0))
    file = files.open(folder / "f", create=True)
    file.pwrite(b"x", 0)
    file.close()
    assert "write_back" in files.trace()
    late = files.open(folder / "f")
    with pytest.raises(OSError, match="f"):
        late.datasync()
    late.datasync()


def test_it_is_told_to_the_next_process_if_nobody_heard_of_it(disk):
    machine, folder = Machine(disk[0]), disk[1]
    files = FaultyFiles(machine, failing("write_back", write_back=1.0))
    files.open(folder / "f", create=True).pwrite(b"x", 0)
    files.crash()
    file = FaultyFiles(machine, FaultPlan(**QUIET)).open(folder / "f")
    with pytest.raises(OSError, match="f"):
        file.datasync()
    file.datasync()
    machine.power_cut()
    FaultyFiles(machine, FaultPlan(**QUIET))


def test_a_volume_tells_once_of_whatever_file_it_was(disk):
    inner, folder = disk
    files = FaultyFiles(inner, failing("datasync"))
    volume = files.watch(folder)
    if volume is None:
        pytest.skip("there is no syncfs here that tells of errors")
    file = files.open(folder / "f", create=True)
    file.pwrite(b"x", 0)
    with pytest.raises(OSError, match="f"):
        file.datasync()
    file.close()
    files.remove(folder / "f")
    with pytest.raises(OSError, match=folder.name):
        volume.sync()
    volume.sync()
    later = files.watch(folder)
    later.sync()
    volume.close()
    later.close()


def test_a_volume_that_fails_loses_every_dirty_page_and_tells_each_file(disk):
    inner, folder = disk
    files = FaultyFiles(inner, failing("syncfs"))
    volume = files.watch(folder)
    if volume is None:
        pytest.skip("there is no syncfs here that tells of errors")
    made = [files.open(folder / name, create=True) for name in "ab"]
    files.sync_dir(folder)
    for file in made:
        file.pwrite(b"new", 0)
    with pytest.raises(OSError, match=folder.name):
        volume.sync()
    volume.sync()  # believes that all is well
    for file in made:
        with pytest.raises(OSError, match=file.path.name):
            file.datasync()
        file.datasync()
    files.power_cut()
    assert [inner.read(folder / name) for name in "ab"] == [b"", b""]


def test_a_volume_makes_files_and_names_durable(disk):
    inner, folder = disk
    files = FaultyFiles(inner, FaultPlan(lose=1.0, **QUIET))
    volume = files.watch(folder)
    if volume is None:
        pytest.skip("there is no syncfs here that tells of errors")
    files.open(folder / "f", create=True).pwrite(b"x" * 2 * PAGE_BYTES, 0)
    volume.sync()
    files.open(folder / "late", create=True)
    files.power_cut()
    assert inner.read(folder / "f") == b"x" * 2 * PAGE_BYTES
    assert inner.list(folder) == ["f"]
