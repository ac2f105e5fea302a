"""Open queue files, a bounded number of them, least recently used goes; and which of them were written since a sync.

Bytes are read and written through descriptors, not mappings: ten thousand queues would need as many mappings (the
kernel allows 65,530), a mapped write to a sparse file kills the process when the disk is full where ``pwrite`` reports
it, and a page fault on a cold entry would stop the event loop. A ``pwrite`` of one batch costs about 2 us.

A file that was written stays open until it was synced: a failed write is told to the descriptors that were open then,
and may never be told to one that is opened later. Where more than `MOST_PINNED` were written, none of them is kept, and
the whole file system has to be synced, which tells of failures in closed files too.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gantrymq.world import File, Files

if TYPE_CHECKING:
    from gantrymq_storage_mmap.queues.file_row import FileRow

__all__ = ["QueueFiles"]

MOST_PINNED: Final = 64

Key = tuple["FileRow", int]  # a row, and the position of a file of it


class QueueFiles:
    """Files by row and position of their first byte; all methods belong to one thread at a time."""

    def __init__(self, files: Files, folder: Path, file_bytes: int, most_open: int) -> None:
        """Nothing is opened yet.

        Args:
            files: the way to the disk.
            folder: what holds the folders of topics.
            file_bytes: size of every file.
            most_open: at least 1.
        """
        self.files = files
        self.folder = folder
        self.prefix = str(folder)
        self.file_bytes = file_bytes
        self.many = False  # more files were written since the last sync than are pinned
        self._new_folders: dict[Path, None] = {}  # whose names are not durable yet, parents before children
        self._most_open = most_open
        self._open: OrderedDict[Key, File] = OrderedDict()
        self._pinned: dict[Key, File] = {}  # written since the last sync
        self._syncing: dict[Key, File] = {}  # a thread syncs them

    def existing(self, row: FileRow, start: int) -> File | None:
        """The file at byte *start* of a row, None when there is none."""
        key = (row, start)
        file = self._open.get(key)
        if file is not None:
            self._open.move_to_end(key)
            return file
        file = self._pinned.get(key) or self._syncing.get(key)
        if file is None:
            try:
                file = self._opened(row.path_text(start), create=False)
            except FileNotFoundError:
                return None
        self._keep(key, file)
        return file

    def write(self, row: FileRow, start: int, data: bytes | memoryview, position: int) -> None:
        """Write *data* into the file at byte *start*, which is made sparse and at full size when it is missing.

        Raises:
            OSError: it cannot be made, or written.
        """
        key = (row, start)
        file = self.existing(row, start) or self._made(row, start)
        if key not in self._pinned:
            if file.size() < self.file_bytes:  # it was made before a crash, and its length was not durable
                file.truncate(self.file_bytes)
            if not self.many:
                self._pin(key, file)
        file.pwrite(data, position)

    def _made(self, row: FileRow, start: int) -> File:
        folder = row.folder
        self.files.make_dirs(folder)
        file = self._opened(row.path_text(start), create=True)
        try:
            file.truncate(self.file_bytes)
        except BaseException:
            file.close()
            self.files.remove(row.path(start))
            raise
        self._new_folders.update(dict.fromkeys((folder.parent.parent, folder.parent, folder)))
        self._keep((row, start), file)
        return file

    # --- syncs ------------------------------------------------------------------------------------------------------

    def begin_sync(self) -> tuple[list[File], list[Path]]:
        """Files that were written, and folders with new names, since the last time; a thread may sync them.

        With `many` that is not all of it.
        """
        files, folders = list(self._pinned.values()), list(self._new_folders)
        self._syncing, self._pinned, self._new_folders, self.many = self._pinned, {}, {}, False
        return files, folders

    def end_sync(self, *, failed: bool) -> None:
        """The thread is done; when it *failed*, no file or name counts as durable, and the next sync is of `many`."""
        self.many = self.many or failed
        self._syncing, done = {}, self._syncing
        self._close_unused(done)

    def _pin(self, key: Key, file: File) -> None:
        self._pinned[key] = file
        if len(self._pinned) > MOST_PINNED:
            self._unpin()

    def _unpin(self) -> None:
        """Keep none of the files that were written open for the next sync."""
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

    def forget(self, row: FileRow) -> None:
        """Close every file of one row."""
        for key in [key for key in (*self._open, *self._pinned) if key[0] is row]:
            self.forget_file(*key)

    def forget_file(self, row: FileRow, start: int) -> None:
        """Close one file, which is about to be deleted; one that a thread syncs is closed behind that."""
        key = (row, start)
        pinned = self._pinned.pop(key, None)
        for file in {id(file): file for file in (self._open.pop(key, None), pinned) if file is not None}.values():
            if not self._in_use(key, file):
                file.close()

    def close(self) -> None:
        """Close everything."""
        for file in {id(file): file for file in self._all()}.values():
            file.close()
        self._open.clear()
        self._pinned, self._syncing = {}, {}

    def _all(self) -> Iterator[File]:
        for files in (self._open, self._pinned, self._syncing):
            yield from files.values()

    @property
    def open_count(self) -> int:
        """How many files are open."""
        return len({id(file) for file in self._all()})

    # --- opening ----------------------------------------------------------------------------------------------------

    def _opened(self, path: str, *, create: bool) -> File:
        """Open *path*; when the process has no descriptor left, give half of ours back first and keep fewer in future.

        Raises:
            OSError: it is missing, cannot be made, or there is no descriptor even so.
        """
        try:
            return self.files.open(path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or self.open_count < 2:
                raise
        self._unpin()
        self._most_open = max(1, len(self._open) // 2)
        while len(self._open) > self._most_open:
            self._let_go()
        return self.files.open(path, create=create)

    def _keep(self, key: Key, file: File) -> None:
        self._open[key] = file
        if len(self._open) > self._most_open:
            self._let_go()

    def _let_go(self) -> None:
        """Close the file that was used longest ago, unless it is pinned."""
        key, file = self._open.popitem(last=False)
        if not self._in_use(key, file):
            file.close()
