"""Checks records read from the disk: a record damaged since recovery, or before recovery's start, is refused.

Only cold reads are checked. Hot records were written or checked by this process and are in memory. The check runs where
the record is read, and costs 2 us plus the CRC of the body. A refused record is left out of the answer, which continues
after it; it is counted, and logged once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.model import is_light, light_queue_offsets
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.reading.cold_record import NotInMemory
from gantrymq_store_files.check import LogContent, check_bytes, verified_queue_offset
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES

_MAX_REMEMBERED = 10_000

_ANY = 2**63 - 1
_UNKNOWN = (_ANY, 0, _ANY)  # a place between entries that overlap: what follows is refused

# Size, lowest and highest valid queue offset of a record.
ExpectedRecord = tuple[int, int, int]


class SoundRecords(NamedTuple):
    """What was read."""

    pieces: list[bytes | memoryview]  # sound records, concatenated
    records: int  # number of sound records
    damaged: list[tuple[int, str]]  # log offset and problem of each refused record


class DamagedRecords:
    """Refused records."""

    def __init__(self, report: Callable[[str], object]) -> None:
        """*report* is called with one sentence per log offset."""
        self.refused = 0  # number of times a damaged record was left out
        self._report = report
        self._reported: set[int] = set()

    def refuse(self, log_offset: int, problem: str) -> None:
        """Count a refused record, and log it the first time. Belongs to the event loop."""
        self.refused += 1
        if log_offset not in self._reported and len(self._reported) < _MAX_REMEMBERED:
            self._reported.add(log_offset)
            self._report(f"a damaged record was not delivered to a consumer: {problem}")


def expected_records(queue_offset: int, data: bytes, taken: int) -> dict[int, ExpectedRecord]:
    """Return the records that the first *taken* entries of *data* refer to, by log offset.

    Args:
        queue_offset: of the first entry.
        data: packed entries as read.
        taken: number of entries examined.
    """
    # The first and the last entry may repeat one that was not read, see `recovery.requeue`.
    last = taken - 1 if taken * ENTRY_BYTES >= len(data) - len(data) % ENTRY_BYTES else -1
    found: dict[int, ExpectedRecord] = {}
    for number, (log_offset, size, _) in enumerate(ENTRY.iter_unpack(data[: taken * ENTRY_BYTES])):
        if size > 0:  # zeros are not an entry for log offset 0
            at = queue_offset + number
            low = found[log_offset][1] if log_offset in found else at
            found[log_offset] = (size, low if number else 0, _ANY if number == last else at)
    return found


def read_runs(
    log: CommitLog,
    runs: Sequence[tuple[int, int]],
    wanted: Mapping[int, ExpectedRecord],
    topic: bytes,
    *,
    cached: bool = False,
) -> SoundRecords:
    """Return the sound records of each run ``(start, end)``, and the damaged ones; deleted data reads as nothing.

    For a thread, or, with *cached*, for the event loop: budget 2.5 us a run, and the check.

    Raises:
        NotInMemory: *cached*, and the data is not in memory.
    """
    pieces: list[bytes | memoryview] = []
    count, damaged = 0, []
    for start, end in runs:
        file = log.find(start)
        if file is None:
            continue
        piece = file.pread_cached(start, end) if cached else file.pread(start, end)
        if piece is None:
            raise NotInMemory
        sound, sound_count, broken = sound_pieces(start, piece, wanted, topic)
        pieces += sound
        count += sound_count
        damaged += broken
    return SoundRecords(pieces, count, damaged)


def read_each(
    log: CommitLog, places: Sequence[tuple[int, int]], wanted: Mapping[int, ExpectedRecord], topic: bytes
) -> list[tuple[bytes | memoryview, str | None]]:
    """Return each record ``(log offset, size)``, or why it is refused. Runs in a thread."""
    found: list[tuple[bytes | memoryview, str | None]] = []
    for log_offset, size in places:
        pieces, _, damaged = read_runs(log, [(log_offset, log_offset + size)], wanted, topic)
        found.append((pieces[0] if pieces else b"", damaged[0][1] if damaged else None))
    return found


def sound_pieces(start: int, piece: bytes, wanted: Mapping[int, ExpectedRecord], topic: bytes) -> SoundRecords:
    """Return the sound records of *piece*, and the damaged ones.

    Args:
        start: log offset of the first byte of *piece*.
        piece: consecutive records, all contained in *wanted* unless their entries contradict each other.
        wanted: from `expected_records`.
        topic: of the queue.
    """
    end = start + len(piece)
    view = memoryview(piece)
    sound: list[bytes | memoryview] = []
    count, damaged = 0, []
    begun = log_offset = start
    while log_offset < end:
        size, low, high = wanted.get(log_offset, _UNKNOWN)
        certain = verified_queue_offset(piece, log_offset - start, log_offset, size, topic)
        problem = None
        if not low <= certain <= high:
            problem = _problem(view, log_offset - start, log_offset, size, low, high, topic)
        if problem is None:
            count += 1
        else:
            damaged.append((log_offset, problem))
            sound.append(view[begun - start : log_offset - start])
            begun = log_offset + size
        log_offset += size
    if not damaged:
        return SoundRecords([piece], count, damaged)
    sound.append(view[begun - start :])
    return SoundRecords([part for part in sound if len(part)], count, damaged)


def _problem(
    view: memoryview, position: int, log_offset: int, size: int, low: int, high: int, topic: bytes
) -> str | None:
    found = check_bytes(view[: position + size], position, log_offset)
    if found.record is None:
        return found.problem or f"log offset {log_offset}: {'zeros' if found.found is LogContent.END else 'no record'}"
    if found.size != size:
        return f"record at log offset {log_offset}: it has {found.size} bytes, its queue entry says {size}"
    queue_offset = _queue_offset_in(topic.decode(), found.record)
    if queue_offset is None:
        return f"record at log offset {log_offset}: it belongs to topic {found.record.topic}"
    if not low <= queue_offset <= high:
        return f"record at log offset {log_offset}: it says that its queue offset is {queue_offset}"
    return None


def _queue_offset_in(topic: str, record: RecordView) -> int | None:
    """Return the queue offset of *record* in its queue of *topic*; None if it has none."""
    if record.topic == topic:
        return record.queue_offset
    return dict(light_queue_offsets(record.topic, record.properties)).get(topic) if is_light(topic) else None
