"""The ext files of one queue: one unit per message, referred to by address from the queue entry.

Files of one size are in ``consumequeue_ext/<topic>/<queue id>``; see `gantrymq_store_files.ext_unit`. If a unit is
missing or cannot be read, the entry still refers to its message, only its tags code is unknown.

Source: apache/rocketmq store/.../ConsumeQueueExt.java.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from operator import sub

from gantrymq.errors import FormatError
from gantrymq.plugin.interfaces import BitMaps, PropertiesFilter
from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile
from gantrymq_store_files.ext_unit import (
    END_OF_UNITS,
    MAX_UNIT_BYTES,
    MIN_UNIT_BYTES,
    TAIL_BYTES,
    ExtUnit,
    are_units,
    ext_address,
    ext_position,
    iter_ext_units,
    pack_ext_unit,
    read_ext_unit,
    units_in,
)
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, MAX_EXT_ADDRESS, is_ext_address


class ExtQueue(SegmentedFile):
    """Ext units by position."""

    __slots__ = ("bit_maps", "writes")

    def __init__(
        self, files: QueueFiles, topic: str, queue_id: int, *, writes: bool, bit_maps: BitMaps | None = None
    ) -> None:
        """*writes*: new messages get units (``enableConsumeQueueExt``), with the bits computed by *bit_maps*."""
        super().__init__(files, topic, queue_id)
        self.writes = writes
        self.bit_maps: BitMaps = {} if bit_maps is None else bit_maps

    def add(self, unit: ExtUnit) -> int:
        """Append *unit*, in the next file if it does not fit the current one; return its address."""
        left = self.files.file_bytes - self.end % self.files.file_bytes
        if unit.size > left - TAIL_BYTES:
            self.append(END_OF_UNITS.ljust(left, b"\0"))
        address = ext_address(self.end)
        self.append(pack_ext_unit(unit))
        return address

    def add_again(self, tags_code: int, store_timestamp: int) -> int:
        """Append the unit of a message during recovery; return its address.

        The bits are copied from the unit that the files hold at that position, if it belongs to the same message.
        """
        left = self.files.file_bytes - self.end % self.files.file_bytes
        for position in (self.end, self.end + left):
            found = _unit_at(self.read_files(position, MAX_UNIT_BYTES), 0)
            if found is not None and found[:2] == (tags_code, store_timestamp):
                return self.add(found)
        return self.add(ExtUnit(tags_code, store_timestamp))

    def passing(self, entries: bytes, match: PropertiesFilter) -> bytes | None:
        """Return a byte for each of packed *entries*: 0 if ``match_entry`` rejects its unit, else 1.

        Return None if the units are not in memory. Budget: 0.1 us for a unit as long as its neighbours.
        """
        codes = _codes_in(len(entries) // ENTRY_BYTES).unpack(entries)
        found = self._passing_runs(codes, match)
        if found is None:
            units = self._units(entries, self.read_cached)
            if units is None:
                return None
            asked = ((code, units.get(code)) for code in codes)
            found = bytes(unit is None or match.match_entry(unit.tags_code, unit) for _, unit in asked)
        return found

    def _passing_runs(self, codes: tuple[int, ...], match: PropertiesFilter) -> bytes | None:
        """Fast path of `passing` for units in memory and in one file, and a filter that checks many units at once."""
        first, last = codes[0], codes[-1]
        lengths = [*map(sub, codes[1:], codes), MIN_UNIT_BYTES]
        if max(codes) > MAX_EXT_ADDRESS or not MIN_UNIT_BYTES <= min(lengths) <= max(lengths) <= MAX_UNIT_BYTES:
            return None
        base, position = ext_address(0), ext_position(first)
        data = None
        if (first - base) // self.files.file_bytes == (last - base) // self.files.file_bytes:
            data = self.read_cached(position, min(last - first + MAX_UNIT_BYTES, self.end - position))
        if data is None or len(data) < last - first + MIN_UNIT_BYTES:
            return None
        lengths[-1] = int.from_bytes(data[last - first : last - first + 2], "big")
        runs, start = [], 0
        for length, run in groupby(lengths):
            end = start + length * len(list(run))
            units = data[start:end]
            if not are_units(units, length):
                return None
            runs.append((units, length))
            start = end
        return match.match_units(runs)

    def units(self, entries: bytes, *, detached: bool = False) -> dict[int, ExtUnit]:
        """Return the units that packed queue *entries* refer to, by address; unreadable units are left out.

        Args:
            entries: adjacent entries of one queue, whose units are adjacent too.
            detached: the call is made in a thread; files are opened for this call only.
        """
        return self._units(entries, self._look if detached else self.read) or {}

    def _look(self, position: int, length: int) -> bytes:
        return self.read_files(position, *self.split(position, length))

    def _units(self, entries: bytes, read: Callable[[int, int], bytes | None]) -> dict[int, ExtUnit] | None:
        """Budget: 1 us a unit."""
        found: dict[int, ExtUnit] = {}
        by_file: dict[int, list[int]] = {}
        base, file_bytes = ext_address(0), self.files.file_bytes
        for _, _, code in ENTRY.iter_unpack(entries):
            if is_ext_address(code):
                by_file.setdefault((code - base) // file_bytes, []).append(code)
        for addresses in by_file.values():
            lowest = min(addresses)
            first = ext_position(lowest)
            data = read(first, min(max(addresses) - lowest + MAX_UNIT_BYTES, self.end - first))
            if data is None:
                return None
            units_in(data, addresses, lowest, found)
        return found

    def end_after(self, tags_code: int) -> int:
        """Return the end of the unit of the newest entry; *tags_code* is that entry's.

        If the entry refers to no unit, return the end of all units. If its unit is lost, its space stays reserved:
        older entries may refer to positions before it.
        """
        if not is_ext_address(tags_code):
            return self.end_of_units()
        position = ext_position(tags_code)
        unit = _unit_at(self.read(position, MAX_UNIT_BYTES), 0)
        return position + unit.size if unit is not None else max(self.end_of_units(), position + MIN_UNIT_BYTES)

    def end_of_units(self) -> int:
        """Return the position after the last unit in the files, whether an entry refers to it or not."""
        end = 0
        for start in self.starts():
            end = start
            try:
                for position, unit in iter_ext_units(self.read_files(start, self.files.file_bytes)):
                    end = start + position + unit.size
            except FormatError:
                break
        return end


@lru_cache(maxsize=64)
def _codes_in(count: int) -> struct.Struct:
    """Return the struct that unpacks the tags codes of *count* packed entries."""
    return struct.Struct(">" + "12xq" * count)


def _unit_at(data: bytes, position: int) -> ExtUnit | None:
    try:
        return read_ext_unit(data, position)
    except FormatError:
        return None
