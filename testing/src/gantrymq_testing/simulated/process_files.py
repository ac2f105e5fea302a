"""Files as one process of a simulated world sees them: descriptors, mappings and locks that end with the process."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gantrymq.world.files import DiskUse, File, Files, FileStat, Lock, Mapping, Volume


class Check(Protocol):
    """Called before every call."""

    def __call__(self, *, changes: bool) -> None:
        """Raise when the process is dead, or dies of this call; *changes*: the call changes or syncs something."""


class ProcessFiles:
    """`Files` of one process; ``held`` is what it has not given back, in the order it was opened."""

    def __init__(self, inner: Files, check: Check) -> None:
        self._inner = inner
        self._check = check
        self.held: dict[_File | _Mapping | _Lock | _Volume, Path] = {}

    def break_off(self) -> None:
        """Give everything back, as the operating system does for a process that is gone."""
        for each in reversed(list(self.held)):
            each.let_go()
        self.held.clear()

    def stat(self, path: Path) -> FileStat | None:
        """As `Files.stat`."""
        self._check(changes=False)
        return self._inner.stat(path)

    def list(self, path: Path) -> builtins.list[str]:
        """As `Files.list`."""
        self._check(changes=False)
        return self._inner.list(path)

    def make_dirs(self, path: Path) -> None:
        """As `Files.make_dirs`."""
        self._check(changes=True)
        self._inner.make_dirs(path)

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> File:
        """As `Files.open`."""
        self._check(changes=create)
        return _File(self._inner.open(path, create=create, read_only=read_only), self._check, self.held)

    def read(self, path: Path) -> bytes:
        """As `Files.read`."""
        self._check(changes=False)
        return self._inner.read(path)

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """As `Files.peek`."""
        self._check(changes=False)
        return self._inner.peek(path, length, position)

    def replace(self, path: Path, data: bytes) -> None:
        """As `Files.replace`."""
        self._check(changes=True)
        self._inner.replace(path, data)

    def rename(self, old: Path, new: Path) -> None:
        """As `Files.rename`."""
        self._check(changes=True)
        self._inner.rename(old, new)

    def remove(self, path: Path) -> None:
        """As `Files.remove`."""
        self._check(changes=True)
        self._inner.remove(path)

    def remove_dir(self, path: Path) -> None:
        """As `Files.remove_dir`."""
        self._check(changes=True)
        self._inner.remove_dir(path)

    def sync_dir(self, path: Path) -> None:
        """As `Files.sync_dir`."""
        self._check(changes=True)
        self._inner.sync_dir(path)

    def lock(self, path: Path, content: bytes) -> Lock | None:
        """As `Files.lock`."""
        self._check(changes=True)
        lock = self._inner.lock(path, content)
        return None if lock is None else _Lock(lock, path, self.held)

    def lock_folder(self, path: Path) -> Lock | None:
        """As `Files.lock_folder`."""
        self._check(changes=False)
        lock = self._inner.lock_folder(path)
        return None if lock is None else _Lock(lock, path, self.held)

    def watch(self, folder: Path) -> Volume | None:
        """As `Files.watch`."""
        self._check(changes=False)
        volume = self._inner.watch(folder)
        return None if volume is None else _Volume(volume, folder, self._check, self.held)

    def disk_use(self, path: Path) -> DiskUse:
        """As `Files.disk_use`."""
        self._check(changes=False)
        return self._inner.disk_use(path)


class _Lock:
    def __init__(self, inner: Lock, path: Path, held: dict[_File | _Mapping | _Lock | _Volume, Path]) -> None:
        self.let_go: Callable[[], None] = inner.release
        self._held = held
        held[self] = path

    def release(self) -> None:
        self._held.pop(self, None)
        self.let_go()


class _Volume:
    def __init__(
        self, inner: Volume, path: Path, check: Check, held: dict[_File | _Mapping | _Lock | _Volume, Path]
    ) -> None:
        self.let_go: Callable[[], None] = inner.close
        self._inner = inner
        self._check = check
        self._held = held
        held[self] = path

    def sync(self) -> None:
        self._check(changes=True)
        self._inner.sync()

    def close(self) -> None:
        self._held.pop(self, None)
        self.let_go()


class _File:
    def __init__(self, inner: File, check: Check, held: dict[_File | _Mapping | _Lock | _Volume, Path]) -> None:
        self.path = inner.path
        self.size = inner.size
        self.let_go: Callable[[], None] = inner.close
        self._inner = inner
        self._check = check
        self._held = held
        held[self] = inner.path

    def pread(self, length: int, position: int) -> bytes:
        self._check(changes=False)
        return self._inner.pread(length, position)

    def pread_cached(self, length: int, position: int) -> bytes | None:
        self._check(changes=False)
        return self._inner.pread_cached(length, position)

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        self._check(changes=True)
        self._inner.pwrite(data, position)

    def prefetch(self, position: int, length: int) -> None:
        self._check(changes=False)
        self._inner.prefetch(position, length)

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        self._check(changes=False)
        return self._inner.written(start, end)

    def drop_cache(self, position: int, length: int) -> None:
        self._check(changes=False)
        self._inner.drop_cache(position, length)

    def truncate(self, length: int) -> None:
        self._check(changes=True)
        self._inner.truncate(length)

    def allocate(self, length: int) -> None:
        self._check(changes=True)
        self._inner.allocate(length)

    def map(self) -> Mapping:
        self._check(changes=False)
        return _Mapping(self._inner.map(), self.path, self._check, self._held)

    def datasync(self) -> None:
        self._check(changes=True)
        self._inner.datasync()

    def close(self) -> None:
        self._held.pop(self, None)
        self.let_go()


class _Mapping:
    def __init__(
        self, inner: Mapping, path: Path, check: Check, held: dict[_File | _Mapping | _Lock | _Volume, Path]
    ) -> None:
        self.size = inner.size
        self.let_go: Callable[[], None] = inner.close
        self._inner = inner
        self._check = check
        self._held = held
        held[self] = path

    @property
    def view(self) -> memoryview:
        return self._inner.view

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        self._check(changes=True)
        self._inner.write(position, data)

    def lock(self) -> None:
        self._check(changes=False)
        self._inner.lock()

    def close(self) -> None:
        self._held.pop(self, None)
        self.let_go()
