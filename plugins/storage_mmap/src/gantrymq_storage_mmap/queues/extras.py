"""Files beside the ordinary queues: batch queues and ext files, from appended to visible to durable.

Entries of batch queues and ext units wait here for the same gates as their records. One publication writes all of them,
then shows all of them, before the ordinary queue entries become visible, which may hold addresses of ext units. What
could not be written stays waiting, and nothing is shown; writing it again does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gantrymq.errors import StoreError
from gantrymq.formats.ext_unit import MIN_UNIT_BYTES, ExtUnit, ext_address, pack_ext_unit
from gantrymq.formats.queue_entry import ENTRY
from gantrymq.interfaces import DispatchEntry
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue

__all__ = ["Extras", "Unsynced"]

Extra = BatchQueue | ExtQueue
Unsynced = list[tuple[Extra, list[int]]]


class Extras:
    """What waits to be written, and what was written and is not durable."""

    def __init__(self) -> None:
        self.refusal: str | None = None  # why the last publication failed
        self._waiting: list[tuple[int, Extra, Any]] = []  # log offset behind the record, where to, what
        self._dirty: dict[Extra, None] = {}
        self._failed_up_to = 0

    def add(self, record_end: int, extra: Extra, item: bytes | tuple[int, bytes]) -> None:
        """Keep an item for *extra*, whose record ends at *record_end*; in log order."""
        self._waiting.append((record_end, extra, item))

    def with_addresses(
        self, entries: Sequence[DispatchEntry], targets: Sequence[ConsumeQueue | None], packed: Sequence[bytes]
    ) -> list[bytes]:
        """Packed queue entries with the addresses of ext units, for those queues that have them written."""
        found = list(packed)
        for number, (entry, queue) in enumerate(zip(entries, targets, strict=True)):
            ext = queue.ext if queue is not None else None
            if ext is not None and ext.writes:
                position = ext.place(MIN_UNIT_BYTES)
                unit = pack_ext_unit(ExtUnit(entry.tags_code, entry.store_timestamp))
                self.add(entry.log_offset + entry.size, ext, (position, unit))
                found[number] = ENTRY.pack(entry.log_offset, entry.size, ext_address(position))
        return found

    def publish(self, up_to: int) -> None:
        """Write and show what belongs to records that end at or before *up_to*. Budget: 0.1 us when nothing waits.

        Raises:
            StoreError: something could not be written; nothing was shown.
        """
        if not self._waiting:
            return
        count = next((n for n, (end, _, _) in enumerate(self._waiting) if end > up_to), len(self._waiting))
        by_extra = self._written(count, up_to)
        del self._waiting[:count]
        for extra, items in by_extra.items():
            if not extra.dropped:
                extra.show(items)

    def retry(self) -> None:
        """Try the writes of a failed publication once more; `refusal` is None when they succeed."""
        if self.refusal is not None:
            count = sum(end <= self._failed_up_to for end, _, _ in self._waiting)
            with suppress(StoreError):
                self._written(count, self._failed_up_to)

    def _written(self, count: int, up_to: int) -> dict[Extra, list[Any]]:
        by_extra: dict[Extra, list[Any]] = {}
        for _, extra, item in self._waiting[:count]:
            by_extra.setdefault(extra, []).append(item)
        for extra, items in by_extra.items():
            if not extra.dropped:
                try:
                    extra.write_waiting(items)
                except OSError as error:
                    self._failed_up_to = up_to
                    self.refusal = f"the queue files in {extra.folder} cannot be written: {error}"
                    raise StoreError(self.refusal) from error
                self._dirty[extra] = None
        self.refusal = None
        return by_extra

    # --- durability -------------------------------------------------------------------------------------------------

    def take_dirty(self) -> tuple[Unsynced, list[tuple[Path, list[int]]], dict[Path, None]]:
        """What is not durable, its files, and the folders with new names; all counts as durable from now on."""
        unsynced = [(extra, extra.take_dirty()) for extra in self._dirty if not extra.dropped]
        folders: dict[Path, None] = {}
        for extra in self._dirty:
            folders |= extra.files.new_folders
            extra.files.new_folders = {}
        self._dirty = {}
        return unsynced, [(extra.folder, starts) for extra, starts in unsynced], folders

    def give_dirty(self, unsynced: Unsynced) -> None:
        """Take back what `take_dirty` gave: it could not be made durable. The folders are the caller's to keep."""
        for extra, starts in unsynced:
            extra.give_dirty(starts)
            self._dirty[extra] = None
