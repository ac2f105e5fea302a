"""`Files` that apply the plan: every call is counted, may fail or end the process, and its changes are tracked.

The wrapped files have the state that a process sees, including the page cache. `Node` and `Names`, which belong to the
`Machine`, track which part of it is durable: a write first saves the durable bytes that it replaces, a sync discards
the saved bytes.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gantrymq.plugin.world import DiskUsage, File, Lock, Volume
from gantrymq_storage_faults.calls import Calls
from gantrymq_storage_faults.disk_space import DiskSpace
from gantrymq_storage_faults.machine import Machine
from gantrymq_storage_faults.pages import PAGE_BYTES, Node
from gantrymq_testing.forwarding import ENDS, Data, ForwardingFile, ForwardingFiles, ForwardingVolume

T = TypeVar("T")

_UNCOUNTED = frozenset({"written", "release", "unwatch"})  # not affected by plans


class Layer(ForwardingFiles):
    """The simulated disk."""

    def __init__(self, machine: Machine, calls: Calls, room: DiskSpace) -> None:
        super().__init__(machine.inner)
        self.machine = machine
        self.calls = calls
        self.room = room
        self.names = machine.names

    def around(self, name: str, path: Path, proceed: Callable[[], T], *, position: int = 0, length: int = 0) -> T:
        if name in _UNCOUNTED or (name in ENDS and self.calls.dead):
            return proceed()
        return self.calls.make(name, path, proceed, position=position, length=length)

    def disk_use(self, path: Path) -> DiskUsage:
        return self.calls.make("disk_use", path, lambda: self.room.use(self._inner.disk_use(path)))

    def make_dirs(self, path: Path) -> None:
        def do() -> None:
            self.names.make_dirs(path)
            self._inner.make_dirs(path)

        self.calls.make("make_dirs", path, do)

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> _File:
        path = Path(path)
        new = create and self._inner.stat(path) is None

        def do() -> _File:
            opened = self._inner.open(path, create=create, read_only=read_only)
            if new:
                self.names.make(path)
            return _File(opened, self.names.node(path), self)

        return self.calls.make("create" if new else "open", path, do)

    def read(self, path: Path) -> bytes:
        def do() -> bytes:
            data = self._inner.read(path)
            return with_flipped_bit(data, rng, self.calls) if (rng := self.calls.bit_flip()) else data

        return self.calls.make("read", path, do)

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        def do() -> bytes | None:
            data = self._inner.peek(path, length, position)
            return with_flipped_bit(data, rng, self.calls) if data and (rng := self.calls.bit_flip()) else data

        return self.calls.make("pread", Path(path), do, position=position, length=length)

    def replace(self, path: Path, data: bytes, mode: int | None = None) -> None:
        def do() -> None:
            there = self._inner.stat(path)
            node = Node(path, 0)
            self.room.take(node, 0, len(data))
            self._inner.replace(path, data, mode)
            if there is not None:
                self.room.cut(self.names.node(path), 0)
            else:
                self.names.make(path)  # a power loss may remove its folder as well
            self.names.nodes[path] = node
            self.names.nodes.pop(_temporary(path), None)  # left by a process that ended during a replacement
            self.names.synced(path.parent)

        def part(rng: random.Random) -> None:
            self._replace_in_part(path, data, rng)

        self.calls.make("replace", path, do, length=len(data), part=part)

    def _replace_in_part(self, path: Path, data: bytes, rng: random.Random) -> None:
        """Leave the temporary file, complete or not; or rename it without syncing the folder."""
        temporary = _temporary(path)
        if self._inner.stat(temporary) is None:
            self._inner.open(temporary, create=True).close()
            self.names.make(temporary)
        file, node = self._inner.open(temporary), self.names.node(temporary)
        whole = rng.random() < 0.5
        try:
            node.resize(file.size(), 0, file.pread)
            file.truncate(0)
            written = data if whole else data[: rng.randrange(len(data) + 1)]
            node.touch(0, len(written), file.pread)
            file.pwrite(written, 0)
        finally:
            file.close()
        if whole:
            node.synced(len(written))
            self.names.move(temporary, path)
            self._inner.rename(temporary, path)

    def rename(self, old: Path, new: Path) -> None:
        def do() -> None:
            gone = self.names.move(old, new)
            self._inner.rename(old, new)
            if gone is not None:
                self.room.cut(gone, 0)

        self.calls.make("rename", old, do)

    def link(self, old: Path, new: Path) -> None:
        """Refuse it: the simulated file system has no hard links."""

        def do() -> None:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(old))

        self.calls.make("link", old, do)

    def remove(self, path: Path) -> None:
        def do() -> None:
            gone = self.names.remove(path)
            self._inner.remove(path)
            if gone is not None:
                self.room.cut(gone, 0)

        self.calls.make("remove", path, do)

    def remove_dir(self, path: Path) -> None:
        def do() -> None:
            there = self._inner.stat(path) is not None
            self._inner.remove_dir(path)
            if there:
                self.names.remove_dir(path)

        self.calls.make("remove_dir", path, do)

    def sync_dir(self, path: Path) -> None:
        def do() -> None:
            self._inner.sync_dir(path)
            self.names.synced(path)

        self.calls.make("sync_dir", path, do)

    def lock(self, path: Path, content: bytes) -> Lock | None:
        def do() -> Lock | None:
            new = self._inner.stat(path) is None
            lock = self._inner.lock(path, content)
            if new and lock is not None:
                self.names.make(path)
            return lock

        return self.calls.make("lock", path, do)

    def watch(self, folder: Path) -> Volume | None:
        def do() -> Volume | None:
            volume = self._inner.watch(folder)
            return None if volume is None else _Volume(volume, folder, self)

        return self.calls.make("watch", folder, do)


def _temporary(path: Path) -> Path:
    """Return the path of the temporary file used to replace *path*."""
    return path.with_name(path.name + ".tmp")


class _Volume(ForwardingVolume):
    def __init__(self, inner: Volume, folder: Path, layer: Layer) -> None:
        super().__init__(inner, folder, layer)
        self._layer = layer
        self._machine = layer.machine
        self._since = layer.machine.errors.sample()

    def sync(self) -> None:
        def do() -> None:
            self._inner.sync()
            self._layer.names.sync_all()
            number, self._since = self._machine.errors.check(self._since)
            if number:
                raise OSError(number, os.strerror(number), str(self.path))

        def failed(number: int) -> None:
            self._layer.names.fail_all(number)
            self._machine.errors.set(number)
            _, self._since = self._machine.errors.check(self._since)

        self._layer.calls.make("syncfs", self.path, do, failed=failed)


class _File(ForwardingFile):
    def __init__(self, inner: File, node: Node, layer: Layer) -> None:
        super().__init__(inner, layer)
        self._node = node
        self._layer = layer
        self._calls = layer.calls
        self._since = node.errors.sample()
        self._open = True
        node.opened += 1

    @property
    def about(self) -> Path:
        """The current path, after renames."""
        return self._node.path

    def pread(self, length: int, position: int) -> bytes:
        def do() -> bytes:
            data = self._inner.pread(length, position)
            return with_flipped_bit(data, rng, self._calls) if (rng := self._calls.bit_flip()) else data

        return self._calls.make("pread", self._node.path, do, position=position, length=length)

    def pwrite(self, data: Data, position: int) -> None:
        self._calls.make(
            "pwrite",
            self._node.path,
            lambda: self._write(data, position),
            position=position,
            length=len(data),
            part=lambda rng: self._write(memoryview(data)[: rng.randrange(len(data) + 1)], position),
        )

    def _write(self, data: Data, position: int) -> None:
        end = position + len(data)
        size = self._inner.size()
        taken = bytes(self._node.blocks)
        self._layer.room.take(self._node, position, end)
        try:
            self._node.touch(position, end, self._inner.pread)
            self._node.resize(size, max(size, end), self._inner.pread, by_write=True)
            self._inner.pwrite(data, position)
        except OSError:
            self._restore_space(taken)
            raise

    def _restore_space(self, taken: bytes) -> None:
        """Restore the used space after a failed write."""
        room, node = self._layer.room, self._node
        if room.left is not None:
            room.left += (node.blocks.count(1) - taken.count(1)) * PAGE_BYTES
        node.blocks[:] = taken

    def truncate(self, length: int) -> None:
        def do() -> None:
            size = self._inner.size()
            self._node.resize(size, length, self._inner.pread)
            self._inner.truncate(length)
            self._layer.room.cut(self._node, length)

        self._calls.make("truncate", self._node.path, do, length=length)

    def allocate(self, length: int) -> None:
        def do() -> None:
            size, taken = self._inner.size(), bytes(self._node.blocks)
            self._layer.room.take(self._node, 0, length)
            try:
                self._node.resize(size, max(size, length), self._inner.pread)
                self._inner.allocate(length)
            except OSError:
                self._restore_space(taken)
                raise

        self._calls.make("allocate", self._node.path, do, length=length)

    def datasync(self) -> None:
        def do() -> None:
            self._inner.datasync()
            self._node.synced(self._inner.size())
            number, self._since = self._node.errors.check(self._since)
            if number:
                raise OSError(number, os.strerror(number), str(self._node.path))

        def failed(number: int) -> None:
            self._node.failed(number, self._inner.size())
            self._layer.machine.errors.set(number)
            _, self._since = self._node.errors.check(self._since)

        self._calls.make("datasync", self._node.path, do, failed=failed)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._node.opened -= 1
        super().close()


def with_flipped_bit(data: bytes, rng: random.Random, calls: Calls) -> bytes:
    """Return *data* with one bit flipped; empty data is unchanged."""
    if not data:
        return data
    position, bit = rng.randrange(len(data)), rng.randrange(8)
    calls.set_outcome(f"bit {bit} of byte {position} of the result is wrong")
    return data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]
