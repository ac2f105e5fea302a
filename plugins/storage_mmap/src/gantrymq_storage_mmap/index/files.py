"""The index files in use: adding keys to the newest, removing old ones, checkpoints.

`IndexFiles.place` tells how far keys were added, also when a write fails in the middle of a message. A full file is
followed by another at once; it keeps its slots in memory until a checkpoint has made it durable.

If a checkpoint fails, every file that was not durable, in whole or part, is dropped: the system reports the error of a
sync once and then counts the pages as written, so it is unknown which of them are.

Source: apache/rocketmq store/.../index/IndexService.java (buildIndex, getAndCreateLastIndexFile, flush).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import attrs

from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq.plugin.world import Clock, Files, FileTree, Workers
from gantrymq_storage_mmap.index.checkpoint import FileCheckpoint, IndexCheckpoint, index_state
from gantrymq_storage_mmap.index.file import IndexFile, IndexPosition
from gantrymq_storage_mmap.index.folder import LoadedIndex, index_end
from gantrymq_store_files.index import IndexHeader, IndexLayout, index_file_name
from gantrymq_store_files.index_hash import hash_entries


class Keys(NamedTuple):
    """Keys of messages, in order; columns of equal length."""

    hashes: Sequence[int]
    offsets: Sequence[int]  # log offset of each key's message
    timestamps: Sequence[int]  # ms
    start: int  # number of keys that are already in the index


@attrs.define(eq=False)
class IndexFiles:
    """The files, oldest first. All methods belong to the event loop. Empty before `hold`."""

    _files: Files
    _workers: Workers
    _clock: Clock
    _folder: Path  # the index folder
    _layout: IndexLayout  # layout of every file
    _report: Callable[[str], object]
    all: list[IndexFile] = attrs.field(factory=list, init=False)
    place: IndexPosition = attrs.field(default=IndexPosition(0), init=False)  # position after the newest key
    busy: int = attrs.field(default=0, init=False)  # number of threads that remove files
    readers: int = attrs.field(default=0, init=False)  # number of threads that read files
    filled: bool = attrs.field(default=False, init=False)  # a file became full since the last check
    _newest_name: str = attrs.field(default="", init=False)
    _new_names: list[Path] = attrs.field(factory=list, init=False)  # folders with names that are not durable
    _removing: list[IndexFile] = attrs.field(factory=list, init=False)

    def hold(self, loaded: LoadedIndex) -> None:
        """Take ownership of the *loaded* files."""
        self.all, self.place, self._newest_name = loaded.files, loaded.place, loaded.newest_name

    @property
    def newest(self) -> IndexFile | None:
        """The file that receives keys; the next file is created when it is full."""
        return self.all[-1] if self.all else None

    def close(self) -> None:
        """Close every file."""
        for file in (*self.all, *self._removing):
            file.close()
        self.all, self._removing = [], []

    # --- keys -------------------------------------------------------------------------------------------------------

    def keys_of(self, messages: Sequence[DispatchEntry]) -> Keys:
        """Return all keys of *messages*, and the number of them that are already in the index.

        A Java broker of 5.5 may have added more keys for the message at `place` than we do: it indexes the tag as well.
        """
        hashes, offsets, timestamps = hash_entries(messages)
        place = self.place
        start = bisect_left(offsets, place.log_offset)
        start = min(start + place.keys, bisect_right(offsets, place.log_offset))
        return Keys(hashes, offsets, timestamps, start)

    def take(self, keys: Keys) -> None:
        """Add *keys*.

        Raises:
            OSError: some keys could not be written; `place` is after the last written one.
        """
        hashes, offsets, timestamps, done = keys
        while done < len(hashes):
            file = self._writable()
            assert file.table is not None
            put = file.table.put(hashes, offsets, timestamps, done)
            try:
                file.write(put)
            except OSError:
                file.table.undo(put)
                raise
            done += put.taken
            at = offsets[done - 1]
            self.place = IndexPosition(at, done - bisect_left(offsets, at))
            if file.full:
                file.end, self.filled = self.place, True

    def _writable(self) -> IndexFile:
        """Return the newest file, or a new one if it is full.

        Raises:
            OSError: the file cannot be created.
        """
        newest = self.newest
        if newest is not None and not newest.full:
            return newest
        if self._files.stat(self._folder) is None:
            self._files.make_dirs(self._folder)
            self._names_changed(self._folder.parent)
        now = self._clock.now_ms()
        name = index_file_name(now, self._clock.utc_offset_ms(now))
        if name <= self._newest_name:  # also names of removed files: a checkpoint may still refer to them
            name = str(int(self._newest_name) + 1).zfill(len(name))
        header = newest.header.following() if newest is not None else IndexHeader()
        made = IndexFile.create(self._files, self._folder / name, self._layout, header)
        self._newest_name = name
        self._names_changed(self._folder)
        self.all.append(made)
        return made

    def _names_changed(self, *folders: Path) -> None:
        self._new_names = list(dict.fromkeys((*self._new_names, *folders)))

    # --- checkpoints ------------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        """Whether anything is not durable."""
        return not all(file.durable for file in self.all)

    def begin_checkpoint(self) -> IndexCheckpoint:
        """Return everything that is not durable, in its present state. One checkpoint at a time.

        No entry may be added until a thread has written the slots.
        """
        parts = [
            FileCheckpoint(file, file.header, file.table.take_dirty() if file.table is not None else [])
            for file in self.all
            if not file.durable
        ]
        full = max((part.header.end_timestamp for part in parts if part.file.full), default=0)
        folders, self._new_names = tuple(self._new_names), []
        return IndexCheckpoint(index_state(self.place, self.newest), full, folders, parts)

    def checkpointed(self, mark: IndexCheckpoint) -> None:
        """Record that all of *mark* is durable."""
        for file, header, _ in mark.parts:
            file.synced = header
            file.release()

    def give_back(self, mark: IndexCheckpoint) -> None:
        """Leave *mark*, which was not written, to the next checkpoint."""
        for part in mark.parts:
            if part.file.table is not None:
                part.file.table.give_back(part.runs)
        self._names_changed(*mark.folders)

    def drop(self, mark: IndexCheckpoint) -> int:
        """Remove every file that is not fully durable; return how many."""
        first = next((number for number, file in enumerate(self.all) if not file.durable), len(self.all))
        gone, self.all = self.all[first:], self.all[:first]
        self._names_changed(*mark.folders)
        if gone:
            self.place = self.all[-1].end if self.all else IndexPosition(0)
            self._names_changed(self._folder)
            self._remove(gone)
        return len(gone)

    def cut(self, log_offset: int) -> None:
        """Remove every file with a message at or after *log_offset*; what the others lack has to be added again."""
        headers = [file.header for file in self.all]
        first = next(
            (n for n, header in enumerate(headers) if header.index_count > 1 and header.end_offset >= log_offset),
            len(headers),
        )
        gone, self.all = self.all[first:], self.all[:first]
        self.place = index_end(self.all) if gone else min(self.place, IndexPosition(log_offset))
        if gone:
            self._names_changed(self._folder)
            self._remove(gone)

    # --- room -------------------------------------------------------------------------------------------------------

    def taken_bytes(self) -> int:
        """Return an upper estimate of the disk space of all files."""
        return sum(file.taken_bytes for file in self.all)

    def delete_before(self, log_offset: int) -> int:
        """Remove files without messages at or after *log_offset*, in a thread; never the newest one.

        Returns:
            The number of files that are no longer part of the index.
        """
        count = 0
        while count < len(self.all) - 1 and self.all[count].durable:
            if self.all[count].header.end_offset >= log_offset:
                break
            count += 1
        gone, self.all = self.all[:count], self.all[count:]
        self._remove(gone)
        return count

    def reading(self, more: int) -> None:
        """Count a thread that starts (1) or ends (-1) reading; removed files are closed when there is none."""
        self.readers += more
        self._remove([])

    def _remove(self, gone: list[IndexFile]) -> None:
        self._removing += gone
        if self.readers or not self._removing:
            return
        gone, self._removing = self._removing, []
        for file in gone:
            file.close()
        self.busy += 1

        def done(_: None, error: BaseException | None) -> None:
            self.busy -= 1
            if error is not None:
                self._report(f"index files could not be removed: {error}; the next start removes them")

        self._workers.submit(_remove_files, self._files, [file.path for file in gone], done=done)


def _remove_files(files: FileTree, paths: Sequence[Path]) -> None:
    """Runs in a thread."""
    for path in paths:
        files.remove(path)
