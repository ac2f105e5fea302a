"""Pages that could not be written: they count as clean, are read for a while, and are not on the disk."""

import errno

import pytest

from gantrymq_storage_faults import PAGE_BYTES, Failure, FaultPlan, FaultyFiles, Machine

QUIET = {"lose": 1.0, "tear": 0.0, "write_back": 0.0}
SURE = {"lose": 0.0, "tear": 0.0, "write_back": 0.0}  # dirty pages reach the disk


def failed_sync(inner, path, **more):
    """A durable file of two pages whose second content could not be written; return files and file."""
    inner.replace(path, b"o" * 2 * PAGE_BYTES)
    files = FaultyFiles(inner, FaultPlan(failures=(Failure(errno.EIO, {"datasync"}, times=1),), **more))
    file = files.open(path)
    file.pwrite(b"n" * 2 * PAGE_BYTES, 0)
    with pytest.raises(OSError, match=path.name):
        file.datasync()
    return files, file


@pytest.mark.parametrize("syncs", [0, 1, 2])
def test_what_a_failed_sync_lost_is_read_and_goes_with_the_power(disk, syncs):
    inner, folder = disk
    files, file = failed_sync(inner, folder / "f", **SURE)
    for _ in range(syncs):
        file.datasync()
    assert file.pread(2, PAGE_BYTES - 1) == b"nn"
    cut = files.power_cut()
    assert cut.pages_lost == 2
    assert inner.read(folder / "f") == b"o" * 2 * PAGE_BYTES


def test_only_pages_that_are_written_again_get_durable(disk):
    inner, folder = disk
    files, file = failed_sync(inner, folder / "f", **QUIET)
    file.pwrite(b"again", PAGE_BYTES)
    file.datasync()
    files.power_cut()
    assert inner.read(folder / "f") == b"o" * PAGE_BYTES + b"again" + b"n" * (PAGE_BYTES - 5)  # a page is written whole


def test_a_lost_page_shows_the_old_content_once_it_was_evicted(disk):
    inner, folder = disk
    files, file = failed_sync(inner, folder / "f", evict=1.0, **QUIET)
    seen = {file.pread(2 * PAGE_BYTES, 0)[::PAGE_BYTES] for _ in range(5)}
    assert file.pread(2 * PAGE_BYTES, 0) == b"o" * 2 * PAGE_BYTES
    assert seen & {b"on", b"no"}  # one after the other
    assert "left the cache" in files.trace()
    assert files.power_cut().pages_lost == 0


def test_a_write_before_the_eviction_saves_the_page(disk):
    inner, folder = disk
    inner.replace(folder / "f", b"o" * PAGE_BYTES)
    plan = FaultPlan(failures=(Failure(errno.EIO, {"datasync"}, times=1),), evict=1.0, **QUIET)
    files = FaultyFiles(inner, plan)
    file = files.open(folder / "f")
    file.pwrite(b"n" * PAGE_BYTES, 0)
    with pytest.raises(OSError, match="f"):
        file.datasync()
    file.pwrite(b"m", 0)
    file.datasync()
    file.size()
    assert inner.read(folder / "f") == b"m" + b"n" * (PAGE_BYTES - 1)


def test_a_length_that_a_failed_sync_should_have_written_goes_too(disk):
    inner, folder = disk
    for again, length in ((None, 0), (0, PAGE_BYTES), (PAGE_BYTES, 2 * PAGE_BYTES)):
        path = folder / f"f{length}"
        inner.replace(path, b"")
        files = FaultyFiles(inner, FaultPlan(failures=(Failure(errno.EIO, {"datasync"}, times=1),), **QUIET))
        file = files.open(path)
        file.pwrite(b"n" * 2 * PAGE_BYTES, 0)
        with pytest.raises(OSError, match="f"):
            file.datasync()
        if again is not None:
            file.pwrite(b"again", again)
        file.datasync()
        files.power_cut()
        assert len(inner.read(path)) == length


def test_a_length_that_was_set_needs_no_page_and_survives(disk):
    inner, folder = disk
    inner.replace(folder / "f", b"")
    files = FaultyFiles(inner, FaultPlan(failures=(Failure(errno.EIO, {"datasync"}, times=1),), **QUIET))
    file = files.open(folder / "f")
    file.allocate(2 * PAGE_BYTES)
    file.pwrite(b"lost", 0)
    with pytest.raises(OSError, match="f"):
        file.datasync()
    file.datasync()
    files.power_cut()
    assert inner.read(folder / "f") == bytes(2 * PAGE_BYTES)


