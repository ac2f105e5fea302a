"""The folder of the index: which of its files are used, and from where on the log has to be read again.

The checkpoint's note (`index.note`) says how far the index was durable: the file it names is cut there, newer ones are
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

from gantrymq.formats.index import IndexHeader, IndexLayout, is_index_file_name
from gantrymq.world import Files
from gantrymq_storage_mmap.index.file import IndexFile, IndexPlace
from gantrymq_storage_mmap.index.note import IndexNote, read_note
from gantrymq_storage_mmap.reading.cold_record import FromDisk

__all__ = ["LoadedIndex", "load_index"]


@attrs.frozen
class LoadedIndex:
    """What a folder gave."""

    files: list[IndexFile]  # open, oldest first; none has its slots in memory
    place: IndexPlace
    full_timestamp: int  # ms, end of the newest full file; 0 without one
    newest_name: str  # a new file has to be named behind it, whether or not it is still there


def load_index(
    files: Files,
    root: Path,
    layout: IndexLayout,
    log: tuple[int, int],
    note: object,
    trusted_ms: int | None,
    tell: Callable[[str], object],
) -> LoadedIndex:
    """Open the index files below *root*. Blocks.

    Args:
        layout: what the settings give.
        log: the log's first offset and its end.
        note: what the last checkpoint says of the index, None where that is not believed.
        trusted_ms: after a crash RocketMQ's checkpoint's time of the index; None after a clean stop.
        tell: is told of each file that is not used.

    Raises:
        OSError: the disk failed.
    """
    loading = _Loading(files, root / "index", layout, log[1], read_note(note), trusted_ms, tell)
    try:
        loading.run()
        found = loading.found
        full = [file for file in found if file.full]
        if full:
            full[-1].end = _end(found[: len(full)])
        return LoadedIndex(
            found, _place(loading, log), full[-1].header.end_timestamp if full else 0, loading.newest_name
        )
    except BaseException:
        for file in loading.found:
            file.close()
        raise


class _Loading:
    """One pass over the folder."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        layout: IndexLayout,
        log_end: int,
        note: IndexNote | None,
        trusted_ms: int | None,
        tell: Callable[[str], object],
    ) -> None:
        self._files, self._folder, self._layout, self._log_end, self._tell = files, folder, layout, log_end, tell
        self._crashed, self._trusted_ms = trusted_ms is not None, trusted_ms if note is None else None
        self.note = note
        self.found: list[IndexFile] = []
        self.newest_name = note.file if note is not None else ""

    def run(self) -> None:
        """Open what is right, remove the rest."""
        unused, problem = [], ""  # files that go, beginning with the one that has the problem
        newer = []  # the checkpoint does not know them
        for name in self._files.list(self._folder):
            path = self._folder / name
            stat = self._files.stat(path)
            if not is_index_file_name(name) or stat is None or stat.is_dir:
                self._tell(f"{path} is no index file and is left alone; those are named by 17 digits")
                continue
            self.newest_name = max(self.newest_name, name)
            if self.note is not None and name > self.note.file:
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
        layout, note = self._layout, self.note
        if size != layout.file_bytes:
            return (
                f"has {size} bytes where maxHashSlotNum={layout.slots} and maxIndexNum={layout.entries} "
                f"make {layout.file_bytes}"
            )
        file = IndexFile.open(self._files, path, layout)
        try:
            noted = note is not None and note.file == path.name
            header = note.header if note is not None and noted else file.header
            problem = _problem(
                header, self.found[-1].header if self.found else None, layout, self._log_end, self._trusted_ms
            )
            if note is not None and not problem:
                problem = _unlike(file, note)
            if noted and not problem:
                file.cut(header)
                file.unsure = not file.full and (self._crashed or (note is not None and note.unsure))
        except BaseException:
            file.close()
            raise
        if problem:
            file.close()
        else:
            self.found.append(file)
        return problem


def _problem(
    header: IndexHeader, before: IndexHeader | None, layout: IndexLayout, log_end: int, trusted_ms: int | None
) -> str:
    """Why a file cannot be used; empty when it can."""
    if trusted_ms is not None and header.index_count > 1:
        # The checkpoint's time may be that of the file before, when both end in the same millisecond.
        ambiguous = before is not None and before.end_timestamp == header.end_timestamp
        if header.end_timestamp > trusted_ms or header.index_count < layout.entries or ambiguous:
            return "was being written when the broker ended"
    if header.index_count > layout.entries:
        return f"says it holds {header.index_count - 1} entries where {layout.entries - 1} fit"
    if header.index_count > 1 and header.end_offset >= log_end:
        return f"knows a message at {header.end_offset}, where the log ends at {log_end}"
    if header.begin_offset > header.end_offset or header.begin_timestamp > header.end_timestamp:
        return "begins behind its own end"
    if before is not None and before.index_count < layout.entries:
        return "follows a file that is not full"
    if before is not None and header.begin_offset < before.end_offset:
        return f"begins at {header.begin_offset}, before the end of the file before it, {before.end_offset}"
    return ""


def _unlike(file: IndexFile, note: IndexNote) -> str:
    """Why *file* cannot be what the checkpoint says of it, or of the one behind it; empty when it can."""
    if file.path.name != note.file:
        return "" if file.full else f"is not full, where the checkpoint knows {note.file} behind it"
    number, end = note.header.index_count - 1, note.header.end_offset
    at = file.entry(number, FromDisk().index).log_offset if number else end
    if at == end <= note.place.log_offset:
        return ""
    return f"ends at {at} where the checkpoint says {min(end, note.place.log_offset)}"


def _place(loading: _Loading, log: tuple[int, int]) -> IndexPlace:
    """From where on the log has to be read."""
    found, note = loading.found, loading.note
    if note is not None and note.file == (found[-1].path.name if found else "") and note.place.log_offset <= log[1]:
        place = note.place
    else:
        place = _end(found)
    return place if place.log_offset >= log[0] else IndexPlace(log[0])


def _end(found: list[IndexFile]) -> IndexPlace:
    """Behind the newest entry of *found*: its message may have more keys than there are entries of it."""
    newest, keys, read = -1, 0, FromDisk().index
    for file in reversed(found):
        number = file.header.index_count - 1
        if number >= 1 and newest < 0:
            newest = file.header.end_offset
        while number >= 1 and file.entry(number, read).log_offset == newest:
            keys += 1
            number -= 1
        if number >= 1:
            break
    return IndexPlace(newest, keys)
