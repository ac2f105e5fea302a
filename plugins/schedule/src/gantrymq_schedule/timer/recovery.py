"""Recovery of wheel and timer log after a stop of any kind, including a Java broker's. Runs in a worker.

The checkpoint tells up to which position the log is durable together with the slots that point to its entries. Entries
after that position are read and their slots updated, as in a Java broker; if the wheel is missing, or the checkpoint
was written by a Java broker, the whole log is read. Reading ends at the first position without an entry, and at an
entry whose message was lost from the commit log. Everything after it is removed: otherwise it would be read as entries
once new ones were written up to it.

The checkpoint is trusted only if log and wheel match it: the log in bytes of entries, the slots in number of messages.
Otherwise both are rebuilt from the commit log (`rebuild`).

The start is refused if messages wait in slots of another length than ``timerPrecisionMs``: a slot stores its time
divided by the precision, so slots of another precision are never found. A Java broker does not check this, and
delivers none of the waiting messages; after the setting is restored it finds them again, but newer messages may have
overwritten their slots.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (recover, recoverAndRevise),
TimerWheel.java (reviseSlot, checkPhyPos, getSlot, putSlot).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Set
from typing import NamedTuple

from gantrymq.errors import StoreLayoutError
from gantrymq.plugin.world import FileReader
from gantrymq_schedule.settings import PRECISIONS
from gantrymq_schedule.timer.wheel_files import WheelFiles
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint
from gantrymq_store_files.timer_log import ENTRY_BYTES, TimerEntry, decode_entry, is_blank
from gantrymq_store_files.timer_wheel import SLOT_BYTES, SLOTS, WHEEL_BYTES, Slot

_VALUES = SLOT_BYTES // 8  # 64-bit values per slot: the first is its tick, the third its newest entry


def refuse_other_precision(wheel: WheelFiles, read_tick: int) -> None:
    """Check all slots; nothing is written.

    Args:
        wheel: opened with the configured precision.
        read_tick: in that precision; slots before it were delivered.

    Raises:
        StoreLayoutError: messages wait in slots of another precision.
        OSError: the disk.
    """
    read_ms = read_tick * wheel.precision_ms
    others = {
        each: range(read_ms // each, read_ms // each + SLOTS) for each in PRECISIONS if each != wheel.precision_ms
    }
    for part in wheel.written_parts():
        values = array("q", part)
        if sys.byteorder == "little":
            values.byteswap()
        ticks = values[::_VALUES]
        if 2 * min(filter(None, ticks), default=read_tick) > 1.5 * read_tick and max(ticks) < read_tick + SLOTS:
            continue  # with another precision the ticks would be at most half, or at least twice, as large
        for tick, last in zip(ticks, values[2::_VALUES], strict=True):
            if last >= 0:
                for other, waiting in others.items():
                    if tick in waiting:
                        raise _refusal(wheel, f"messages wait in slots of {other} ms", str(other))


def refuse_entry_of_other_precision(wheel: WheelFiles, read_tick: int, entry: TimerEntry) -> None:
    """Check an entry of the timer log, which may have no slot yet.

    Raises:
        StoreLayoutError: *entry* belongs to a slot that does not exist in *wheel*.
    """
    tick, beside = divmod(entry.due_ms, wheel.precision_ms)
    beyond = tick >= read_tick + SLOTS and wheel.precision_ms < PRECISIONS[-1]
    if beyond or (tick >= read_tick and beside and not entry.due_ms % PRECISIONS[0]):
        raise _refusal(wheel, f"a message waits in the slot of {entry.due_ms} ms", "the value it was created with")


def _refusal(wheel: WheelFiles, what: str, wanted: str) -> StoreLayoutError:
    return StoreLayoutError(
        f"{wheel.wheel_path}: {what}, and timerPrecisionMs is {wheel.precision_ms} now; set it back to {wanted}, and "
        "change it when no message waits (gantrymq message pending)"
    )


class WheelRecovery(NamedTuple):
    """Result of the recovery."""

    in_wheel: Set[int] = frozenset()  # log offsets of messages with entries after the checkpoint
    waiting: int = 0  # number of waiting messages, summed over the slots
    came: int = 0  # how many of them were enqueued after the checkpoint
    last_tick: int = -1  # the last slot that may hold a message; -1 for none
    cut: int = 0  # number of removed entries, valid or not
    damage: str = ""  # how the files differ from the checkpoint; if set, the other fields are meaningless


def recover(
    wheel: WheelFiles, files: FileReader, check: TimerCheckpoint, read_tick: int, log_end: int
) -> WheelRecovery:
    """Determine the end of the timer log, and repair the slots.

    Args:
        wheel: new and unused.
        check: the checkpoint: the durable position, and the number of messages in the slots.
        read_tick: slots before it were delivered.
        log_end: end of the commit log.

    Raises:
        StoreLayoutError: file sizes do not match the settings, or messages wait in slots of another length.
        OSError: the disk cannot be read or written.
    """
    flushed = check.flushed_position
    found = files.stat(wheel.wheel_path)
    if found is not None and found.size not in (0, WHEEL_BYTES):
        raise StoreLayoutError(
            f"{wheel.wheel_path}: {found.size} bytes where a timer wheel has {WHEEL_BYTES}; it is damaged: move it "
            "away, and it is rebuilt from timerlog/"
        )
    starts = wheel.starts()
    for start in starts:
        if damage := _damage_of(wheel, files, start, flushed):
            return WheelRecovery(damage=damage)
    if not starts:
        return WheelRecovery(
            damage=f"{wheel.folder} has no files, timercheck claims {flushed} bytes" if flushed else ""
        )
    refuse_other_precision(wheel, read_tick)
    begin = flushed - flushed % wheel.file_bytes
    trusted = flushed
    if found is None or found.size == 0 or begin not in starts or check.in_slots < 0:
        begin = trusted = starts[0]
    scanned = _ScannedEntries(wheel, max(flushed, begin), trusted, read_tick)
    cut, sound = _read_log(wheel, starts, begin, log_end, scanned)
    if sound and wheel.end < flushed:
        return WheelRecovery(damage=f"{wheel.folder} holds no entry at {wheel.end}, timercheck claims {flushed} bytes")
    scanned.set_slots()
    _repair_slots(wheel, starts, read_tick, log_end)
    waiting, last_tick = 0, -1
    for slot in wheel.busy(read_tick, read_tick + SLOTS):
        waiting += slot.count
        last_tick = slot.tick
    before = waiting - scanned.came
    if sound and 0 <= check.in_slots != before:
        return WheelRecovery(damage=f"{wheel.wheel_path} counts {before} messages, timercheck claims {check.in_slots}")
    return WheelRecovery(scanned.behind, waiting, scanned.came, last_tick, cut)


def _damage_of(wheel: WheelFiles, files: FileReader, start: int, flushed: int) -> str:
    """Describe the damage of the file that begins at *start*, empty if none.

    Raises:
        StoreLayoutError: the size of the file may be due to changed settings.
    """
    path = wheel.folder / file_name(start)
    found = files.stat(path)
    size = 0 if found is None else found.size
    if start % wheel.file_bytes == 0 and size < wheel.file_bytes and start + size < flushed:
        return f"{path} has {size} bytes, timercheck claims {flushed - start}"
    if start % wheel.file_bytes or found is None or found.size not in (0, wheel.file_bytes):
        raise StoreLayoutError(
            f"{path}: {size} bytes from byte {start} of the timer log, where "
            f"mappedFileSizeTimerLog={wheel.file_bytes} expects other files; "
            "set it to the value the store was created with"
        )
    return ""


class _ScannedEntries:
    """Collects the scanned entries by slot."""

    def __init__(self, wheel: WheelFiles, flushed: int, trusted: int, read_tick: int) -> None:
        self._wheel = wheel
        self._flushed = flushed
        self._trusted = trusted  # the slots cover all entries before this position, and may be emptied since
        self._read_tick = read_tick
        self._slots: dict[int, Slot] = {}  # by tick modulo SLOTS: a later time replaces an earlier one
        self.behind: set[int] = set()  # log offsets of messages with entries after the checkpoint
        self.came = 0  # messages in undelivered slots, of entries after the checkpoint

    def entry(self, position: int, entry: TimerEntry) -> None:
        """Add the *entry* at *position*; called in the order of the log. Raises StoreLayoutError."""
        refuse_entry_of_other_precision(self._wheel, self._read_tick, entry)
        if position < self._trusted:
            return
        tick = entry.due_ms // self._wheel.precision_ms
        before = self._slots.get(tick % SLOTS)
        first = before.first if before is not None and before.tick == tick else position
        self._slots[tick % SLOTS] = Slot(tick, first, position)
        if position >= self._flushed:
            self.behind.add(entry.log_offset)
            if tick >= self._read_tick:
                self.came += -1 if entry.deletes else 1

    def set_slots(self) -> None:
        """Write each slot with its newest entry."""
        wheel, changed = self._wheel, []
        for scanned in self._slots.values():
            known = wheel.slot(scanned.tick)
            if known is not None and known.last >= scanned.last:
                continue
            count, at = (known.count, known.last) if known is not None else (0, -1)
            position = scanned.last
            while position > at and (entry := wheel.entry(position)) is not None:
                count += -1 if entry.deletes else 1
                if entry.previous >= position:
                    break
                position = entry.previous
            first = known.first if known is not None else scanned.first
            changed.append(scanned._replace(first=first, count=count))
        if changed:
            wheel.write_slots(changed)


def _read_log(
    wheel: WheelFiles, starts: list[int], begin: int, log_end: int, scanned: _ScannedEntries
) -> tuple[int, bool]:
    """Read the log from *begin* on, set its end, and remove everything after the end.

    Returns:
        The number of removed entries, and True unless the end was set because the commit log lost messages.
    """
    wheel.end = starts[-1] + wheel.file_bytes  # while reading
    expected = begin
    for start in starts[starts.index(begin) :]:
        if start != expected:
            break
        data = wheel.read_log(start, wheel.file_bytes)
        at = 0
        while (entry := decode_entry(data, at)) is not None and entry.log_offset < log_end:
            scanned.entry(start + at, entry)
            at += ENTRY_BYTES
        expected = start + wheel.file_bytes
        if at and is_blank(data, at):
            continue
        wheel.end = start + at
        return _cut(wheel, starts, data[at:]), entry is None
    wheel.end = expected
    return _cut(wheel, starts, b""), True


def _cut(wheel: WheelFiles, starts: list[int], rest: bytes) -> int:
    """Zero *rest*, the part of the last file after the end, and remove later files."""
    cut = 0
    if rest.count(0) != len(rest):
        cut = len(rest.rstrip(b"\0")) // ENTRY_BYTES + 1
        wheel.write_log(wheel.end, bytes(len(rest.rstrip(b"\0"))))
    for start in starts:
        if start >= wheel.end and start != starts[0] and start != wheel.end - wheel.end % wheel.file_bytes:
            wheel.remove_from(start)
    return cut


def _repair_slots(wheel: WheelFiles, starts: list[int], read_tick: int, log_end: int) -> None:
    """Repair slots that point beyond the end of the log: rebuild them from the remaining entries, or clear them."""
    end = wheel.end
    wheel.end = 1 << 62  # read the slots unmodified
    try:
        broken = {slot.tick: slot for slot in wheel.busy(read_tick, read_tick + SLOTS) if slot.last >= end}
    finally:
        wheel.end = end
    if not broken:
        return
    left: dict[int, Slot] = {}
    oldest = min(slot.first for slot in broken.values())
    for start in starts:
        if start + wheel.file_bytes <= oldest or start >= end:
            continue
        data, at = wheel.read_log(start, min(wheel.file_bytes, end - start)), 0
        while (entry := decode_entry(data, at)) is not None and entry.log_offset < log_end:
            tick = entry.due_ms // wheel.precision_ms
            if tick in broken and start + at >= broken[tick].first:
                known = left.get(tick) or Slot(tick, start + at, -1)
                left[tick] = known._replace(last=start + at, count=known.count + (-1 if entry.deletes else 1))
            at += ENTRY_BYTES
    wheel.clear(broken.keys() - left.keys())
    if left:
        wheel.write_slots(list(left.values()))
