"""The ext files of one queue: a unit for each of its messages, named by address in the queue's entry.

Files of one size lie in ``consumequeue_ext/<topic>/<queue id>``; see `gantrymq.formats.ext_unit`. Units follow their
entries: where a unit is missing or cannot be read the entry still finds its message, only its tags code is unknown.

Source: apache/rocketmq store/.../ConsumeQueueExt.java.
"""

from __future__ import annotations

from gantrymq.errors import FormatError
from gantrymq.formats.ext_unit import (
    END_OF_UNITS,
    MAX_UNIT_BYTES,
    MIN_UNIT_BYTES,
    TAIL_BYTES,
    ExtUnit,
    ext_address,
    ext_position,
    iter_ext_units,
    pack_ext_unit,
    read_ext_unit,
)
from gantrymq.formats.file_names import file_start
from gantrymq.formats.queue_entry import ENTRY, is_ext_address
from gantrymq_storage_mmap.queues.file_row import FileRow
from gantrymq_storage_mmap.queues.files import QueueFiles

__all__ = ["ExtQueue"]


class ExtQueue(FileRow):
    """Units by position."""

    __slots__ = ("writes",)

    def __init__(self, files: QueueFiles, topic: str, queue_id: int, *, writes: bool) -> None:
        """*writes*: whether new messages get units (``enableConsumeQueueExt``)."""
        super().__init__(files, topic, queue_id)
        self.writes = writes

    def add(self, tags_code: int, store_timestamp: int) -> int:
        """Append the unit of a message, in the next file where this one has no room; returns its address."""
        return self._add(pack_ext_unit(ExtUnit(tags_code, store_timestamp)))

    def add_again(self, tags_code: int, store_timestamp: int) -> int:
        """As `add`, with the bits of the unit that the files hold there, if it is the same message's."""
        left = self.files.file_bytes - self.end % self.files.file_bytes
        for position in (self.end, self.end + left):
            found = _unit_at(self.look(position, MAX_UNIT_BYTES), 0)
            if found is not None and found[:2] == (tags_code, store_timestamp):
                return self._add(pack_ext_unit(found))
        return self.add(tags_code, store_timestamp)

    def _add(self, unit: bytes) -> int:
        left = self.files.file_bytes - self.end % self.files.file_bytes
        if len(unit) > left - TAIL_BYTES:
            self.append(END_OF_UNITS.ljust(left, b"\0"))
        address = ext_address(self.end)
        self.append(unit)
        return address

    def units(self, entries: bytes, *, detached: bool = False) -> dict[int, ExtUnit]:
        """The units that packed queue *entries* name, by address; what cannot be read is left out.

        Args:
            entries: neighbours of one queue, so that their units are neighbours too.
            detached: for a thread of its own: looks into the files for this one call.
        """
        addresses = [code for _, _, code in ENTRY.iter_unpack(entries) if is_ext_address(code)]
        found: dict[int, ExtUnit] = {}
        file_bytes = self.files.file_bytes
        by_file: dict[int, list[int]] = {}
        for address in addresses:
            position = ext_position(address)
            by_file.setdefault(position - position % file_bytes, []).append(position)
        for start, positions in by_file.items():
            first, last = min(positions), max(positions)
            count = min(last + MAX_UNIT_BYTES, start + file_bytes) - first
            data = self.read_detached(first, *self.split(first, count)) if detached else self.read(first, count)
            for position in positions:
                unit = _unit_at(data, position - first)
                if unit is not None:
                    found[ext_address(position)] = unit
        return found

    def unit(self, position: int) -> ExtUnit | None:
        """The unit at *position*; None where none can be read."""
        left = self.files.file_bytes - position % self.files.file_bytes
        return _unit_at(self.read(position, min(MAX_UNIT_BYTES, left)), 0)

    def end_behind(self, tags_code: int) -> int:
        """Behind the unit of the newest entry, which holds *tags_code*; behind all units where it names none.

        Where that unit is lost its place stays taken: older entries may name places before it.
        """
        if not is_ext_address(tags_code):
            return self.end_of_units()
        unit = self.unit(ext_position(tags_code))
        if unit is None:
            return max(self.end_of_units(), ext_position(tags_code) + MIN_UNIT_BYTES)
        return ext_position(tags_code) + unit.size

    def end_of_units(self) -> int:
        """Position behind the last unit that is in the files, whether an entry names it or not."""
        end = 0
        for start in self.starts():
            end = start
            try:
                for position, unit in iter_ext_units(self.look(start, self.files.file_bytes)):
                    end = start + position + unit.size
            except FormatError:
                break
        return end

    def starts(self) -> list[int]:
        """Positions of the files that are there."""
        return sorted(start for name in self.files.files.list(self.folder) if (start := file_start(name)) is not None)


def _unit_at(data: bytes, position: int) -> ExtUnit | None:
    try:
        return read_ext_unit(data, position)
    except FormatError:
        return None
