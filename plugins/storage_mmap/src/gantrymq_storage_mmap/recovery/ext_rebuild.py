"""Ext units while a queue is brought in line with the log: where the next one is, and what stands there.

Units follow their entries one by one. A queue whose entries are gone while its units are there finds them again, with
the bits that only the broker's filters could make anew: a unit that stands at its place and has the record's tags code
and store time is the record's.

Source: apache/rocketmq store/.../ConsumeQueueExt.java (recover, truncateByMaxAddress).
"""

from __future__ import annotations

from gantrymq.formats.ext_unit import MIN_UNIT_BYTES, ExtUnit, ext_address, ext_position, pack_ext_unit
from gantrymq.formats.queue_entry import is_ext_address
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue

__all__ = ["ExtRebuild"]


class ExtRebuild:
    """A place in the ext files of one queue that moves along with its entries."""

    __slots__ = ("_ext", "_new", "_position", "_written")

    def __init__(self, ext: ExtQueue, code_before: int | None) -> None:
        """*code_before*: what the entry before the first that may be missing holds; None when there is none."""
        self._ext = ext
        self._new: list[tuple[int, bytes]] = []
        self._position = 0  # behind the newest entry's unit
        if code_before is None:
            self._position = next(iter(ext.starts()), 0)
        else:
            before = ext.unit(ext_position(code_before)) if is_ext_address(code_before) else None
            self._position = ext.end_of_units() if before is None else ext_position(code_before) + before.size
        self._written = self._position  # behind the last unit that is in the files

    def follow(self, address: int, tags_code: int, store_timestamp: int) -> bool:
        """Go past the unit that an entry names; False when it cannot be read, or is not the record's."""
        self.write()
        position = ext_position(address)
        unit = self._ext.unit(position)
        if unit is None or unit[:2] != (tags_code, store_timestamp):
            return False
        self._position = self._written = position + unit.size
        return True

    def code_of(self, tags_code: int, store_timestamp: int) -> int:
        """What a new entry holds: the address of its unit, or *tags_code* when the store writes no units."""
        ext = self._ext
        if not self._new:
            next_file = self._position + -self._position % ext.files.file_bytes
            for position in dict.fromkeys((self._position, next_file)):
                unit = ext.unit(position)
                if unit is not None and unit[:2] == (tags_code, store_timestamp):
                    self._position = self._written = position + unit.size
                    return ext_address(position)
        if not ext.writes:
            return tags_code
        position = ext.fitting(self._position, MIN_UNIT_BYTES)
        self._new.append((position, pack_ext_unit(ExtUnit(tags_code, store_timestamp))))
        self._position = position + MIN_UNIT_BYTES
        return ext_address(position)

    def write(self) -> None:
        """Write the new units; their entries follow. Raises OSError."""
        if self._new:
            self._ext.write(self._new, self._written)
            self._written = self._position
            self._new = []

    def finish(self) -> None:
        """The units end here."""
        self.write()
        self._ext.settle(self._position)
