"""Repair of a log in which a scan found damage, and the quarantine that keeps what recovery removes.

Everything after the last sound record is copied to the quarantine folder and zeroed, and later files with contents are
moved there. A hole, which has sound records after it, is copied too and overwritten with fillers and blanks, so that
all other records keep their positions and both our broker and a Java broker can walk over it. The repair may be
interrupted at any time: copies are durable before a byte of the log changes, and a half-written filler is a hole again.

The quarantine has bytes and whole files, in a folder next to the original:

    <store>/recovered/<time in ms>/commitlog/<log offset of the first byte, 20 digits>
    <store>/recovered/<time in ms>/consumequeue/<topic>/<queue id>/<position, 20 digits>

The name is the original position of the first byte, so the bytes can be put back. Nothing in it is ever removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from gantrymq.plugin.world import File, Files, FileTree
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_store_files.blank import encode_blank, last_nonzero
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.filler import fillers
from gantrymq_store_files.log_walk import LogDamage

CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(CHUNK_BYTES)
MAX_NOTES = 20  # holes reported one by one
_CHUNK_BYTES = 1024 * 1024


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


@attrs.define(eq=False)
class LogRepair:
    """Changes that recovery makes in the log."""

    _files: FileTree
    _log: CommitLog
    _quarantine: Quarantine  # receives the removed bytes
    _note: Callable[[str], None]  # called with one sentence per change
    cut_bytes: int = attrs.field(default=0, init=False)  # bytes moved to quarantine

    def cut(self, place: int, damage: LogDamage | None) -> None:
        """Quarantine and zero everything after the last sound record (which ends at *place*): *damage*, or files."""
        if damage is not None:
            kind = "a write that did not finish" if damage.kind == "torn" else "damage"
            self._note(f"the log ends at {place} because of {kind}: {damage.problem}")
        for file in self._log.files:
            if file.start <= place < file.end:
                cut = self._quarantine.cut(file.file, place - file.start, file.end - file.start, file.start)
                if cut:
                    self._note(f"{cut} bytes after the log's end at {place} were kept in {self._quarantine.kept[-1]}")
                self.cut_bytes += cut
        self._move_later_files(place)

    def _move_later_files(self, place: int) -> None:
        """Move the files after the log's end away, the last one first, so that an interruption leaves no gap."""
        later_files = [file for file in self._log.files if file.start > place]
        used = {file: nonzero_end(file.file, 0, file.end - file.start) for file in later_files}
        first = next((file.start for file in later_files if used[file]), None)
        for file in reversed(later_files):
            if used[file]:
                self.cut_bytes += used[file]
                moved = self._quarantine.move(file.path)
                self._note(f"log file {file_name(file.start)} is after the log's end and was kept as {moved}")
            elif first is not None and file.start > first:
                self._files.remove(file.path)  # only zeros, and no longer adjacent to the others
                self._files.sync_dir(file.path.parent)

    def fill(self, holes: Sequence[LogDamage]) -> None:
        """Copy the contents of each hole to quarantine, and overwrite the hole with fillers and blanks."""
        for number, hole in enumerate(holes):
            kept_before = len(self._quarantine.kept)
            for file in self._log.between(hole.log_offset, hole.end):
                self._fill_in(file, hole)
            if number < MAX_NOTES:
                kept = ", ".join(self._quarantine.kept[kept_before:]) or "nothing but zeros, so nothing was kept"
                self._note(
                    f"{hole.size} bytes of the log at {hole.log_offset} are damaged and given up, the records "
                    f"after them stay: {hole.problem} (kept: {kept})"
                )
        if len(holes) > MAX_NOTES:
            self._note(f"{len(holes) - MAX_NOTES} more damaged places of the log were given up in the same way")

    def _fill_in(self, file: LogFile, hole: LogDamage) -> None:
        start, end = max(hole.log_offset, file.start), min(hole.end, file.end)
        self.cut_bytes += self._quarantine.cut(file.file, start - file.start, end - file.start, file.start)
        if end == file.end:
            file.write(start, encode_blank(end - start))
        else:
            note = f"GantryMQ: damaged bytes were here, kept as {self._quarantine.name_of(file.path, start)}"
            for place, data in fillers(start, end - start, hole.timestamp, note):
                file.write(place, data)
        file.file.datasync()

    def write_again(self, start: int, end: int) -> None:
        """Rewrite ``[start, end)`` with its present contents, and sync it.

        The contents may be in the page cache only and count as written, because a sync before the last stop failed. The
        same holds for names of files.
        """
        for file in self._log.between(start, end):
            low, high = max(start, file.start), min(end, file.end)
            for at in range(low, high, _CHUNK_BYTES):
                file.write(at, file.pread(at, min(at + _CHUNK_BYTES, high)))
            file.file.datasync()
        for file in self._log.files[-1:]:
            file.file.datasync()  # syncs its length if it holds nothing yet
            self._files.sync_dir(file.path.parent)
            self._files.sync_dir(file.path.parent.parent)
