"""Backups and restores that fail at any call: the store never changes, and nothing incomplete passes for complete."""

import errno
from pathlib import Path

import pytest
from small_store import SmallStore

from gantrymq.errors import StoreError
from gantrymq_store_files.file_names import file_name
from gantrymq_store_tools.backup import backup_store
from gantrymq_store_tools.backup_manifest import read_manifest
from gantrymq_store_tools.restore import INCOMPLETE, restore_store
from gantrymq_testing.failing_files import FailingFiles
from gantrymq_testing.forwarding import ForwardingFiles
from gantrymq_testing.simulated import SimulatedFiles

RECORDS = 5
STORE, BACKUP, MADE = Path("/store"), Path("/backup"), Path("/made")


@pytest.fixture
def files(tmp_path):
    """A simulated disk with a store that a broker was killed with."""
    small = SmallStore(tmp_path / "store")
    for number in range(RECORDS):
        small.add("Orders", number % 2, b"body" * 700, f"key-{number}")
    small.write()
    made = SimulatedFiles(lambda: 0)
    for name, data in small.contents().items():
        _write(made, STORE / name, data)
    _write(made, STORE / "abort", b"1")
    return made


def _write(files, path, data):
    files.make_dirs(path.parent)
    file = files.open(path, create=True)
    file.pwrite(data, 0)
    file.close()


def contents(files, folder):
    found = {}
    for name in files.list(folder):
        path = folder / name
        found |= contents(files, path) if files.stat(path).is_dir else {path: files.read(path)}
    return found


def clear(files, folder):
    for path in contents(files, folder):
        files.remove(path)


def back_up(files):
    return backup_store(files, STORE, BACKUP, 77)


@pytest.mark.parametrize("done", [False, True])
def test_a_backup_that_fails_at_any_call_is_recognized(files, done):
    before, complete = contents(files, STORE), False
    number = 0
    while not complete:
        failing = FailingFiles(files, number, done=done)
        try:
            back_up(failing)
        except OSError:
            pass
        else:
            assert not failing.failed
            complete = True
        assert contents(files, STORE) == before
        try:
            manifest = read_manifest(files, BACKUP)
        except StoreError:
            with pytest.raises(StoreError):
                restore_store(files, BACKUP, MADE)
            assert files.list(MADE) == []
        else:
            assert manifest.records == RECORDS
            restore_store(files, BACKUP, MADE, dry_run=True)
        if files.list(BACKUP / "store") and not complete:
            with pytest.raises(StoreError, match="interrupted backup|already has a backup"):
                back_up(files)
        if not complete:
            clear(files, BACKUP)
            _forget(files, BACKUP)
        number += 1
    assert number > 30


def _forget(files, folder):
    for name in files.list(folder):
        _forget(files, folder / name)
    files.remove_dir(folder)


@pytest.mark.parametrize("done", [False, True])
def test_a_restore_that_fails_at_any_call_is_recognized(files, done):
    back_up(files)
    kept, number, complete = contents(files, BACKUP), 0, False
    stored = {path: data for path, data in kept.items() if path.parent != BACKUP}
    expected = {MADE / path.relative_to(BACKUP / "store"): data for path, data in stored.items()}
    while not complete:
        failing = FailingFiles(files, number, done=done)
        try:
            restore_store(failing, BACKUP, MADE)
        except OSError:
            pass
        else:
            assert not failing.failed
            complete = True
        assert contents(files, BACKUP) == kept
        made = contents(files, MADE)
        blocked = MADE / "commitlog" / INCOMPLETE in made
        begun = made.keys() & expected.keys()
        assert complete or blocked or not begun or begun == expected.keys()
        if blocked:
            with pytest.raises(StoreError, match="has an interrupted restore"):
                restore_store(files, BACKUP, MADE)
        if not complete:
            clear(files, MADE)
            _forget(files, MADE)
        number += 1
    assert number > 30
    assert {path: data for path, data in made.items() if path.name != "lock"} == expected


class Unreadable(ForwardingFiles):
    """A disk with a bad sector in one log file."""

    def around(self, name, path, proceed, *, position=0, length=0):
        if name == "pread" and path == STORE / "commitlog" / file_name(0) and length > 4096:
            raise OSError(errno.EIO, "Input/output error")
        return proceed()


def test_a_file_that_cannot_be_read_is_named(files):
    with pytest.raises(StoreError, match=r"/store/commitlog/0+ cannot be read at byte 0: .*Input/output error"):
        back_up(Unreadable(files))
    with pytest.raises(StoreError, match="its backup was interrupted"):
        read_manifest(files, BACKUP)


def test_a_disk_that_fills_up_during_a_backup_is_told(files):
    files.capacity = files.capacity - files.disk_use(BACKUP).usable + 20_000
    with pytest.raises(StoreError, match="the disk of /backup is full; the backup is incomplete, remove it"):
        back_up(files)


def test_a_full_disk_is_told(files):
    back_up(files)
    files.capacity = files.capacity - files.disk_use(MADE).usable + 1024 * 1024
    with pytest.raises(StoreError, match=r"/made needs about .* bytes, its disk has 1,048,576 bytes left"):
        restore_store(files, BACKUP, MADE)
    assert files.list(MADE) == []


def test_a_disk_that_fills_up_during_a_restore_is_told(files, monkeypatch):
    back_up(files)
    monkeypatch.setattr("gantrymq_store_tools.restore._refuse_full_disk", lambda *args: None)
    files.capacity = files.capacity - files.disk_use(MADE).usable + 20_000
    with pytest.raises(StoreError, match=r"the disk of /made is full; empty that folder, make space for"):
        restore_store(files, BACKUP, MADE)
