"""Output files, below a folder that the caller names, never in the store that is examined."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gantrymq.errors import StoreError
from gantrymq.plugin.formats import COMMIT_LOG, QUEUES
from gantrymq.plugin.world import File, FileReader, Files, FileTree
from gantrymq_store_files.file_names import file_name, file_start, pieces

_IN_STORES = frozenset({"abort", "checkpoint", "lock", QUEUES})  # beside commitlog
_MAX_OPEN = 64
_CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(_CHUNK_BYTES)


def new_folder(files: FileTree, folder: Path) -> None:
    """Create *folder*.

    Raises:
        StoreError: it already exists.
    """
    if files.stat(folder) is not None:
        raise StoreError(f"{folder} already exists; move it away, or name another folder with --to")
    files.make_dirs(folder)


def refuse_store_folder(files: FileReader, target: Path, root: Path | None = None) -> None:
    """Refuse a folder for output that is in a store, whether or not a broker has it open, or that contains *root*.

    Args:
        target: the folder; it need not exist.
        root: the store that is read, if any.

    Raises:
        StoreError: *target* is, or is in, the folder of a store or of a commit log, or contains *root*.
    """
    whole = target.absolute().resolve()
    if root is not None and root.absolute().resolve().is_relative_to(whole):
        raise StoreError(f"{target} contains the store {root}; name a folder outside it")
    for folder in (whole, *whole.parents):
        if _is_of_store(files, folder):
            raise StoreError(f"{target} is inside the store {folder}; name a folder outside it")


def _is_of_store(files: FileReader, folder: Path) -> bool:
    with suppress(OSError):  # of another user
        names = files.list(folder)
        return (COMMIT_LOG in names and not _IN_STORES.isdisjoint(names)) or any(
            file_start(name) is not None for name in names
        )
    return False


class TargetFiles:
    """Sparse files of one size, written at any position. Call `close` at the end."""

    def __init__(self, files: Files, file_bytes: int) -> None:
        """*file_bytes*: length of each file."""
        self.file_bytes = file_bytes
        self.made = 0
        self._files = files
        self._open: OrderedDict[Path, File] = OrderedDict()
        self._known: set[Path] = set()
        self._folders: set[Path] = set()

    def adopt(self, paths: Iterable[Path]) -> None:
        """Register existing files of full length."""
        self._known.update(paths)

    def file(self, path: Path) -> File:
        """Return the file at *path*, created with its folder if needed."""
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        if len(self._open) >= _MAX_OPEN:
            self._open.popitem(last=False)[1].close()
        if path.parent not in self._folders:
            self._files.make_dirs(path.parent)
            self._folders.add(path.parent)
        found = self._open[path] = self._files.open(path, create=True)
        if path not in self._known:
            found.truncate(self.file_bytes)
            self._known.add(path)
            self.made += 1
        return found

    def write(self, folder: Path, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write *data* at byte *position* of the series in *folder*, across file boundaries."""
        rest = memoryview(data)
        for start, at, length in pieces(position, len(data), self.file_bytes):
            self.file(folder / file_name(start)).pwrite(rest[:length], at)
            rest = rest[length:]

    def close(self) -> None:
        """Make everything durable and close all files."""
        for path in sorted(self._known):
            file = self._open.pop(path, None) or self._files.open(path)
            file.datasync()
            file.close()
        for folder in sorted(self._folders):
            self._files.sync_dir(folder)


def copy_file(files: Files, source: Path, target: Path, length: int | None = None) -> int:
    """Copy a file sparsely, cut or filled up to *length*; bytes that cannot be read are zeros in the copy.

    Returns:
        The number of bytes that could not be read.
    """
    reading = files.open(source, read_only=True)
    lost = 0
    try:
        size = reading.size()
        writing = files.open(target, create=True)
        try:
            writing.truncate(size if length is None else length)
            for at in range(0, size if length is None else min(size, length), _CHUNK_BYTES):
                wanted = min(_CHUNK_BYTES, (size if length is None else min(size, length)) - at)
                try:
                    data = reading.pread(wanted, at)
                except OSError:
                    lost += wanted
                    continue
                if data != _ZEROS[: len(data)]:
                    writing.pwrite(data, at)
            writing.datasync()
        finally:
            writing.close()
    finally:
        reading.close()
    return lost


def same_bytes(files: Files, one: Path, other: Path) -> bool:
    """Return whether both files exist and have the same content."""
    stats = files.stat(one), files.stat(other)
    if stats[0] is None or stats[1] is None or stats[0].size != stats[1].size:
        return False
    opened = files.open(one, read_only=True), files.open(other, read_only=True)
    try:
        return all(
            opened[0].pread(_CHUNK_BYTES, at) == opened[1].pread(_CHUNK_BYTES, at)
            for at in range(0, stats[0].size, _CHUNK_BYTES)
        )
    finally:
        for file in opened:
            file.close()
