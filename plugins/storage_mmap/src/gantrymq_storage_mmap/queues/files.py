"""Open queue files: a bounded LRU cache of descriptors that also tracks which files were written since the last sync.

Files are read and written through descriptors, not mappings: ten thousand queues would need as many mappings (the
kernel allows 65,530), a mapped write to a sparse file kills the process when the disk is full, where ``pwrite`` reports
an error, and a page fault on a cold entry would block the event loop. A ``pwrite`` of one batch costs about 2 us.

A file that was written stays open until it is synced: Linux reports a failed write only to descriptors that were open
when it failed, and possibly never to one opened later. If more than `MOST_PINNED` files were written, none is kept
open; the whole file system is then synced (``syncfs``), which reports failures of closed files too.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from gantrymq.plugin.world import File, Files

MOST_PINNED: Final = 64


class Segments(Protocol):
    """A sequence of files, each known by the position of its first byte; used as a key by identity."""

    @property
    def folder(self) -> Path:
        """Folder of the files."""

    def path(self, start: int) -> Path:
        """Path of the file at byte *start*."""

    def path_text(self, start: int) -> str:
        """The same as text."""


Key = tuple[Segments, int]  # and the position of one of its files


class QueueFiles:
    """Files by segmented file and position of their first byte; all methods belong to one thread at a time."""

    def __init__(self, files: Files, folder: Path, file_bytes: int, most_open: int) -> None:
        """Open nothing yet.

        Args:
            files: access to the disk.
            folder: folder that contains the folders of topics.
            file_bytes: size of every file.
            most_open: maximum number of open files, at least 1.
        """
        self.files = files
        self.folder = folder
        self.prefix = str(folder)
        self.file_bytes = file_bytes
        self.many = False  # more files were written since the last sync than are pinned
        self._new_folders: dict[Path, None] = {}  # folders whose names are not durable yet, parents before children
        self._most_open = most_open
        self._open: OrderedDict[Key, File] = OrderedDict()
        self._pinned: dict[Key, File] = {}  # written since the last sync
        self._syncing: dict[Key, File] = {}  # files that a thread is syncing

    def existing(self, segments: Segments, start: int) -> File | None:
        """Return the file at byte *start* of *segments*, None if it does not exist."""
        key = (segments, start)
        file = self._open.get(key)
        if file is not None:
            self._open.move_to_end(key)
            return file
        file = self._pinned.get(key) or self._syncing.get(key)
        if file is None:
            try:
                file = self._opened(segments.path_text(start), create=False)
            except FileNotFoundError:
                return None
        self._keep(key, file)
        return file

    def write(self, segments: Segments, start: int, data: bytes | memoryview, position: int) -> None:
        """Write *data* into the file at byte *start*, which is created sparse at full size if it is missing.

        Raises:
            OSError: the file cannot be created or written.
        """
        key = (segments, start)
        file = self.existing(segments, start) or self._made(segments, start)
        if key not in self._pinned:
            if file.size() < self.file_bytes:  # created before a crash, and its length was not durable
                file.truncate(self.file_bytes)
            if not self.many:
                self._pin(key, file)
        file.pwrite(data, position)

    def _made(self, segments: Segments, start: int) -> File:
        folder = segments.folder
        self.files.make_dirs(folder)
        file = self._opened(segments.path_text(start), create=True)
        try:
            file.truncate(self.file_bytes)
        except BaseException:
            file.close()
            self.files.remove(segments.path(start))
            raise
        self._new_folders.update(dict.fromkeys((folder.parent.parent, folder.parent, folder)))
        self._keep((segments, start), file)
        return file

    # --- syncs ------------------------------------------------------------------------------------------------------

    def begin_sync(self) -> tuple[list[File], list[Path]]:
        """Return the files written and the folders with new names since the last sync, for a thread to sync.

        If `many` is set, the list is incomplete.
        """
        files, folders = list(self._pinned.values()), list(self._new_folders)
        self._syncing, self._pinned, self._new_folders, self.many = self._pinned, {}, {}, False
        return files, folders

    def end_sync(self, *, failed: bool) -> None:
        """End a sync. If it *failed*, no file or name counts as durable and the next sync covers the file system."""
        self.many = self.many or failed
        self._syncing, done = {}, self._syncing
        self._close_unused(done)

    def _pin(self, key: Key, file: File) -> None:
        self._pinned[key] = file
        if len(self._pinned) > MOST_PINNED:
            self._unpin()

    def _unpin(self) -> None:
        """Stop keeping written files open for the next sync."""
        if self._pinned:
            self.many = True
            self._pinned, gone = {}, self._pinned
            self._close_unused(gone)

    def _close_unused(self, files: dict[Key, File]) -> None:
        for key, file in files.items():
            if self._open.get(key) is not file and not self._in_use(key, file):
                file.close()

    def _in_use(self, key: Key, file: File) -> bool:
        return self._pinned.get(key) is file or self._syncing.get(key) is file

    # --- closing ----------------------------------------------------------------------------------------------------

    def forget(self, segments: Segments) -> None:
        """Close every file of *segments*."""
        for key in [key for key in (*self._open, *self._pinned) if key[0] is segments]:
            self.forget_file(*key)

    def forget_file(self, segments: Segments, start: int) -> None:
        """Close one file that is about to be deleted; if a thread is syncing it, it is closed after the sync."""
        key = (segments, start)
        pinned = self._pinned.pop(key, None)
        for file in {id(file): file for file in (self._open.pop(key, None), pinned) if file is not None}.values():
            if not self._in_use(key, file):
                file.close()

    def close(self) -> None:
        """Close all files."""
        for file in {id(file): file for file in self._all()}.values():
            file.close()
        self._open.clear()
        self._pinned, self._syncing = {}, {}

    def _all(self) -> Iterator[File]:
        for files in (self._open, self._pinned, self._syncing):
            yield from files.values()

    @property
    def open_count(self) -> int:
        """Number of open files."""
        return len({id(file) for file in self._all()})

    # --- opening ----------------------------------------------------------------------------------------------------

    def _opened(self, path: str, *, create: bool) -> File:
        """Open *path*. If the process has no descriptor left, close half of the open files and lower the limit.

        Raises:
            OSError: the file is missing or cannot be created, or there is still no descriptor.
        """
        try:
            return self.files.open(path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or self.open_count < 2:
                raise
        self._unpin()
        self._most_open = max(1, len(self._open) // 2)
        while len(self._open) > self._most_open:
            self._close_oldest()
        return self.files.open(path, create=create)

    def _keep(self, key: Key, file: File) -> None:
        self._open[key] = file
        if len(self._open) > self._most_open:
            self._close_oldest()

    def _close_oldest(self) -> None:
        """Close the least recently used file, unless it is pinned."""
        key, file = self._open.popitem(last=False)
        if not self._in_use(key, file):
            file.close()
