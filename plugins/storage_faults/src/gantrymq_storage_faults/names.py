"""Names that are not durable yet: creations, renames and removals in folders that were not synced since.

A name is durable once its folder was synced (``fsync`` of a file does not guarantee it), and only if the folder's own
name is. A rename is atomic, so a sync of either folder makes it durable. A power cut undoes the other changes, latest
first, including all changes that depend on an undone one.

Source: the POSIX description of fsync, and the Linux manual pages fsync(2) and rename(2).
"""

from __future__ import annotations

import random
from pathlib import Path

import attrs

from gantrymq.plugin.world import File, Files
from gantrymq_storage_faults.pages import PAGE_BYTES, Node
from gantrymq_storage_faults.plan import FaultPlan

_ZEROS = bytes(PAGE_BYTES)


@attrs.define
class _Saved:
    """A file without a name."""

    path: Path
    size: int
    pages: dict[int, bytes]  # pages that are not zero
    node: Node


@attrs.define
class _Step:
    """One change of names."""

    kind: str  # make, make_dir, remove, remove_dir or move
    path: Path
    folders: tuple[Path, ...]  # a sync of any of them makes it durable
    target: Path | None = None  # new path of a move
    gone: _Saved | None = None  # file deleted by a removal or a move
    synced: bool = False

    def touches(self, other: _Step) -> bool:
        """Return whether one of the two depends on the other."""
        return any(_is_in(mine, theirs) or _is_in(theirs, mine) for mine in self._paths() for theirs in other._paths())

    def _paths(self) -> tuple[Path, ...]:
        return (self.path,) if self.target is None else (self.path, self.target)

    def __str__(self) -> str:
        return f"{self.kind} {self.path}" + (f" -> {self.target}" if self.target is not None else "")


class Names:
    """The tracked files by path, and the changes of names that may still be lost."""

    def __init__(self, inner: Files) -> None:
        self._inner = inner
        self.nodes: dict[Path, Node] = {}
        self._steps: list[_Step] = []

    def node(self, path: Path) -> Node:
        """Return the node of the existing file at *path*."""
        node = self.nodes.get(path)
        if node is None:
            stat = self._inner.stat(path)
            node = self.nodes[path] = Node(path, stat.size if stat is not None else 0)
        return node

    def make(self, path: Path) -> None:
        """Record that a file was created."""
        self.nodes.pop(path, None)
        self._steps.append(_Step("make", path, (path.parent,)))

    def make_dirs(self, path: Path) -> None:
        """Prepare the creation of a folder and of its missing parents."""
        missing = []
        while self._inner.stat(path) is None and path != path.parent:
            missing.append(path)
            path = path.parent
        self._steps += [_Step("make_dir", each, (each.parent,)) for each in reversed(missing)]

    def remove(self, path: Path) -> Node | None:
        """Prepare the removal of a file; return its node if it exists."""
        stat = self._inner.stat(path)
        if stat is None or stat.is_dir:
            return None
        gone = self._save(path)
        self.nodes.pop(path, None)
        self._steps.append(_Step("remove", path, (path.parent,), gone=gone))
        return gone.node

    def remove_dir(self, path: Path) -> None:
        """Record that an empty folder was removed."""
        self._steps.append(_Step("remove_dir", path, (path.parent,)))

    def move(self, old: Path, new: Path) -> Node | None:
        """Prepare a rename; return the node of the file that it replaces, if any."""
        stat, there = self._inner.stat(old), self._inner.stat(new)
        if stat is None or old == new:
            return None
        gone = self._save(new) if there is not None and not there.is_dir and not stat.is_dir else None
        self._steps.append(_Step("move", old, (old.parent, new.parent), new, gone))
        self.nodes.pop(new, None)
        self._renamed(old, new)
        for step in self._steps[:-1]:  # a folder's sync covers its entries, also after it was renamed
            step.folders = tuple(new / each.relative_to(old) if _is_in(each, old) else each for each in step.folders)
        return gone.node if gone is not None else None

    def synced(self, folder: Path) -> None:
        """Mark the names in *folder* as durable, as far as its own name is."""
        for step in self._steps:
            step.synced = step.synced or folder in step.folders
        for number, step in enumerate(self._steps):
            if step.kind == "remove_dir" and step.synced:  # the folder was empty, so the removals in it are durable too
                for before in self._steps[:number]:
                    before.synced = before.synced or any(_is_in(each, step.path) for each in before.folders)
        left: list[_Step] = []
        for step in self._steps:
            if not step.synced or any(step.touches(other) for other in left):
                left.append(step)
        self._steps = left

    def sync_all(self) -> None:
        """Mark every name and every file as durable, except lost pages."""
        for path, node in self.nodes.items():
            if not node.durable:
                node.synced(self._size(path))
        self._steps = []

    def fail_all(self, number: int) -> None:
        """Fail the write of every dirty file with errno *number*; names are unaffected."""
        for path, node in self.nodes.items():
            if node.dirty:
                node.failed(number, self._size(path))

    def _size(self, path: Path) -> int:
        stat = self._inner.stat(path)
        return stat.size if stat is not None else 0

    def lose(self, plan: FaultPlan, rng: random.Random) -> list[str]:
        """Undo the changes that a power cut loses; return their descriptions."""
        lost: list[_Step] = []
        for step in self._steps:
            falls = not step.synced and (bool(lost) if plan.names_in_order else False)
            if falls or (not step.synced and rng.random() < plan.lose) or any(step.touches(other) for other in lost):
                lost.append(step)
        for step in reversed(lost):
            self._undo(step)
        self._steps = []
        return [str(step) for step in lost]

    def _undo(self, step: _Step) -> None:
        if step.kind == "make":
            self._inner.remove(step.path)
            self.nodes.pop(step.path, None)
        elif step.kind == "make_dir":
            self._inner.remove_dir(step.path)
        elif step.kind == "remove_dir":
            self._inner.make_dirs(step.path)
        elif step.target is not None:
            self._inner.rename(step.target, step.path)
            self._renamed(step.target, step.path)
        if step.gone is not None:
            self._restore(step.gone)

    def _renamed(self, old: Path, new: Path) -> None:
        for path in [path for path in self.nodes if _is_in(path, old)]:
            node = self.nodes.pop(path)
            node.path = new / path.relative_to(old)
            self.nodes[node.path] = node

    def _save(self, path: Path) -> _Saved:
        node = self.node(path)
        file = self._inner.open(path, read_only=True)
        try:
            size, pages = file.size(), {}
            for page in range(-(-size // PAGE_BYTES)):
                data = file.pread(PAGE_BYTES, page * PAGE_BYTES)
                if data != _ZEROS[: len(data)]:
                    pages[page] = data
        finally:
            file.close()
        return _Saved(path, size, pages, node)

    def _restore(self, gone: _Saved) -> None:
        file: File = self._inner.open(gone.path, create=True)
        try:
            file.truncate(gone.size)
            for page, data in gone.pages.items():
                file.pwrite(data, page * PAGE_BYTES)
        finally:
            file.close()
        gone.node.path = gone.path
        self.nodes[gone.path] = gone.node


def _is_in(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents
