"""Loading the index folder: which files to use, and from which log offset on the log has to be indexed again.

The checkpoint's index state (`index.checkpoint`) tells how far the index was durable: the file it names is cut there,
newer files are removed, and older files must be full. Without a valid state (a Java broker used the store) and after a
crash, only full files are used that ended before the time in RocketMQ's checkpoint; RocketMQ removes files that ended
later.

In both cases files are checked oldest first. From the first invalid file on, all are removed, which is logged, and
rebuilt from the log in the background. A file is invalid if its length differs from the settings, if its header
contradicts itself or the file before, or if it refers to messages after the log's end.

Source: apache/rocketmq store/.../index/IndexService.java (load).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from gantrymq.plugin.world import Files
from gantrymq_storage_mmap.index.checkpoint import SavedIndexState, parse_index_state
from gantrymq_storage_mmap.index.file import IndexFile, IndexPosition
from gantrymq_storage_mmap.reading.cold_record import DiskReads
from gantrymq_store_files.index import IndexHeader, IndexLayout, is_index_file_name


@attrs.frozen
class LoadedIndex:
    """Result of loading a folder."""

    files: list[IndexFile]  # open, oldest first; without slots in memory
    place: IndexPosition
    full_timestamp: int  # ms, end time of the newest full file; 0 without one
    newest_name: str  # names of new files must sort after it, even if the file is gone


@attrs.define(eq=False)
class IndexLoader:
    """One pass over the folder, which may be missing. Blocks; raises OSError."""

    _files: Files
    _folder: Path
    _layout: IndexLayout  # from the settings
    _log_min: int  # the log's first offset
    _log_end: int
    # index state of the last checkpoint, None if not valid
    _note: SavedIndexState | None = attrs.field(converter=parse_index_state)
    # after a crash: the index time of RocketMQ's checkpoint; None after a clean stop
    _after_crash_ms: int | None
    _report: Callable[[str], object]  # called with a sentence about each unused file
    _found: list[IndexFile] = attrs.field(factory=list, init=False)
    _newest_name: str = attrs.field(default="", init=False)

    def load(self) -> LoadedIndex:
        """Open the valid files and remove the others."""
        try:
            self._look_through()
            full = [file for file in self._found if file.full]
            if full:
                full[-1].end = index_end(self._found[: len(full)])
            return LoadedIndex(
                self._found, self._place(), full[-1].header.end_timestamp if full else 0, self._newest_name
            )
        except BaseException:
            for file in self._found:
                file.close()
            raise

    def _look_through(self) -> None:
        self._newest_name = self._note.file if self._note is not None else ""
        unused, problem = [], ""  # files to remove, starting with the one that has the problem
        newer = []  # files newer than the checkpoint
        for name in self._files.list(self._folder):
            path = self._folder / name
            stat = self._files.stat(path)
            if not is_index_file_name(name) or stat is None or stat.is_dir:
                self._report(f"{path} is ignored: names of index files have 17 digits")
                continue
            self._newest_name = max(self._newest_name, name)
            if self._note is not None and name > self._note.file:
                newer.append(path)
                continue
            problem = problem or self._open(path, stat.size)
            if problem:
                unused.append(path)
        for path in reversed(unused + newer):  # newest first: an interrupted run leaves no gap
            self._files.remove(path)
        if unused or newer:
            self._files.sync_dir(self._folder)
        if unused:
            gone = "it is" if len(unused) == 1 else f"it and {len(unused) - 1} newer files are"
            self._report(f"index file {unused[0].name} {problem}; {gone} removed and rebuilt from the log")

    def _open(self, path: Path, size: int) -> str:
        """Open and check a file; return why it cannot be used, or an empty text."""
        layout, note = self._layout, self._note
        if size != layout.file_bytes:
            return (
                f"has {size} bytes where maxHashSlotNum={layout.slots} and maxIndexNum={layout.entries} "
                f"make {layout.file_bytes}"
            )
        file = IndexFile.open(self._files, path, layout)
        try:
            noted = note is not None and note.file == path.name
            header = note.header if note is not None and noted else file.header
            problem = self._problem(header)
            if note is not None and not problem:
                problem = _contradiction(file, note)
            if noted and not problem:
                file.cut(header)
                file.unsure = not file.full and (self._after_crash_ms is not None or (note is not None and note.unsure))
        except BaseException:
            file.close()
            raise
        if problem:
            file.close()
        else:
            self._found.append(file)
        return problem

    def _problem(self, header: IndexHeader) -> str:
        """Return why a file cannot be used; empty if it can."""
        entries, trusted_ms = self._layout.entries, self._after_crash_ms
        before = self._found[-1].header if self._found else None
        if self._note is None and trusted_ms is not None and header.index_count > 1:
            # The checkpoint's time may be that of the previous file, if both end in the same millisecond.
            ambiguous = before is not None and before.end_timestamp == header.end_timestamp
            if header.end_timestamp > trusted_ms or header.index_count < entries or ambiguous:
                return "was being written when the broker ended"
        if header.index_count > entries:
            return f"says it holds {header.index_count - 1} entries where {entries - 1} fit"
        if header.index_count > 1 and header.end_offset >= self._log_end:
            return f"refers to a message at {header.end_offset}, but the log ends at {self._log_end}"
        if header.begin_offset > header.end_offset or header.begin_timestamp > header.end_timestamp:
            return "begins after its own end"
        if before is not None and before.index_count < entries:
            return "follows a file that is not full"
        if before is not None and header.begin_offset < before.end_offset:
            return f"begins at {header.begin_offset}, before the end of the file before it, {before.end_offset}"
        return ""

    def _place(self) -> IndexPosition:
        """Return the position from which the log has to be indexed."""
        note, newest = self._note, self._found[-1].path.name if self._found else ""
        noted = note is not None and note.file == newest and note.place.log_offset <= self._log_end
        place = note.place if note is not None and noted else index_end(self._found)
        return place if place.log_offset >= self._log_min else IndexPosition(self._log_min)


def _contradiction(file: IndexFile, note: SavedIndexState) -> str:
    """Return why *file* contradicts the state in the checkpoint; empty if it does not."""
    if file.path.name != note.file:
        return "" if file.full else f"is not full, but the checkpoint refers to a newer file {note.file}"
    number, end = note.header.index_count - 1, note.header.end_offset
    at = file.entry(number, DiskReads().index).log_offset if number else end
    if at == end <= note.place.log_offset:
        return ""
    return f"ends at {at}, but the checkpoint says {min(end, note.place.log_offset)}"


def index_end(found: list[IndexFile]) -> IndexPosition:
    """Return the position after the newest entry of *found*, counting the entries of its message."""
    newest, keys, read = -1, 0, DiskReads().index
    for file in reversed(found):
        number = file.header.index_count - 1
        if number >= 1 and newest < 0:
            newest = file.header.end_offset
        while number >= 1 and file.entry(number, read).log_offset == newest:
            keys += 1
            number -= 1
        if number >= 1:
            break
    return IndexPosition(newest, keys)
