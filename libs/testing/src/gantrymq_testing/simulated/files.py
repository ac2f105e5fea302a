"""A file system in memory: a table of paths. Deterministic, for one thread.

Folders persist once created, files need an existing folder, errors have the errno of the operating system. Space is
limited by ``capacity``, which a test may change during a run. Folders and names take no space.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from gantrymq.world.files import DiskUsage, FileStat
from gantrymq_testing.simulated.file import Content, Disk, Note, SimulatedFile
from gantrymq_testing.simulated.trace import Trace

CAPACITY_BYTES = 1 << 40


class SimulatedLock:
    """A lock held until `release`; one table of locks serves every process of the simulation."""

    def __init__(self, content: Content) -> None:
        self._content: Content | None = content
        content.locked = True
        content.hold()

    def release(self) -> None:
        """Release the lock; the file remains."""
        content, self._content = self._content, None
        if content is not None:
            content.locked = False
            content.let_go()


class SimulatedFolderLock:
    """Held until `release`, as `SimulatedLock`."""

    def __init__(self, path: Path, locked: set[Path]) -> None:
        self._path, self._locked = path, locked
        locked.add(path)

    def release(self) -> None:
        """Release the lock. Idempotent."""
        self._locked.discard(self._path)
        self._locked = set()


class SimulatedVolume:
    """The whole disk, which loses nothing."""

    def __init__(self, folder: Path, note: Note) -> None:
        self._folder, self._note = folder, note

    def sync(self) -> None:
        """Record the sync."""
        self._note("file.sync_all", self._folder, 0, b"")

    def close(self) -> None:
        """Nothing to release."""


class SimulatedFiles:
    """`Files` over a dictionary. Relative paths start at ``/``."""

    def __init__(
        self, now_ms: Callable[[], int], trace: Trace | None = None, *, capacity: int = CAPACITY_BYTES
    ) -> None:
        """Create an empty file system.

        Args:
            now_ms: clock for times of modification, milliseconds since 1970-01-01 UTC.
            trace: receives ``file.*`` events, one per call that changes or syncs something.
            capacity: size in bytes, in blocks of 4 KiB.
        """
        self.mode = 0o600  # permission bits of every file that `replace` has not given others
        self.is_own = True  # whether every file belongs to the user of this process
        self.links: set[Path] = set()  # files that count as reached by a symbolic link
        self._now_ms = now_ms
        self._trace = trace
        self._disk = Disk(capacity)
        self._files: dict[Path, Content] = {}
        self._dirs: dict[Path, int] = {Path("/"): now_ms()}  # with the time of creation
        self._locked: set[Path] = set()  # folders

    @property
    def capacity(self) -> int:
        """Size in bytes; a value below the used space means a full disk, not a loss."""
        return self._disk.capacity

    @capacity.setter
    def capacity(self, length: int) -> None:
        self._disk.capacity = length

    def stat(self, path: Path) -> FileStat | None:
        """Return the status of a path, or None if it does not exist."""
        path = _absolute(path)
        if path in self._dirs:
            return FileStat(0, self._dirs[path], is_dir=True, mode=0o700)
        content = self._files.get(path)
        if content is None:
            return None
        mode = content.mode or self.mode
        is_link = path in self.links
        return FileStat(content.size, content.modified_ms, False, mode, is_own=self.is_own, is_link=is_link)

    def list(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted; empty if it does not exist."""
        path = _absolute(path)
        return sorted(each.name for table in (self._dirs, self._files) for each in table if _is_inside(each, path))

    def make_dirs(self, path: Path) -> None:
        """Create the folder and its parents; fine if it exists."""
        path = _absolute(path)
        for folder in reversed((path, *path.parents)):
            if folder in self._files:
                raise _error(errno.EEXIST if folder == path else errno.ENOTDIR, path)
            if folder not in self._dirs:
                self._note("file.make_dir", folder)
                self._dirs[folder] = self._now_ms()

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> SimulatedFile:
        """Open an existing file, or with *create* create it if absent."""
        path = Path(path)
        content = self._content(path, create=create)
        if content.locked:
            raise OSError(errno.EBUSY, "locked; a real process would lose its lock by closing the file", str(path))
        return SimulatedFile(path, content, self._note, self._now_ms, read_only=read_only)

    def read(self, path: Path) -> bytes:
        """Return the whole content. Raises FileNotFoundError."""
        content = self._content(path, create=False)
        return content.read(0, content.size)

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """Return up to *length* bytes of a file from *position*; None if it does not exist."""
        content = self._files.get(_absolute(Path(path)))
        return None if content is None else content.read(position, max(0, min(length, content.size - position)))

    def replace(self, path: Path, data: bytes, mode: int | None = None) -> None:
        """Write ``<path>.tmp``, then rename it over *path*; on an error *path* is unchanged."""
        temporary = path.with_name(path.name + ".tmp")
        self._note("file.replace", path, 0, data)
        content = self._content(temporary, create=True)
        try:
            content.resize(0)
            content.write(0, data)
            content.modified_ms, content.mode = self._now_ms(), mode
            self._move(temporary, path)
        except OSError:
            self._unlink(_absolute(temporary))
            raise

    def rename(self, old: Path, new: Path) -> None:
        """Move a file or a folder with its contents, replacing *new*."""
        self._note("file.rename", old, 0, os.fsencode(new))
        self._move(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Create a hard link."""
        old, new = _absolute(old), _absolute(new)
        if old in self._dirs:
            raise _error(errno.EPERM, old)
        if old not in self._files or new.parent not in self._dirs:
            raise _error(errno.ENOENT, old)
        if new in self._files or new in self._dirs:
            raise _error(errno.EEXIST, new)
        self._note("file.link", old, 0, os.fsencode(new))
        self._files[new] = self._files[old]
        self._files[new].hold()

    def remove(self, path: Path) -> None:
        """Unlink a file; no error if it does not exist."""
        path = _absolute(path)
        if path in self._dirs:
            raise _error(errno.EISDIR, path)
        self._note("file.remove", path)
        self._unlink(path)

    def remove_dir(self, path: Path) -> None:
        """Remove an empty folder; no error if it does not exist. Raises OSError (ENOTEMPTY, ENOTDIR)."""
        path = _absolute(path)
        if path in self._files:
            raise _error(errno.ENOTDIR, path)
        if self.list(path):
            raise _error(errno.ENOTEMPTY, path)
        self._note("file.remove_dir", path)
        self._dirs.pop(path, None)

    def sync_dir(self, path: Path) -> None:
        """Record the sync; nothing can be lost here. Raises FileNotFoundError."""
        path = _absolute(path)
        if path not in self._dirs:
            raise _error(errno.ENOTDIR if path in self._files else errno.ENOENT, path)
        self._note("file.sync_dir", path)

    def lock(self, path: Path, content: bytes) -> SimulatedLock | None:
        """Create *path* with *content* and lock it; None if it is locked."""
        found = self._content(path, create=True)
        if found.locked:
            return None
        self._note("file.lock", path, 0, content)
        found.resize(0)
        found.write(0, content)
        return SimulatedLock(found)

    def lock_folder(self, path: Path) -> SimulatedFolderLock | None:
        """Lock a folder; None if it is locked."""
        path = _absolute(path)
        if path not in self._dirs:
            raise _error(errno.ENOTDIR if path in self._files else errno.ENOENT, path)
        return None if path in self._locked else SimulatedFolderLock(path, self._locked)

    def watch(self, folder: Path) -> SimulatedVolume:
        """The one disk."""
        return SimulatedVolume(_absolute(folder), self._note)

    def disk_use(self, path: Path) -> DiskUsage:
        """The space of the one disk, for any *path*."""
        free = max(self._disk.capacity - self._disk.used, 0)
        return DiskUsage(self._disk.capacity, free, free)

    def _content(self, path: Path, *, create: bool) -> Content:
        """Return the file at *path*; with *create* an empty one if absent."""
        path = _absolute(path)
        if path in self._dirs:
            raise _error(errno.EISDIR, path)
        if path not in self._files:
            if not create or path.parent not in self._dirs:
                raise _error(errno.ENOTDIR if path.parent in self._files else errno.ENOENT, path)
            self._note("file.create", path)
            self._files[path] = Content(self._disk, self._now_ms())
            self._files[path].hold()
        return self._files[path]

    def _move(self, old: Path, new: Path) -> None:
        old, new = _absolute(old), _absolute(new)
        if new.parent not in self._dirs:
            raise _error(errno.ENOENT, new)
        if old in self._files:
            if new in self._dirs:
                raise _error(errno.EISDIR, new)
            if new != old:
                self._unlink(new)
                self._files[new] = self._files.pop(old)
        elif old in self._dirs:
            self._move_dir(old, new)
        else:
            raise _error(errno.ENOENT, old)

    def _move_dir(self, old: Path, new: Path) -> None:
        if new in self._files:
            raise _error(errno.ENOTDIR, new)
        if self.list(new):
            raise _error(errno.ENOTEMPTY, new)
        if old in new.parents:
            raise _error(errno.EINVAL, new)
        self._dirs = {_moved(path, old, new): made for path, made in self._dirs.items()}
        self._files = {_moved(path, old, new): content for path, content in self._files.items()}

    def _unlink(self, path: Path) -> None:
        content = self._files.pop(path, None)
        if content is not None:
            content.let_go()

    def _note(self, kind: str, path: Path, position: int = 0, data: bytes | bytearray | memoryview = b"") -> None:
        if self._trace is not None:
            self._trace.add(kind, str(path), position, data)


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(Path("/") / path))


def _is_inside(path: Path, folder: Path) -> bool:
    return path.parent == folder and path != folder


def _moved(path: Path, old: Path, new: Path) -> Path:
    return new / path.relative_to(old) if path.is_relative_to(old) else path


def _error(number: int, path: Path) -> OSError:
    """Return the OSError subclass that Python raises for *number*."""
    return OSError(number, os.strerror(number), str(path))
