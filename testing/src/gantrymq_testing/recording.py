"""Files that remember the order of every call, to prove what was durable when.

A write is noted after it was made and a sync when it begins and when it has ended, so the order of the notes is safe
to argue from: a write noted before a sync began was made before it. `RecordingFiles.note` lets a test put events of its
own ("a reply left") into the same order. Works around real and simulated files, from any number of threads.
"""

from __future__ import annotations

import builtins
import threading
from pathlib import Path
from typing import NamedTuple

from gantrymq.world.files import DiskUse, File, Files, FileStat, Lock, Mapping, Volume

WRITES = frozenset({"write", "pwrite"})  # calls whose bytes a sync has to cover
SYNC_BEGINS, SYNC_ENDS, SYNC_FAILS = "datasync.begin", "datasync.end", "datasync.fail"


class Call(NamedTuple):
    """One call, in the order in which all threads made them."""

    number: int  # from 0; the index in `RecordingFiles.calls`
    name: str  # of the method; "datasync.begin", "datasync.end" or "datasync.fail" for a sync
    path: Path
    position: int = 0  # bytes from the start of the file
    length: int = 0  # bytes; the new length for truncate and allocate
    begun: int = -1  # for the end of a sync: number of its beginning


class RecordingFiles:
    """`Files` that hands every call on and notes it once it succeeded."""

    def __init__(self, inner: Files) -> None:
        self._inner = inner
        self._guard = threading.Lock()
        self._calls: list[Call] = []

    @property
    def calls(self) -> builtins.list[Call]:
        """A copy of all calls so far."""
        with self._guard:
            return self._calls.copy()

    def note(self, name: str, path: Path, position: int = 0, length: int = 0, begun: int = -1) -> int:
        """Add a call, or an event of the test's own, to the order; returns its number."""
        with self._guard:
            number = len(self._calls)
            self._calls.append(Call(number, name, path, position, length, begun))
            return number

    def unsynced(self, path: Path, before: int) -> builtins.list[Call]:
        """Writes to *path* noted before number *before* that no sync ended before *before* has covered.

        A sync covers the writes that were noted before it began, whichever handle of the path made them. The path is
        the one a handle was opened under. What ``replace`` writes is durable when it returns and is not counted.
        """
        calls = [call for call in self.calls[:before] if call.path == path]
        covered = max((call.begun for call in calls if call.name == SYNC_ENDS), default=-1)
        return [call for call in calls if call.name in WRITES and call.number > covered]

    def stat(self, path: Path) -> FileStat | None:
        """What is there; not noted, nor are the other questions (``list``, ``disk_use``)."""
        return self._inner.stat(path)

    def list(self, path: Path) -> list[str]:
        """Names in a folder."""
        return self._inner.list(path)

    def disk_use(self, path: Path) -> DiskUse:
        """Space on the file system."""
        return self._inner.disk_use(path)

    def make_dirs(self, path: Path) -> None:
        """Noted as ``make_dirs``."""
        self._inner.make_dirs(path)
        self.note("make_dirs", path)

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> RecordingFile:
        """Noted as ``open``; the file and its mappings note their calls too."""
        opened = self._inner.open(path, create=create, read_only=read_only)
        self.note("open", Path(path))
        return RecordingFile(opened, self)

    def read(self, path: Path) -> bytes:
        """Noted as ``read`` with the length that was found."""
        data = self._inner.read(path)
        self.note("read", path, 0, len(data))
        return data

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """Noted as ``pread`` where there is a file."""
        data = self._inner.peek(path, length, position)
        if data is not None:
            self.note("pread", Path(path), position, len(data))
        return data

    def replace(self, path: Path, data: bytes) -> None:
        """Noted as ``replace`` when it is durable."""
        self._inner.replace(path, data)
        self.note("replace", path, 0, len(data))

    def rename(self, old: Path, new: Path) -> None:
        """Noted as ``rename`` under the old path, then ``rename.to`` under the new one."""
        self._inner.rename(old, new)
        self.note("rename", old)
        self.note("rename.to", new)

    def remove(self, path: Path) -> None:
        """Noted as ``remove``."""
        self._inner.remove(path)
        self.note("remove", path)

    def remove_dir(self, path: Path) -> None:
        """Noted as ``remove_dir``."""
        self._inner.remove_dir(path)
        self.note("remove_dir", path)

    def sync_dir(self, path: Path) -> None:
        """Noted as ``sync_dir`` when it is durable."""
        self._inner.sync_dir(path)
        self.note("sync_dir", path)

    def lock(self, path: Path, content: bytes) -> Lock | None:
        """Noted as ``lock`` where it was got."""
        lock = self._inner.lock(path, content)
        if lock is not None:
            self.note("lock", path, 0, len(content))
        return lock

    def lock_folder(self, path: Path) -> Lock | None:
        """Noted as ``lock`` where it was got."""
        lock = self._inner.lock_folder(path)
        if lock is not None:
            self.note("lock", path)
        return lock

    def watch(self, folder: Path) -> Volume | None:
        """The volume notes its syncs as those of every file that was written before."""
        volume = self._inner.watch(folder)
        return None if volume is None else RecordingVolume(volume, self)


