"""Timer wheel and timer log on disk. All methods run in workers; writers exclude each other, so that `sync` and `clean`
may run concurrently with `append`.

An entry is written before the slot that points to it, and both become durable before the checkpoint that covers them.
Kept in memory: the end of the log, and all writes since the last sync. After a failed sync the pages may be lost
although a later fsync succeeds, so everything written since the last successful sync is written again.

Source: apache/rocketmq store/.../timer/TimerLog.java (append), TimerMessageStore.java (doEnqueue, dequeue).
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gantrymq.errors import StoreError
from gantrymq.plugin.world import File, Files, make_durable_dirs
from gantrymq_store_files.file_names import file_name, file_start
from gantrymq_store_files.timer_log import (
    ENTRY_BYTES,
    TimerEntry,
    blank,
    decode_entry,
    encode_entry,
    last_entry_position,
    next_entry_position,
)
from gantrymq_store_files.timer_wheel import (
    SLOT_BYTES,
    SLOTS,
    WHEEL_BYTES,
    Slot,
    decode_slot,
    encode_slot,
    slot_position,
    slots_of,
)

_READ_BYTES = 64 * 1024
_PAGE_BYTES = 4096
_ZEROS = bytes(_READ_BYTES)


class WheelDamage(StoreError):
    """Raised when wheel or timer log are damaged and have to be rebuilt from the commit log."""


class NewEntry(NamedTuple):
    """An entry to append."""

    tick: int
    magic: int
    log_offset: int
    size: int
    topic_hash: int


class SlotChain(NamedTuple):
    """The entries of one slot."""

    positions: array[int]  # log positions of messages, oldest first; eight bytes each while the slot is delivered
    markers: list[TimerEntry]  # recall markers
    broken_at: int | None  # position without an entry of this slot; None if the list is intact
    slot_count: int = 0  # count stored in the slot


class WheelFiles:
    """The files ``timerwheel`` and ``timerlog/`` of one store; created with the first message."""

    def __init__(self, files: Files, root: Path, file_bytes: int, precision_ms: int) -> None:
        self._files = files
        self.folder = root / "timerlog"
        self.wheel_path = root / "timerwheel"
        self.file_bytes = file_bytes
        self.precision_ms = precision_ms
        self.end = 0  # end of the log
        self._wheel: File | None = None
        self._logs: dict[int, File] = {}
        self._unsynced: set[File] = set()
        self._written: list[tuple[int, bytes] | Slot] = []  # log writes and slots since the last sync, in order
        self._lock = threading.RLock()  # held while writing, not while syncing

    # --- slots ------------------------------------------------------------------------------------------------------

    def slot(self, tick: int) -> Slot | None:
        """Return the slot of *tick*, None if it is empty."""
        wheel = self._open_wheel(create=False)
        if wheel is None:
            return None
        found = decode_slot(wheel.pread(SLOT_BYTES, slot_position(tick)).ljust(SLOT_BYTES, b"\0"), tick)
        while found is not None and found.last >= self.end:  # left by an append that failed half way
            entry = self.entry(found.last)
            if entry is None or entry.previous >= found.last or entry.previous < 0:
                return None
            found = found._replace(last=entry.previous, count=found.count - 1)
        return found

    def write_slots(self, slots: Sequence[Slot]) -> None:
        """Write *slots*."""
        with self._lock:
            wheel = self._open_wheel(create=True)
            assert wheel is not None
            self._unsynced.add(wheel)
            for slot in slots:
                wheel.pwrite(encode_slot(slot), slot_position(slot.tick))
            self._written += slots

    def clear(self, ticks: Iterable[int]) -> None:
        """Empty the slots of *ticks*."""
        self.write_slots([Slot(tick, -1, -1) for tick in ticks])

    def clear_between(self, start: int, end: int) -> None:
        """Empty the slots of the ticks ``[start, end)``, at most one turn of the wheel."""
        if busy := [slot.tick for slot in self.busy(start, end)]:
            self.clear(busy)

    def busy(self, start: int, end: int) -> Iterator[Slot]:
        """Yield the non-empty slots of the ticks ``[start, end)`` in order; at most one turn of the wheel."""
        wheel = self._open_wheel(create=False)
        end = min(end, start + SLOTS)
        while wheel is not None and start < end:
            place = slot_position(start)
            length = min(WHEEL_BYTES - place, (end - start) * SLOT_BYTES)
            for begin, behind in wheel.written(place, place + length):
                first = begin // SLOT_BYTES * SLOT_BYTES
                for at in range(first, behind, _READ_BYTES):
                    size = min(_READ_BYTES, place + length - at)
                    yield from _busy_of(wheel.pread(size, at), start + (at - place) // SLOT_BYTES)
            start += length // SLOT_BYTES

    def written_parts(self) -> Iterator[bytes]:
        """Yield the raw bytes of all slots ever written, in order, some thousand slots at a time."""
        wheel = self._open_wheel(create=False)
        if wheel is None:
            return
        for begin, behind in wheel.written(0, WHEEL_BYTES):
            for at in range(begin // SLOT_BYTES * SLOT_BYTES, behind, _READ_BYTES):
                part = wheel.pread(_READ_BYTES, at)
                yield part[: len(part) // SLOT_BYTES * SLOT_BYTES]

    def next_busy(self, start: int, end: int) -> int:
        """Return the first tick of ``[start, end)`` with a non-empty slot, or *end*."""
        return next((slot.tick for slot in self.busy(start, end)), end)

    # --- entries ----------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[NewEntry], written_ms: int) -> None:
        """Append *entries* to the log and link them into their slots; readers see either all or none of them.

        Raises:
            OSError: the disk cannot be written; the call may be repeated.
        """
        with self._lock:
            self._append(entries, written_ms)

    def _append(self, entries: Sequence[NewEntry], written_ms: int) -> None:
        slots: dict[int, Slot] = {}
        runs: dict[int, bytearray] = {}
        end = self.end
        run = runs.setdefault(end, bytearray())
        for new in entries:
            place = next_entry_position(end, self.file_bytes)
            if place != end:
                run += blank(place - end)
                run = runs.setdefault(place, bytearray())
            before = slots.get(new.tick) or self.slot(new.tick) or Slot(new.tick, place, -1)
            due_ms = new.tick * self.precision_ms
            entry = TimerEntry(
                before.last, new.magic, written_ms, due_ms - written_ms, new.log_offset, new.size, new.topic_hash
            )
            run += encode_entry(entry)
            count = before.count + (-1 if entry.deletes else 1)
            slots[new.tick] = before._replace(last=place, count=count)
            end = place + ENTRY_BYTES
        for place, data in runs.items():
            if data:
                self.write_log(place, data)
        self.write_slots(list(slots.values()))
        self.end = end

    def write_log(self, position: int, data: bytes | bytearray) -> None:
        """Write *data* at *position* of the log; it must not cross a file boundary."""
        with self._lock:
            file = self._open_log(position - position % self.file_bytes, create=True)
            assert file is not None
            self._unsynced.add(file)
            file.pwrite(data, position % self.file_bytes)
            self._written.append((position, bytes(data)))

    def read_log(self, position: int, length: int) -> bytes:
        """Read up to *length* bytes from *position*, at most to the end of its file; empty if there is no file."""
        at = position % self.file_bytes
        file = self._open_log(position - at, create=False)
        return b"" if file is None else file.pread(min(length, self.file_bytes - at), at)

    def entry(self, position: int) -> TimerEntry | None:
        """Return the entry at *position*, None if there is none."""
        return decode_entry(self.read_log(position, ENTRY_BYTES)) if position >= 0 else None

    def chain(self, tick: int) -> SlotChain:
        """Return all entries of the slot of *tick*."""
        slot = self.slot(tick)
        at = slot.last if slot is not None else -1
        found = SlotChain(array("q"), [], None, slot.count if slot is not None else 0)
        base, window = 0, b""
        while at >= 0:
            if not base <= at <= base + len(window) - ENTRY_BYTES:
                base = max(at - at % self.file_bytes, at + ENTRY_BYTES - _READ_BYTES)
                window = self.read_log(base, at + ENTRY_BYTES - base)
            entry = decode_entry(window, at - base)
            if entry is None or entry.due_ms // self.precision_ms != tick or entry.previous >= at:
                found = found._replace(broken_at=at)
                break
            if entry.deletes and not entry.rolls:
                found.markers.append(entry)
            else:
                found.positions.append(at)
            at = entry.previous
        found.positions.reverse()
        return found

    def back_from(self, tick: int, at: int, most: int) -> list[TimerEntry]:
        """Return up to *most* entries of the slot of *tick*, from position *at* to older ones."""
        found: list[TimerEntry] = []
        while at >= 0 and len(found) < most:
            entry = self.entry(at)
            if entry is None or entry.due_ms // self.precision_ms != tick or entry.previous >= at:
                break
            found.append(entry)
            at = entry.previous
        return found

    def entries(self, positions: Sequence[int]) -> list[TimerEntry]:
        """Return the entries at ascending *positions*, without those that do not exist any more."""
        found: list[TimerEntry] = []
        base, window = 0, b""
        for at in positions:
            if not base <= at <= base + len(window) - ENTRY_BYTES:
                base, window = at, self.read_log(at, _READ_BYTES)
            entry = decode_entry(window, at - base)
            if entry is not None:
                found.append(entry)
        return found

    # --- files ------------------------------------------------------------------------------------------------------

    def starts(self) -> list[int]:
        """Return the start positions of the log files, oldest first."""
        return sorted(each for name in self._files.list(self.folder) if (each := file_start(name)) is not None)

    def sync(self) -> None:
        """Make all writes durable. Raises OSError; the writes are then repeated, as a failed sync may lose them."""
        with self._lock:
            waiting, self._unsynced = self._unsynced, set()
            written, self._written = self._written, []
        try:
            for file in waiting:
                file.datasync()
        except OSError:
            with self._lock:
                self._unsynced |= waiting
                again, self._written = written + self._written, []
                self._write_again(again)
            raise

    def _write_again(self, parts: list[tuple[int, bytes] | Slot]) -> None:
        """Repeat the writes *parts*; those that fail are kept for the next attempt."""
        for number, part in enumerate(parts):
            try:
                if isinstance(part, Slot):
                    self.write_slots([part])
                else:
                    self.write_log(*part)
            except OSError:
                self._written += parts[number:]
                raise

    def clean(self, min_log_offset: int) -> int:
        """Remove old files without messages left in the commit log, except the newest. Return how many were removed."""
        with self._lock:
            removed = 0
            starts = self.starts()
            for start in starts[:-1]:
                newest = self.entry(start + last_entry_position(self.file_bytes))
                if newest is None or newest.log_offset >= min_log_offset:
                    break
                self._forget(start)
                self._files.remove(self.folder / file_name(start))
                removed += 1
            return removed

    def remove_from(self, start: int) -> None:
        """Remove the file that begins at *start*."""
        self._forget(start)
        self._files.remove(self.folder / file_name(start))
        self._files.sync_dir(self.folder)

    def remove(self) -> None:
        """Remove log and wheel, and reset the state."""
        self.close()
        for path in (*(self.folder / file_name(start) for start in self.starts()), self.wheel_path):
            if self._files.stat(path) is not None:
                self._files.remove(path)
                self._files.sync_dir(path.parent)
        self.end, self._written = 0, []

    def close(self) -> None:
        """Close the files."""
        for file in (*self._logs.values(), *([] if self._wheel is None else [self._wheel])):
            file.close()
        self._logs, self._wheel, self._unsynced = {}, None, set()

    def _forget(self, start: int) -> None:
        file = self._logs.pop(start, None)
        if file is not None:
            self._unsynced.discard(file)
            file.close()

    def _open_wheel(self, *, create: bool) -> File | None:
        if self._wheel is None:
            self._wheel = self._open(self.wheel_path, WHEEL_BYTES, create=create)
        return self._wheel

    def _open_log(self, start: int, *, create: bool) -> File | None:
        file = self._logs.get(start)
        if file is None:
            if create:
                make_durable_dirs(self._files, self.folder)
            file = self._open(self.folder / file_name(start), self.file_bytes, create=create)
            if file is not None:
                self._logs[start] = file
        return file

    def _open(self, path: Path, length: int, *, create: bool) -> File | None:
        if not create and self._files.stat(path) is None:
            return None
        file = self._files.open(path, create=create)
        if file.size() < length:  # the process ended while it created the file
            if not create:
                file.close()
                return None
            try:
                file.truncate(length)
                file.datasync()  # makes the length durable: no file is shorter after a power loss
                self._files.sync_dir(path.parent)
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(0)  # a failed sync is not trusted: create the file again from scratch
                file.close()
                raise
        return file


def _busy_of(data: bytes, start: int) -> Iterator[Slot]:
    """Yield the non-empty slots of *data*; the first slot of *data* is that of tick *start*."""
    if data == _ZEROS[: len(data)]:
        return
    for at in range(0, len(data) // SLOT_BYTES * SLOT_BYTES, _PAGE_BYTES):
        page = data[at : at + _PAGE_BYTES]
        if page != _ZEROS[: len(page)]:
            page = page[: len(page) // SLOT_BYTES * SLOT_BYTES]
            for tick, slot in enumerate(slots_of(page), start + at // SLOT_BYTES):
                if slot.tick == tick > 0 and slot.last >= 0:
                    yield slot
