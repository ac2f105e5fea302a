"""Every call goes through `around` with its name, and its result is returned unchanged."""

import inspect
from pathlib import Path

import pytest

from gantrymq.world import File, Files, Lock, Volume
from gantrymq_testing.forwarding import (
    ForwardingFile,
    ForwardingFiles,
    ForwardingLock,
    ForwardingVolume,
)
from gantrymq_testing.simulated import SimulatedFiles

FOLDER, LOG = Path("/d"), Path("/d/log")


class Listing(ForwardingFiles):
    """Records the calls, their arguments and results."""

    def __init__(self, inner):
        super().__init__(inner)
        self.calls, self.handles = [], []

    def around(self, name, path, proceed, *, position=0, length=0):
        self.calls.append((name, path, position, length))
        return proceed()

    def began(self, handle):
        self.handles.append(handle)

    def ended(self, handle):
        self.handles.remove(handle)

    def take(self):
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def files():
    return Listing(SimulatedFiles(lambda: 0))


@pytest.mark.parametrize(
    ("forwarding", "protocol"),
    [
        (ForwardingFiles, Files),
        (ForwardingFile, File),
        (ForwardingVolume, Volume),
        (ForwardingLock, Lock),
    ],
    ids=lambda kind: kind.__name__,
)
def test_it_has_every_method_of_what_it_stands_for(forwarding, protocol):
    for name, method in vars(protocol).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            assert inspect.signature(getattr(forwarding, name)).parameters.keys() == (
                inspect.signature(method).parameters.keys()
            ), name


def test_calls_of_files(files):
    files.make_dirs(FOLDER)
    files.replace(LOG, b"abc")
    assert files.read(LOG) == b"abc"
    assert files.peek(str(LOG), 9, 1) == b"bc"
    assert files.stat(LOG).size == 3
    assert files.list(FOLDER) == ["log"]
    files.rename(LOG, Path("/d/b"))
    files.link(Path("/d/b"), LOG)
    files.remove(Path("/d/b"))
    files.remove(LOG)
    files.sync_dir(FOLDER)
    assert files.disk_use(FOLDER).total == 1 << 40
    files.remove_dir(FOLDER)
    assert files.take() == [
        ("make_dirs", FOLDER, 0, 0),
        ("replace", LOG, 0, 3),
        ("read", LOG, 0, 0),
        ("peek", LOG, 1, 9),
        ("stat", LOG, 0, 0),
        ("list", FOLDER, 0, 0),
        ("rename", LOG, 0, 0),
        ("link", Path("/d/b"), 0, 0),
        ("remove", Path("/d/b"), 0, 0),
        ("remove", LOG, 0, 0),
        ("sync_dir", FOLDER, 0, 0),
        ("disk_use", FOLDER, 0, 0),
        ("remove_dir", FOLDER, 0, 0),
    ]


def test_calls_of_a_file(files):
    file = files.open("/log", create=True)
    path = Path("/log")
    file.allocate(100)
    file.pwrite(b"abc", 7)
    assert file.pread(3, 7) == b"abc"
    assert file.pread_cached(3, 7) is None
    assert (file.size(), file.path) == (100, path)
    file.prefetch(5, 6)
    file.drop_cache(6, 7)
    assert file.written(10, 30) == [(10, 30)]
    assert len(files.handles) == 1
    file.datasync()
    file.truncate(5)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)
    assert files.handles == []
    assert files.take() == [
        ("create", path, 0, 0),
        ("allocate", path, 0, 100),
        ("pwrite", path, 7, 3),
        ("pread", path, 7, 3),
        ("pread_cached", path, 7, 3),
        ("size", path, 0, 0),
        ("prefetch", path, 5, 6),
        ("drop_cache", path, 6, 7),
        ("written", path, 10, 20),
        ("datasync", path, 0, 0),
        ("truncate", path, 0, 5),
        ("close", path, 0, 0),
        ("pread", path, 0, 1),
    ]


def test_calls_of_locks_and_volumes(files):
    path = Path("/lock")
    lock = files.lock(path, b"pid")
    assert files.lock(path, b"pid") is None
    folder = files.lock_folder(Path("/"))
    assert files.lock_folder(Path("/")) is None
    volume = files.watch(Path("/"))
    volume.sync()
    assert [handle.path for handle in files.handles] == [path, Path("/"), Path("/")]
    for give_back in (volume.close, folder.release, lock.release):
        give_back()
    assert files.handles == []
    assert files.lock(path, b"pid") is not None
    assert [call[0] for call in files.take()] == [
        *("lock", "lock", "lock_folder", "lock_folder", "watch", "syncfs"),
        *("unwatch", "release", "release", "lock"),
    ]


def test_by_itself_it_changes_nothing():
    files = ForwardingFiles(SimulatedFiles(lambda: 0))
    with pytest.raises(FileNotFoundError):
        files.open(LOG)
    file = files.open("/log", create=True)
    file.pwrite(b"abc", 0)
    file.close()
    file.close()
    assert files.read(Path("/log")) == b"abc"
