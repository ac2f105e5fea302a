"""Checking what is read from the disk: a record that was damaged since recovery, or before its start, is refused.

Only cold reads are checked. What is hot was written or checked by this process and lies in memory. The check runs in
the thread that reads, and costs 4 us a record and the CRC of its body. A refused record is left out of the answer,
which goes on behind it; the operator is told once, and it is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gantrymq.formats.check import Found, check_place
from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES
from gantrymq.model.names import LMQ_PREFIX

__all__ = ["Damaged", "sound_pieces", "wanted_records"]

MAX_REMEMBERED = 10_000

# Log offset, size, and the queue offsets that the record may have (None: any).
Wanted = tuple[int, int, range | None]


class Damaged:
    """Records that were refused."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        """*tell* is given one sentence for each place."""
        self.refused = 0  # answers that a damaged record was left out of
        self._tell = tell
        self._told: set[int] = set()

    def refuse(self, log_offset: int, problem: str) -> None:
        """Count it, and tell it the first time. Belongs to the event loop."""
        self.refused += 1
        if log_offset not in self._told and len(self._told) < MAX_REMEMBERED:
            self._told.add(log_offset)
            self._tell(f"a damaged record was left out of what a consumer gets: {problem}")


def wanted_records(topic: str, queue_offset: int, data: bytes, taken: int) -> dict[int, Wanted]:
    """What the first *taken* entries of *data* name, by log offset.

    Args:
        topic: of the queue; records in a light queue have offsets of another one.
        queue_offset: of the first entry.
        data: packed entries, as they were read.
        taken: how many of them were looked at.
    """
    found: dict[int, Wanted] = {}
    light = topic.startswith(LMQ_PREFIX)
    for at, (log_offset, size, _) in enumerate(ENTRY.iter_unpack(data[: taken * ENTRY_BYTES]), queue_offset):
        first = found[log_offset][2] if log_offset in found else None
        # The first and the last entry may repeat one that was not read, see `queue_rebuild`.
        low = 0 if at == queue_offset else at if first is None else first.start
        high = 2**63 - 1 if at == queue_offset + len(data) // ENTRY_BYTES - 1 else at + 1
        found[log_offset] = (log_offset, size, None if light else range(low, high))
    return found


def sound_pieces(
    start: int, piece: bytes, wanted: Mapping[int, Wanted]
) -> tuple[list[bytes | memoryview], list[tuple[int, int, str]]]:
    """The sound part of *piece*, and log offset, size and problem of each damaged record in it. For a thread.

    Args:
        start: log offset of the first byte of *piece*.
        piece: records, one behind the other, all among *wanted*.
        wanted: as `wanted_records` made it.
    """
    end = start + len(piece)
    view = memoryview(piece)
    sound: list[bytes | memoryview] = []
    damaged: list[tuple[int, int, str]] = []
    begun = log_offset = start
    while log_offset < end:
        _, size, queue_offsets = wanted[log_offset]
        problem = _problem(view, log_offset - start, log_offset, size, queue_offsets)
        if problem is not None:
            damaged.append((log_offset, size, problem))
            sound.append(view[begun - start : log_offset - start])
            begun = log_offset + size
        log_offset += size
    if not damaged:
        return [piece], damaged
    sound.append(view[begun - start :])
    return [part for part in sound if len(part)], damaged


def _problem(view: memoryview, position: int, log_offset: int, size: int, queue_offsets: range | None) -> str | None:
    found = check_place(view[: position + size], position, log_offset)
    if found.record is None:
        return found.problem or f"log offset {log_offset}: {'zeros' if found.found is Found.END else 'no record'}"
    if found.size != size:
        return f"record at log offset {log_offset}: it has {found.size} bytes, its queue entry says {size}"
    if queue_offsets is not None and found.record.queue_offset not in queue_offsets:
        return f"record at log offset {log_offset}: it says that its queue offset is {found.record.queue_offset}"
    return None
