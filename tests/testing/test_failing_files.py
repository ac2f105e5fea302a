"""A disk that fails at a chosen call: earlier writes stay, later calls change nothing, reads still work."""

import pytest

from gantrymq.world.real import real_world
from gantrymq_testing import FailingFiles


@pytest.fixture
def files():
    return real_world().files


def test_without_a_failing_call_everything_is_handed_on(files, tmp_path):
    failing = FailingFiles(files)
    folder = tmp_path / "a" / "b"
    failing.make_dirs(folder)
    failing.replace(folder / "one", b"1")
    failing.rename(folder / "one", folder / "two")
    opened = failing.open(folder / "three", create=True)
    opened.pwrite(b"xyz", 0)
    opened.datasync()
    opened.truncate(2)
    assert (opened.pread(9, 0), opened.size(), opened.path) == (b"xy", 2, folder / "three")
    opened.close()
    failing.sync_dir(folder)
    assert failing.list(folder) == ["three", "two"]
    failing.remove(folder / "two")
    assert failing.stat(folder / "two") is None
    assert (failing.changes, failing.failed) == (9, False)


@pytest.mark.parametrize("done", [False, True])
def test_the_failing_call_takes_effect_only_where_that_is_asked_for(files, tmp_path, done):
    failing = FailingFiles(files, 1, done=done)
    failing.replace(tmp_path / "one", b"1")
    with pytest.raises(OSError, match="one"):
        failing.replace(tmp_path / "one", b"2")
    assert failing.failed
    assert failing.read(tmp_path / "one") == (b"2" if done else b"1")


def test_a_dead_disk_stays_dead_and_can_be_read(files, tmp_path):
    failing = FailingFiles(files, 1)
    failing.replace(tmp_path / "one", b"1")
    changes = [
        lambda: failing.replace(tmp_path / "one", b"2"),
        lambda: failing.rename(tmp_path / "one", tmp_path / "two"),
        lambda: failing.remove(tmp_path / "one"),
        lambda: failing.make_dirs(tmp_path / "folder"),
        lambda: failing.remove_dir(tmp_path),
        lambda: failing.sync_dir(tmp_path),
        lambda: failing.lock(tmp_path / "lock", b""),
        lambda: failing.open(tmp_path / "new", create=True),
        lambda: failing.open(tmp_path / "one").pwrite(b"2", 0),
        lambda: failing.open(tmp_path / "one").truncate(0),
        lambda: failing.open(tmp_path / "one").allocate(100),
        lambda: failing.open(tmp_path / "one").datasync(),
    ]
    for change in changes:
        with pytest.raises(OSError):
            change()
    assert failing.changes == 1 + len(changes)
    assert failing.list(tmp_path) == ["one"]
    assert failing.read(tmp_path / "one") == b"1"
    assert failing.disk_use(tmp_path).total > 0
