"""Open queue files, a bounded number of them, least recently used goes.

Entries are read and written through descriptors, not mappings: ten thousand queues would need as many mappings (the
kernel allows 65,530), a mapped write to a sparse file kills the process when the disk is full where ``pwrite`` reports
it, and a page fault on a cold entry would stop the event loop. A ``pwrite`` of one batch costs about 2 us.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from pathlib import Path

from gantrymq.world import File, Files
from gantrymq_storage_mmap.log.file import file_name

__all__ = ["QueueFiles"]


class QueueFiles:
    """Files by folder and position of their first byte; all methods belong to one thread at a time."""

    def __init__(self, files: Files, file_bytes: int, most_open: int) -> None:
        """*file_bytes*: size of every queue file, a multiple of 20; *most_open*: at least 1."""
        self.files = files
        self.file_bytes = file_bytes
        self.new_folders: dict[Path, None] = {}  # folders whose names are not durable yet, parents before children
        self._most_open = most_open
        self._open: OrderedDict[tuple[Path, int], File] = OrderedDict()

    def existing(self, folder: Path, start: int) -> File | None:
        """The file at byte *start* of a queue, None when there is none. Budget: 0.3 us when it is open."""
        key = (folder, start)
        file = self._open.get(key)
        if file is not None:
            self._open.move_to_end(key)
            return file
        try:
            file = self._opened(folder / file_name(start), create=False)
        except FileNotFoundError:
            return None
        self._keep(key, file)
        return file

    def made(self, folder: Path, start: int) -> File:
        """The file at byte *start*, made sparse and at full size when it is missing.

        Raises:
            OSError: it cannot be made.
        """
        file = self.existing(folder, start)
        if file is not None:
            return file
        path = folder / file_name(start)
        self.files.make_dirs(folder)
        file = self._opened(path, create=True)
        try:
            file.truncate(self.file_bytes)
        except BaseException:
            file.close()
            self.files.remove(path)
            raise
        self.new_folders.update(dict.fromkeys((folder.parent.parent, folder.parent, folder)))
        self._keep((folder, start), file)
        return file

    def forget(self, folder: Path) -> None:
        """Close every file of one queue."""
        for key in [key for key in self._open if key[0] == folder]:
            self._open.pop(key).close()

    def forget_file(self, folder: Path, start: int) -> None:
        """Close one file, which is about to be deleted."""
        file = self._open.pop((folder, start), None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close everything."""
        while self._open:
            self._open.popitem()[1].close()

    @property
    def open_count(self) -> int:
        """How many files are open."""
        return len(self._open)

    def _opened(self, path: Path, *, create: bool) -> File:
        """Open *path*; when the process has no descriptor left, give half of ours back first and keep fewer in future.

        Raises:
            OSError: it is missing, cannot be made, or there is no descriptor even so.
        """
        try:
            return self.files.open(path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or len(self._open) < 2:
                raise
        self._most_open = len(self._open) // 2
        while len(self._open) > self._most_open:
            self._open.popitem(last=False)[1].close()
        return self.files.open(path, create=create)

    def _keep(self, key: tuple[Path, int], file: File) -> None:
        self._open[key] = file
        if len(self._open) > self._most_open:
            self._open.popitem(last=False)[1].close()
