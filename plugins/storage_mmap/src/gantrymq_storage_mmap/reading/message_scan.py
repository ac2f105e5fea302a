"""Reading a queue through a filter of properties, from memory and in one go: which of many records one pull gets.

A filter that keeps one message of a hundred has a hundred looked at for each that it gets, so this is where its time
goes. Three things make a look cheap:

- stretches of the log are read, not records, and serve the other queues that have records in them (`ColdBlocks`);
- a record in which none of the filter's needles stands is passed over without being read further;
- of the others the properties are cut out in place, and a `RecordView` is made of none.

What is taken is checked as in any cold get; what is passed over is not, as nobody gets it.

The statuses and limits are those of `reading.get`, but that a full answer also passes over what does not match behind
its last record. One turn of the loop looks at no more than `MOST_BYTES` of records:
where they are large a pull looks at fewer, and goes on behind them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import attrs

from gantrymq.errors import FilterTurnOver, FormatError
from gantrymq.formats.record import HEAD_V4, MAGIC_V1, MIN_RECORD_BYTES, read_record
from gantrymq.interfaces import PropertiesFilter
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.reading.cold_blocks import BLOCK_BYTES, MOST_SPREAD, ColdBlocks
from gantrymq_storage_mmap.reading.selection import Selection
from gantrymq_store_files.ext_unit import ExtUnit
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, MAX_EXT_ADDRESS, is_pre_blank

__all__ = ["MessageScan", "bring_in"]

MOST_BYTES: Final = 16 * 1024 * 1024  # of records in one get: 5 ms from the page cache
FEW: Final = 16  # entries: so few records are read one by one, as are those that lie far apart
LARGE_BYTES: Final = 4096  # of a record: its properties are cut out before they are searched

_HEAD = struct.Struct(">4xI28xi44xi")  # of HEAD_V4: magic, sys flag, body length
_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_BODY_AT = HEAD_V4.size


@attrs.frozen(eq=False)
class MessageScan:
    """Looks at records on the event loop."""

    _log: CommitLog
    _blocks: ColdBlocks

    def take(
        self,
        selection: Selection,
        queue: Queue,
        entries: bytes,
        match: PropertiesFilter,
        candidates_end: int,
        units: Mapping[int, ExtUnit],
    ) -> list[tuple[int, bytes, int]]:
        """Add to *selection* what of packed *entries* passes both stages, until it is full, or memory ends.

        Args:
            selection: an empty one, at the first entry.
            queue: whose *entries* these are.
            match: says what may match before *candidates_end*, and is asked about what lies behind.
            units: by address.

        Budget: 0.5 us for a record of 1 KB without a needle, 1 us and the evaluation for another one.

        Returns:
            Log offset, bytes and queue offset of each record that was added. ``selection.next_offset`` may lie before
            the end of *entries*, or behind; where it did not move, the first record is on the disk only.

        Raises:
            FilterTurnOver: the filter wants to be asked about the first entry in another turn.
        """
        found: list[tuple[int, bytes, int]] = []
        alone = _far_apart(entries)
        needles, match_entry, match_properties = match.needles, match.match_entry, match.match_properties
        needle = needles[0] if len(needles) == 1 else None
        lowest, highest = self._log.min_offset, self._log.end
        first = begin_offset = ask_at = queue_offset = selection.next_offset
        begin = end = looked_bytes = 0
        data, missed = b"", False
        try:
            for queue_offset, (log_offset, size, tags_code) in enumerate(ENTRY.iter_unpack(entries), first):
                if queue_offset >= ask_at:
                    if queue_offset >= candidates_end:
                        begin_offset, candidates_end = match.candidates(queue, queue_offset)
                    if queue_offset < begin_offset:
                        continue
                    ask_at = candidates_end
                if looked_bytes > MOST_BYTES:
                    break
                behind = log_offset + size
                if tags_code <= MAX_EXT_ADDRESS:
                    unit = units.get(tags_code)
                    if unit is not None and not match_entry(unit.tags_code, unit):
                        missed = False
                        continue
                if not (lowest <= log_offset < behind <= highest) or (not log_offset and is_pre_blank(0, size)):
                    missed = True
                    continue
                if log_offset < begin or behind > end:
                    block = self._blocks.holding(log_offset, behind, alone=alone)
                    if block is None:
                        break
                    begin, end, data = block
                looked_bytes += size
                missed = False
                position, behind = log_offset - begin, behind - begin
                if size <= LARGE_BYTES:
                    if needle is not None:
                        if data.find(needle, position, behind) < 0:
                            continue
                    elif needles and not _holds_one(data, needles, position, behind):
                        continue
                properties = _properties(data, position, size)
                if properties is None:
                    missed = True
                elif size > LARGE_BYTES and needles and not _holds_one(properties, needles, 0, len(properties)):
                    continue
                elif match_properties(properties):
                    if selection.full(log_offset, size):
                        break
                    taken = selection.count
                    selection.add(log_offset, size)
                    if selection.count > taken:
                        found.append((log_offset, data[position:behind], queue_offset))
            else:
                queue_offset += 1
        except FilterTurnOver:
            if queue_offset == first:
                raise
        selection.next_offset = max(queue_offset, begin_offset)
        if missed:
            selection.missed()
        return found


def _far_apart(entries: bytes) -> bool:
    """Whether stretches of the log would hold little of the entries' records."""
    count = len(entries) // ENTRY_BYTES
    if count <= FEW:
        return True
    first, size, _ = ENTRY.unpack_from(entries)
    last, last_size, _ = ENTRY.unpack_from(entries, (count - 1) * ENTRY_BYTES)
    return bool(last - first > MOST_SPREAD * count * (size + last_size) // 2)


def bring_in(log: CommitLog, entries: bytes) -> None:
    """Read the records of *entries*, as far as one get looks, so that they are in memory. Runs in a thread."""
    end, left = 0, MOST_BYTES
    for log_offset, size, _ in ENTRY.iter_unpack(entries):
        file = log.find(log_offset) if log_offset + size > end else None
        if file is not None:
            begin, end = max(end, log_offset), min(log_offset + max(size, BLOCK_BYTES), file.end)
            left -= len(file.pread(begin, end))
            if left < 0:
                return


def _holds_one(data: bytes, needles: tuple[bytes, ...], start: int, end: int) -> bool:
    return any(data.find(needle, start, end) >= 0 for needle in needles)


def _properties(data: bytes, position: int, size: int) -> bytes | None:
    """The property text of the record at *position*, None where there is no record."""
    if size < MIN_RECORD_BYTES:
        return None
    magic, flags, body_bytes = _HEAD.unpack_from(data, position)
    end = position + size
    topic_at = position + _BODY_AT + body_bytes
    if magic == MAGIC_V1 and not flags & _HOST_BITS and body_bytes >= 0 and topic_at < end:
        start = topic_at + 3 + data[topic_at]
        if start + int.from_bytes(data[start - 2 : start], "big") == end:
            return data[start:end]
    try:
        return bytes(read_record(data, position).properties_bytes)
    except FormatError:
        return None
