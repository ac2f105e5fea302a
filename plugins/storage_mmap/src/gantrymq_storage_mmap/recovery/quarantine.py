"""Keeping what recovery cuts off: bytes and whole files, in a folder beside what they were cut from.

    <store>/recovered/<time in ms>/commitlog/<log offset of the first byte, 20 digits>
    <store>/recovered/<time in ms>/consumequeue/<topic>/<queue id>/<position, 20 digits>

The name is the place the first byte had, so the bytes can be put back. Nothing is removed here, ever.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from gantrymq.world import File, Files
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.zeros import last_nonzero

__all__ = ["Quarantine", "nonzero_end"]

CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(CHUNK_BYTES)


@attrs.frozen(eq=False)
class Quarantine:
    """One recovery's folder; it is made when there is something to keep."""

    _files: Files
    _beside: Path  # the folder that holds commitlog, or consumequeue
    _inside: Path  # that folder, below it
    kept: list[str] = attrs.field(factory=list, init=False)

    def name_of(self, path: Path, place: int) -> str:
        """Where bytes of the file *path* are kept, below the store's folder; *place* is where the first stood."""
        return str(self._inside / path.parent.relative_to(self._beside) / file_name(place))

    def cut(self, file: File, start: int, end: int, name_start: int) -> int:
        """Keep the bytes ``[start, end)`` of *file* up to the last that is not zero, and zero them in place.

        Args:
            file: open for writing; it is synced.
            start: position in the file.
            end: position in the file.
            name_start: where the file's first byte stands in the whole.

        Returns:
            How many bytes were kept; 0 when all are zero.
        """
        end = nonzero_end(file, start, end)
        if end <= start:
            return 0
        target = self._beside / self.name_of(file.path, name_start + start)
        self._files.make_dirs(target.parent)
        copy = self._files.open(target, create=True)
        try:
            for at in range(start, end, CHUNK_BYTES):
                copy.pwrite(file.pread(min(CHUNK_BYTES, end - at), at), at - start)
            copy.datasync()
        finally:
            copy.close()
        self._sync_folders(target.parent)
        for at in range(start, end, CHUNK_BYTES):
            file.pwrite(memoryview(_ZEROS)[: min(CHUNK_BYTES, end - at)], at)
        file.datasync()
        self.kept.append(str(target))
        return end - start

    def move(self, path: Path) -> Path:
        """Move a whole file or folder out of the store; returns where it went."""
        target = self._beside / self._inside / path.relative_to(self._beside)
        self._files.make_dirs(target.parent)
        self._files.rename(path, target)
        self._sync_folders(target.parent)
        self._files.sync_dir(path.parent)
        self.kept.append(str(target))
        return target

    def _sync_folders(self, folder: Path) -> None:
        while folder != self._beside.parent and folder != folder.parent:
            self._files.sync_dir(folder)
            folder = folder.parent


def nonzero_end(file: File, start: int, end: int) -> int:
    """Position behind the last byte of ``[start, end)`` that is not zero; *start* when all are."""
    return last_nonzero(lambda at, length: file.pread(length, at), start, file.written(start, end))
