"""The folder of the index: which of its files are used, and from where on the log has to be read again.

The checkpoint's note (`index.mark`) says how far the index was durable: the file it names is cut there, newer ones are
removed, and older ones are full. Without a note that is believed (a Java broker stopped here) and after a crash, only
full files count that ended before RocketMQ's checkpoint says; RocketMQ removes what ended later.

Either way files are taken oldest first. From the first one on that cannot be right, all are removed and told, and the
background makes them again from the log: one of another length than the settings give, one whose header contradicts
itself or the file before, one that knows messages behind the log's end.

Source: apache/rocketmq store/.../index/IndexService.java (load).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from gantrymq.world import Files
from gantrymq_storage_mmap.index.checkpoint import SavedIndexState, parse_index_state
from gantrymq_storage_mmap.index.file import IndexFile, IndexPosition
from gantrymq_storage_mmap.reading.cold_record import DiskReads
from gantrymq_store_files.index import IndexHeader, IndexLayout, is_index_file_name

__all__ = ["IndexLoader", "LoadedIndex"]


@attrs.frozen
class LoadedIndex:
    """What a folder gave."""

    files: list[IndexFile]  # open, oldest first; none has its slots in memory
    place: IndexPosition
    full_timestamp: int  # ms, end of the newest full file; 0 without one
    newest_name: str  # a new file has to be named behind it, whether or not it is still there


@attrs.define(eq=False)
class IndexLoader:
    """One pass over the folder, which may be missing. Blocks; what raises is OSError."""

    _files: Files
    _folder: Path
    _layout: IndexLayout  # what the settings give
    _log_min: int  # the log's first offset
    _log_end: int
    # what the last checkpoint says of the index, None where that is not believed
    _note: SavedIndexState | None = attrs.field(converter=parse_index_state)
    # after a crash RocketMQ's checkpoint's time of the index; None after a clean stop
    _after_crash_ms: int | None
    _tell: Callable[[str], object]  # is told of each file that is not used
    _found: list[IndexFile] = attrs.field(factory=list, init=False)
    _newest_name: str = attrs.field(default="", init=False)

    def load(self) -> LoadedIndex:
        """Open what is right, remove the rest."""
        try:
            self._look_through()
            full = [file for file in self._found if file.full]
            if full:
                full[-1].end = _end(self._found[: len(full)])
            return LoadedIndex(
                self._found, self._place(), full[-1].header.end_timestamp if full else 0, self._newest_name
            )
        except BaseException:
            for file in self._found:
                file.close()
            raise

    def _look_through(self) -> None:
        self._newest_name = self._note.file if self._note is not None else ""
        unused, problem = [], ""  # files that go, beginning with the one that has the problem
        newer = []  # the checkpoint does not know them
        for name in self._files.list(self._folder):
            path = self._folder / name
            stat = self._files.stat(path)
            if not is_index_file_name(name) or stat is None or stat.is_dir:
                self._tell(f"{path} is no index file and is left alone; those are named by 17 digits")
                continue
            self._newest_name = max(self._newest_name, name)
            if self._note is not None and name > self._note.file:
                newer.append(path)
                continue
            problem = problem or self._open(path, stat.size)
            if problem:
                unused.append(path)
        for path in reversed(unused + newer):  # a run that is broken off leaves no gap
            self._files.remove(path)
        if unused or newer:
            self._files.sync_dir(self._folder)
        if unused:
            gone = "it is" if len(unused) == 1 else f"it and {len(unused) - 1} behind it are"
            self._tell(f"index file {unused[0].name} {problem}; {gone} removed and built again from the log")

    def _open(self, path: Path, size: int) -> str:
        """Take a file; or why it cannot be used."""
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
                problem = _unlike(file, note)
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
        """Why a file cannot be used; empty when it can."""
        entries, trusted_ms = self._layout.entries, self._after_crash_ms
        before = self._found[-1].header if self._found else None
        if self._note is None and trusted_ms is not None and header.index_count > 1:
            # The checkpoint's time may be that of the file before, when both end in the same millisecond.
            ambiguous = before is not None and before.end_timestamp == header.end_timestamp
            if header.end_timestamp > trusted_ms or header.index_count < entries or ambiguous:
                return "was being written when the broker ended"
        if header.index_count > entries:
            return f"says it holds {header.index_count - 1} entries where {entries - 1} fit"
        if header.index_count > 1 and header.end_offset >= self._log_end:
            return f"knows a message at {header.end_offset}, where the log ends at {self._log_end}"
        if header.begin_offset > header.end_offset or header.begin_timestamp > header.end_timestamp:
            return "begins behind its own end"
        if before is not None and before.index_count < entries:
            return "follows a file that is not full"
        if before is not None and header.begin_offset < before.end_offset:
            return f"begins at {header.begin_offset}, before the end of the file before it, {before.end_offset}"
        return ""

    def _place(self) -> IndexPosition:
        """From where on the log has to be read."""
        note, newest = self._note, self._found[-1].path.name if self._found else ""
        noted = note is not None and note.file == newest and note.place.log_offset <= self._log_end
        place = note.place if note is not None and noted else _end(self._found)
        return place if place.log_offset >= self._log_min else IndexPosition(self._log_min)


def _unlike(file: IndexFile, note: SavedIndexState) -> str:
    """Why *file* cannot be what the checkpoint says of it, or of the one behind it; empty when it can."""
    if file.path.name != note.file:
        return "" if file.full else f"is not full, where the checkpoint knows {note.file} behind it"
    number, end = note.header.index_count - 1, note.header.end_offset
    at = file.entry(number, DiskReads().index).log_offset if number else end
    if at == end <= note.place.log_offset:
        return ""
    return f"ends at {at} where the checkpoint says {min(end, note.place.log_offset)}"


def _end(found: list[IndexFile]) -> IndexPosition:
    """Behind the newest entry of *found*: its message may have more keys than there are entries of it."""
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
