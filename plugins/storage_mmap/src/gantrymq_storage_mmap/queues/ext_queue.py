"""The ext files of one queue: a unit for each of its messages, named by address in the queue's entry.

    next    position where the next appended message's unit goes
    end     behind the last unit whose entry is published

Files of one size lie in ``consumequeue_ext/<topic>/<queue id>``; see `gantrymq.formats.ext_unit`. Units follow their
entries: where a unit is missing or cannot be read the entry still finds its message, only its tags code is unknown.

Source: apache/rocketmq store/.../ConsumeQueueExt.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.formats.ext_unit import (
    END_OF_UNITS,
    MAX_UNIT_BYTES,
    TAIL_BYTES,
    ExtUnit,
    ext_address,
    ext_position,
    iter_ext_units,
    read_ext_unit,
)
from gantrymq.formats.queue_entry import ENTRY, is_ext_address
from gantrymq_storage_mmap.log.file import file_name, file_start
from gantrymq_storage_mmap.queues.files import QueueFiles

__all__ = ["ExtQueue"]

Item = tuple[int, bytes]  # position and packed unit


class ExtQueue:
    """Units by position."""

    __slots__ = ("_files", "_to_sync", "dropped", "end", "folder", "next", "writes")

    def __init__(self, files: QueueFiles, folder: Path, *, writes: bool) -> None:
        """*writes*: whether new messages get units (``enableConsumeQueueExt``); *folder* need not exist."""
        self._files = files
        self.folder = folder
        self.writes = writes
        self.next = self.end = 0
        self.dropped = False
        self._to_sync: dict[int, None] = {}  # positions of files with units that are not durable

    @property
    def files(self) -> QueueFiles:
        """Where the units are."""
        return self._files

    @property
    def end_position(self) -> int:
        """Position of the byte behind the last unit."""
        return self.end

    def place(self, size: int) -> int:
        """Take the next place for a unit of *size* bytes."""
        position = self.fitting(self.next, size)
        self.next = position + size
        return position

    def fitting(self, position: int, size: int) -> int:
        """Where a unit of *size* bytes goes that follows one which ends at *position*."""
        left = self._files.file_bytes - position % self._files.file_bytes
        return position if size <= left - TAIL_BYTES else position + left

    def write_waiting(self, items: Sequence[Item]) -> None:
        """Write the units of entries that become visible next.

        Raises:
            OSError: no room, or the file system is broken; some of the units may be there.
        """
        self.write(items, self.end)

    def write(self, items: Sequence[Item], end: int) -> None:
        """Write units behind one that ends at *end*, with a mark where one file ends before the next begins."""
        file_bytes = self._files.file_bytes
        runs: list[tuple[int, bytearray]] = []
        position = end
        for at, packed in items:
            if at != position and position % file_bytes:
                runs.append((position, bytearray(END_OF_UNITS)))
            if runs and at == position and at % file_bytes:
                runs[-1][1].extend(packed)
            else:
                runs.append((at, bytearray(packed)))
            position = at + len(packed)
        for at, data in runs:
            start = at - at % file_bytes
            self._files.made(self.folder, start).pwrite(data, at - start)
            self._to_sync[start] = None

    def show(self, items: Sequence[Item]) -> None:
        """The entries of these units are visible from now on."""
        position, packed = items[-1]
        self.end = position + len(packed)

    def units(self, entries: bytes, *, detached: bool = False) -> dict[int, ExtUnit]:
        """The units that packed queue *entries* name, by address; what cannot be read is left out.

        Args:
            entries: neighbours of one queue, so that their units are neighbours too.
            detached: for a thread of its own: opens the files for this one call.
        """
        addresses = [code for _, _, code in ENTRY.iter_unpack(entries) if is_ext_address(code)]
        found: dict[int, ExtUnit] = {}
        file_bytes = self._files.file_bytes
        by_file: dict[int, list[int]] = {}
        for address in addresses:
            position = ext_position(address)
            by_file.setdefault(position - position % file_bytes, []).append(position)
        for start, positions in by_file.items():
            first, last = min(positions), max(positions)
            count = min(last + MAX_UNIT_BYTES, start + file_bytes) - first
            data = self._read(start, first - start, count, detached=detached)
            for position in positions:
                try:
                    unit = read_ext_unit(data, position - first)
                except FormatError:
                    continue
                if unit is not None:
                    found[ext_address(position)] = unit
        return found

    def unit(self, position: int) -> ExtUnit | None:
        """The unit at *position*; None where none can be read."""
        start = position - position % self._files.file_bytes
        data = self._read(start, position - start, min(MAX_UNIT_BYTES, start + self._files.file_bytes - position))
        try:
            return read_ext_unit(data, 0)
        except FormatError:
            return None

    def starts(self) -> list[int]:
        """Positions of the files that are there."""
        return sorted(start for name in self._files.files.list(self.folder) if (start := file_start(name)) is not None)

    def end_of_units(self) -> int:
        """Position behind the last unit that is in the files, whether an entry names it or not."""
        end = 0
        for start in self.starts():
            data = self._read(start, 0, self._files.file_bytes)
            end = start
            try:
                for position, unit in iter_ext_units(data):
                    end = start + position + unit.size
            except FormatError:
                break
        return end

    def settle(self, end: int) -> None:
        """Recovery found the end."""
        self.next = self.end = end

    def take_dirty(self) -> list[int]:
        """Positions of the files with units that are not durable; they count as durable from now on."""
        starts, self._to_sync = list(self._to_sync), {}
        return starts

    def give_dirty(self, starts: Iterable[int]) -> None:
        """Take back what `take_dirty` gave: the files could not be made durable."""
        if not self.dropped:
            self._to_sync.update(dict.fromkeys(starts))

    def _read(self, start: int, position: int, count: int, *, detached: bool = False) -> bytes:
        if not detached:
            file = self._files.existing(self.folder, start)
            return b"" if file is None else file.pread(count, position)
        try:
            opened = self._files.files.open(self.folder / file_name(start), read_only=True)
        except FileNotFoundError:
            return b""
        try:
            return opened.pread(count, position)
        finally:
            opened.close()