def test_a_write_in_the_background_that_fails_loses_its_page(disk):
    inner, folder = disk
    inner.replace(folder / "f", b"o" * PAGE_BYTES)
    plan = FaultPlan(lose=0.0, tear=0.0, write_back=1.0, failures=(Failure(errno.EIO, {"write_back"}, times=1),))
    files = FaultyFiles(inner, plan)
    file = files.open(folder / "f")
    file.pwrite(b"n", 0)
    with pytest.raises(OSError, match="f"):
        file.datasync()
    file.datasync()
    files.power_cut()
    assert inner.read(folder / "f") == b"o" * PAGE_BYTES


def test_a_length_that_was_written_in_the_background_gets_durable_with_the_next_sync(disk):
    inner, folder = disk
    inner.replace(folder / "f", b"")
    files = FaultyFiles(inner, FaultPlan(lose=1.0, tear=0.0, write_back=1.0))
    file = files.open(folder / "f")
    file.pwrite(b"x" * 100, 0)
    file.datasync()
    files.power_cut()
    assert inner.read(folder / "f") == b"x" * 100


# --- processes of one machine -----------------------------------------------------------------------------------------


def test_what_a_killed_process_wrote_is_still_not_durable(disk):
    machine, folder = Machine(disk[0]), disk[1]
    first = FaultyFiles(machine, FaultPlan(**QUIET))
    file = first.open(folder / "f", create=True)
    file.pwrite(b"synced", 0)
    file.datasync()
    first.sync_dir(folder)
    file.pwrite(b"not yet", 0)
    first.open(folder / "name", create=True)
    first.crash()
    second = FaultyFiles(machine, FaultPlan(**QUIET))
    assert second.read(folder / "f") == b"not yet"
    second.replace(folder / "other", b"whole")  # syncs the folder
    cut = second.power_cut()
    assert disk[0].read(folder / "f") == b"synced"
    assert disk[0].list(folder) == ["f", "name", "other"]
    assert cut.pages_lost == 1


def test_a_sync_of_the_next_process_covers_it(disk):
    machine, folder = Machine(disk[0]), disk[1]
    first = FaultyFiles(machine, FaultPlan(**QUIET))
    first.open(folder / "f", create=True).pwrite(b"saved", 0)
    first.crash()
    second = FaultyFiles(machine, FaultPlan(**QUIET))
    second.open(folder / "f").datasync()
    second.sync_dir(folder)
    second.crash()
    machine.power_cut(FaultPlan(**QUIET))
    assert disk[0].read(folder / "f") == b"saved"


def test_what_a_process_could_not_write_is_lost_for_the_next_one_too(disk):
    machine, folder = Machine(disk[0]), disk[1]
    files, _ = failed_sync_on(machine, folder / "f")
    files.crash()
    second = FaultyFiles(machine, FaultPlan(**SURE))
    file = second.open(folder / "f")
    assert file.pread(1, 0) == b"n"
    file.datasync()
    machine.power_cut(FaultPlan(**SURE))
    assert disk[0].read(folder / "f") == b"o"


def failed_sync_on(machine, path):
    machine.inner.replace(path, b"o")
    files = FaultyFiles(machine, FaultPlan(failures=(Failure(errno.EIO, {"datasync"}, times=1),), **SURE))
    file = files.open(path)
    file.pwrite(b"n", 0)
    with pytest.raises(OSError, match=path.name):
        file.datasync()
    return files, file


def test_a_power_cut_ends_every_process_and_leaves_what_is_durable(disk):
    machine, folder = Machine(disk[0]), disk[1]
    one, two = FaultyFiles(machine, FaultPlan(**QUIET)), FaultyFiles(machine, FaultPlan(**QUIET))
    one.open(folder / "f", create=True).pwrite(b"x", 0)
    two.sync_dir(folder)
    machine.power_cut(FaultPlan(**QUIET))
    assert one.crashed
    assert two.crashed
    assert disk[0].read(folder / "f") == b""
    machine.power_cut(FaultPlan(**QUIET))
    assert disk[0].list(folder) == ["f"]


def test_files_by_themselves_are_a_machine_of_their_own(disk):
    inner, folder = disk
    first = FaultyFiles(inner, FaultPlan(**QUIET))
    first.open(folder / "f", create=True).pwrite(b"x", 0)
    first.crash()
    FaultyFiles(inner, FaultPlan(**QUIET)).power_cut()
    assert inner.read(folder / "f") == b"x"
