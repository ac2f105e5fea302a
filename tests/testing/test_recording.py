"""The order of calls: its contents, and the conclusions that it allows."""

import asyncio
import threading
from pathlib import Path

import pytest

from gantrymq.world.real import RealFiles, RealWorkers
from gantrymq_testing.recording import RecordingFiles
from gantrymq_testing.simulated import SimulatedFiles

PATH = Path("/log")


@pytest.fixture
def files():
    return RecordingFiles(SimulatedFiles(lambda: 0))


def test_every_call_is_noted_in_order(files):
    opened = files.open(PATH, create=True)
    opened.allocate(100)
    opened.pwrite(b"de", 20)
    opened.pread(200, 90)
    opened.datasync()
    opened.prefetch(0, 50)
    opened.drop_cache(10, 20)
    opened.truncate(50)
    opened.close()
    files.rename(PATH, Path("/b"))
    files.remove(Path("/b"))
    assert [call[1:] for call in files.calls] == [
        ("open", PATH, 0, 0, -1),
        ("allocate", PATH, 0, 100, -1),
        ("pwrite", PATH, 20, 2, -1),
        ("pread", PATH, 90, 10, -1),
        ("datasync.begin", PATH, 0, 0, -1),
        ("datasync.end", PATH, 0, 0, 4),
        ("prefetch", PATH, 0, 50, -1),
        ("drop_cache", PATH, 10, 20, -1),
        ("truncate", PATH, 0, 50, -1),
        ("close", PATH, 0, 0, -1),
        ("rename", PATH, 0, 0, -1),
        ("rename.to", Path("/b"), 0, 0, -1),
        ("remove", Path("/b"), 0, 0, -1),
    ]
    assert [call.number for call in files.calls] == list(range(13))


def test_names_of_folders_and_locks_are_noted(files):
    files.make_dirs(Path("/d"))
    files.replace(Path("/d/a"), b"12")
    files.read(Path("/d/a"))
    files.sync_dir(Path("/d"))
    lock = files.lock(Path("/d/lock"), b"lock")
    assert files.lock(Path("/d/lock"), b"lock") is None
    lock.release()
    files.remove_dir(Path("/none"))
    names = [(call.name, call.length) for call in files.calls]
    assert names == [("make_dirs", 0), ("replace", 2), ("read", 2), ("sync_dir", 0), ("lock", 4), ("remove_dir", 0)]


def test_a_call_that_fails_is_not_noted(files):
    with pytest.raises(FileNotFoundError):
        files.open(PATH)
    opened = files.open(PATH, create=True)
    opened.allocate(10)
    with pytest.raises(OSError, match="Invalid argument"):
        opened.pwrite(b"ab", -1)
    assert [call.name for call in files.calls] == ["open", "allocate"]


def test_a_sync_covers_what_was_written_before_it_began(files):
    opened = files.open(PATH, create=True)
    opened.pwrite(b"one", 0)
    too_early = files.note("reply", PATH)
    opened.datasync()
    in_time = files.note("reply", PATH)
    opened.pwrite(b"two", 3)
    uncovered = files.note("reply", PATH)
    assert [call.position for call in files.unsynced(PATH, too_early)] == [0]
    assert files.unsynced(PATH, in_time) == []
    assert [call.position for call in files.unsynced(PATH, uncovered)] == [3]
    assert files.unsynced(Path("/other"), uncovered) == []


def test_a_write_during_a_sync_and_a_sync_that_failed_cover_nothing():
    inner = SimulatedFiles(lambda: 0)
    files = RecordingFiles(inner)
    opened = files.open(PATH, create=True)

    class Failing:
        path = PATH

        def datasync(self):
            raise OSError("disk")

    class Interrupted:
        path = PATH

        def datasync(self):
            opened.pwrite(b"meanwhile", 0)

    real, opened_inner = opened, opened._inner
    opened.pwrite(b"before", 0)
    opened._inner = Failing()
    with pytest.raises(OSError, match="disk"):
        real.datasync()
    assert len(files.unsynced(PATH, files.note("reply", PATH))) == 1
    assert files.calls[-2].name == "datasync.fail"
    opened._inner = opened_inner

    syncing = files.open(PATH)
    syncing._inner = Interrupted()
    syncing.datasync()
    left = files.unsynced(PATH, files.note("reply", PATH))
    assert [call.length for call in left] == [len(b"meanwhile")]


def test_threads_share_one_order_over_real_files(tmp_path):
    files = RecordingFiles(RealFiles())
    opened = files.open(tmp_path / "log", create=True)
    opened.allocate(4096)

    async def main():
        workers = RealWorkers(2)
        for number in range(50):
            opened.pwrite(b"x", number)
            await workers.run(opened.datasync)
            assert files.unsynced(tmp_path / "log", files.note("reply", tmp_path / "log")) == []
        await workers.close()

    asyncio.run(main())
    writers = [threading.Thread(target=lambda: [opened.pwrite(b"y", 0) for _ in range(200)]) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    opened.close()
    assert [call.number for call in files.calls] == list(range(len(files.calls)))
    assert sum(call.name == "pwrite" for call in files.calls) == 50 + 800