class RecordingVolume:
    """A file system whose syncs are noted for each file that was written."""

    def __init__(self, inner: Volume, record: RecordingFiles) -> None:
        self._inner = inner
        self._record = record

    def sync(self) -> None:
        """Noted as a sync of every file with a write before it."""
        begun = {
            path: self._record.note(SYNC_BEGINS, path)
            for path in sorted({call.path for call in self._record.calls if call.name in WRITES})
        }
        try:
            self._inner.sync()
        except BaseException:
            for path, number in begun.items():
                self._record.note(SYNC_FAILS, path, begun=number)
            raise
        for path, number in begun.items():
            self._record.note(SYNC_ENDS, path, begun=number)

    def close(self) -> None:
        """As `Volume.close`."""
        self._inner.close()


class RecordingFile:
    """An open file whose calls are noted under the path it was opened with."""

    def __init__(self, inner: File, record: RecordingFiles) -> None:
        self._inner = inner
        self._record = record

    @property
    def path(self) -> Path:
        """Where it was opened."""
        return self._inner.path

    def size(self) -> int:
        """Length in bytes; not noted."""
        return self._inner.size()

    def pread(self, length: int, position: int) -> bytes:
        """Noted as ``pread`` with the length that was read."""
        data = self._inner.pread(length, position)
        self._record.note("pread", self.path, position, len(data))
        return data

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """Noted as ``pread`` when it read something."""
        data = self._inner.pread_cached(length, position)
        if data is not None:
            self._record.note("pread", self.path, position, len(data))
        return data

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Noted as ``pwrite``."""
        self._inner.pwrite(data, position)
        self._record.note("pwrite", self.path, position, len(data))

    def prefetch(self, position: int, length: int) -> None:
        """Noted as ``prefetch``."""
        self._inner.prefetch(position, length)
        self._record.note("prefetch", self.path, position, length)

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """Not noted."""
        return self._inner.written(start, end)

    def drop_cache(self, position: int, length: int) -> None:
        """Noted as ``drop_cache``."""
        self._inner.drop_cache(position, length)
        self._record.note("drop_cache", self.path, position, length)

    def truncate(self, length: int) -> None:
        """Noted as ``truncate``."""
        self._inner.truncate(length)
        self._record.note("truncate", self.path, 0, length)

    def allocate(self, length: int) -> None:
        """Noted as ``allocate``."""
        self._inner.allocate(length)
        self._record.note("allocate", self.path, 0, length)

    def map(self) -> RecordingMapping:
        """Noted as ``map`` with the size."""
        mapping = self._inner.map()
        self._record.note("map", self.path, 0, mapping.size)
        return RecordingMapping(mapping, self._record, self.path)

    def datasync(self) -> None:
        """Noted as ``datasync.begin``, then ``datasync.end``, or ``datasync.fail`` when it raises."""
        begun = self._record.note(SYNC_BEGINS, self.path)
        try:
            self._inner.datasync()
        except BaseException:
            self._record.note(SYNC_FAILS, self.path, begun=begun)
            raise
        self._record.note(SYNC_ENDS, self.path, begun=begun)

    def close(self) -> None:
        """Noted as ``close``."""
        self._inner.close()
        self._record.note("close", self.path)


class RecordingMapping:
    """A mapping whose writes are noted."""

    def __init__(self, inner: Mapping, record: RecordingFiles, path: Path) -> None:
        self._inner = inner
        self._record = record
        self._path = path

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._inner.size

    @property
    def view(self) -> memoryview:
        """Read-only view of the whole file; reading through it is not noted."""
        return self._inner.view

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Noted as ``write``."""
        self._inner.write(position, data)
        self._record.note("write", self._path, position, len(data))

    def lock(self) -> None:
        """Noted as ``mlock``."""
        self._inner.lock()
        self._record.note("mlock", self._path, 0, self.size)

    def close(self) -> None:
        """Noted as ``unmap``."""
        self._inner.close()
        self._record.note("unmap", self._path)
