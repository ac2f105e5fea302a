"""Refusal to start if messages wait in slots of another length than ``timerPrecisionMs``.

A slot stores its time divided by the precision, so slots of another precision are never found. A Java broker does not
check this, and delivers none of the waiting messages; after the setting is restored it finds them again, but newer
messages may have overwritten their slots.

Source: apache/rocketmq store/.../timer/TimerWheel.java (getSlot, putSlot).
"""

from __future__ import annotations

import sys
from array import array

from gantrymq.errors import StoreLayoutError
from gantrymq_schedule.timer.settings import PRECISIONS
from gantrymq_schedule.timer.wheel_files import WheelFiles
from gantrymq_store_files.timer_log import TimerEntry
from gantrymq_store_files.timer_wheel import SLOT_BYTES, SLOTS

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
