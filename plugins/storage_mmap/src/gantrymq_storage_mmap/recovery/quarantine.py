"""Quarantine: keeps what recovery removes, bytes and whole files, in a folder next to the original.

    <store>/recovered/<time in ms>/commitlog/<log offset of the first byte, 20 digits>
    <store>/recovered/<time in ms>/consumequeue/<topic>/<queue id>/<position, 20 digits>

The name is the original position of the first byte, so the bytes can be put back. Nothing in it is ever removed.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from gantrymq.plugin.world import File, Files
from gantrymq_store_files.blank import last_nonzero
from gantrymq_store_files.file_names import file_name

CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(CHUNK_BYTES)


@attrs.frozen(eq=False)
class Quarantine:
    """The folder of one recovery; created when something is kept."""

    _files: Files
    _beside: Path  # the folder that contains commitlog or consumequeue
    _inside: Path  # the quarantine folder, relative to it
    kept: list[str] = attrs.field(factory=list, init=False)

    def name_of(self, path: Path, place: int) -> str:
        """Return where bytes of the file *path* are kept, below the store's folder; *place*: position of the first."""
        return str(self._inside / path.parent.relative_to(self._beside) / file_name(place))

    def cut(self, file: File, start: int, end: int, name_start: int) -> int:
        """Copy the bytes ``[start, end)`` of *file* up to the last that is not zero, and zero them in place.

        Args:
            file: open for writing; it is synced.
            start: position in the file.
            end: position in the file.
            name_start: position of the file's first byte in the whole.

        Returns:
            How many bytes were kept; 0 if all are zero.
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
        """Move a whole file or folder out of the store; return its new path."""
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
    """Return the position after the last byte of ``[start, end)`` that is not zero; *start* if all are."""
    return last_nonzero(lambda at, length: file.pread(length, at), start, file.written(start, end))
