"""Reading a queue through a property filter, from memory and many records at a time.

A filter that selects one message of a hundred examines a hundred for each result, so most of the time of filtered pulls
is spent here. Five measures make examining cheap:

- entries whose ext units do not match are excluded first, many at a time (`ExtQueue.passing`);
- blocks of the log are searched for the filter's needles (byte strings that a match must contain) instead of records,
  once for all queues (`NeedleHits`);
- blocks are read instead of records if more than a few records remain (`LogBlocks`);
- the properties are cut out in place, without creating a `RecordView`;
- a filter that can evaluate many messages at once (`SliceFilter`) is called once for the properties of a slice.

A slice has as many records as probably contain the matches that the answer still lacks, by the rate of matches so far:
what is evaluated beyond the end of an answer is evaluated again by the next get.

Returned records are checked as in any cold get; skipped records are not.

Statuses and limits are those of `reading.get`, except that a full answer also skips non-matching records after its last
one. One turn of the loop examines at most `MOST_BYTES` of records: if records are large, a pull examines fewer, and the
next pull continues after them.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate, compress, repeat
from operator import add
from typing import Final, cast

import attrs

from gantrymq.errors import FilterBudgetExceeded, FormatError
from gantrymq.plugin.formats import HEAD_V4, MAGIC_V1, MIN_RECORD_BYTES, read_record
from gantrymq.plugin.interfaces import Candidates, PropertiesFilter, SkippingFilter
from gantrymq.plugin.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.reading.log_blocks import BLOCK_BYTES, MOST_SPREAD, OVERLAP_BYTES, Block, LogBlocks
from gantrymq_storage_mmap.reading.needle_hits import NeedleHits
from gantrymq_storage_mmap.reading.selection import Selection
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, is_pre_blank

MOST_BYTES: Final = 16 * 1024 * 1024  # of records per get: 5 ms from the page cache
_FEW: Final = 16  # entries: this many records, or records far apart, are read one by one
_MAX_RANGES: Final = 128  # blocks of the log searched for needles per get: 8 ms
SLICE_BYTES: Final = 256 * 1024  # of records; keeps at most `MOST_SPREAD` times as much of the log in memory

_HEAD = struct.Struct(">4xI28xi44xi")  # of HEAD_V4: magic, sys flag, body length
_SEPARATOR = 2  # between properties
_MOST_PROPERTIES = 0xFFFF  # bytes; their length is a short
_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_NO_HEAD = (0, 0, 0)
_BODY_AT = HEAD_V4.size


@attrs.frozen(eq=False)
class MessageScan:
    """Examines records on the event loop."""

    _log: CommitLog
    _blocks: LogBlocks
    _hits: NeedleHits

    def take(
        self,
        selection: Selection,
        entries: bytes,
        match: PropertiesFilter,
        passing: bytes,
        part: Candidates | None = None,
    ) -> list[tuple[int, bytes, int]]:
        """Add the records of packed *entries* that pass both filter stages to *selection*.

        Stops when the selection is full, or at a record that is not in memory.

        Args:
            selection: empty, at the first entry.
            entries: packed.
            match: the filter.
            passing: a byte for each entry, 0 if it did not pass the first stage.
            part: the candidates of a `SkippingFilter`, which begin with the *entries*.

        Budget: 0.3 us for a record of 1 KB without a needle, 1 us and the evaluation for another one.

        Returns:
            Log offset, bytes and queue offset of each added record. ``selection.next_offset`` may be before the end of
            *entries*; if it did not move, the first record is on the disk only.

        Raises:
            FilterBudgetExceeded: the filter postpones the first entry to another turn.
        """
        first, known = selection.next_offset, len(entries) // ENTRY_BYTES
        look = _RecordScan(self._log, self._blocks, selection, entries, match)
        indexes: Sequence[int] = range(known)
        if 0 in passing:
            indexes = list(compress(indexes, passing))
        skipping = cast(SkippingFilter, match) if part is not None and 0 not in passing else None
        narrowed = None
        if part is not None and skipping is not None and not self._searched(entries, match.needles):
            narrowed = skipping.narrowed(part, first + _in_one_turn(entries), partial(self._values, entries, first))
        alone = _far_apart(entries, indexes)
        if narrowed is not None:
            indexes, known = [offset - first for offset in narrowed[0]], narrowed[1] - first
            alone = _far_apart(entries, indexes)
        elif match.needles and not alone:
            indexes, known = self._holding(entries, indexes, match.needles)
            alone = _far_apart(entries, indexes)
        stopped = look.at(indexes, first, alone=alone)
        selection.next_offset = first + (known if stopped is None else stopped)
        if part is not None and skipping is not None and narrowed is None:
            skipping.examined(part, selection.next_offset)
        if look.missed == len(entries) // ENTRY_BYTES - 1:
            selection.missed()
        return look.found

    def _holding(self, entries: bytes, indexes: Sequence[int], needles: tuple[bytes, ...]) -> tuple[Sequence[int], int]:
        """Return the indexes of the records that may contain a needle, and up to which entry this is known."""
        count = len(entries) // ENTRY_BYTES
        places = _places(count).unpack(entries)
        offsets, sizes = places[::2], places[1::2]
        if len(indexes) < count:
            offsets, sizes = tuple(offsets[each] for each in indexes), tuple(sizes[each] for each in indexes)
        plain = self._log.min_offset <= offsets[0] and offsets[-1] + sizes[-1] <= self._log.end and min(sizes) > 0
        if not plain or max(map(len, needles)) > OVERLAP_BYTES or offsets != tuple(sorted(offsets)):
            return indexes, count
        held = self._hits.holding(needles, offsets, sizes, _MAX_RANGES)
        known = count if held.known == len(offsets) else indexes[held.known]
        return [indexes[each] for each in held.indexes], known

    def _searched(self, entries: bytes, needles: tuple[bytes, ...]) -> bool:
        """Return whether an earlier get has searched the log around *entries*, so that it need not be read again."""
        last, size, _ = ENTRY.unpack_from(entries, len(entries) - ENTRY_BYTES)
        searched = bool(needles) and self._hits.searched(needles, last)
        return searched and self._blocks.known(last, last + size) is None

    def _values(
        self, entries: bytes, first: int, name: str, begin: int, end: int
    ) -> list[tuple[int, set[bytes]]] | None:
        """Return the values of property *name* in the records from *begin* to *end*; see `ValuesOf`.

        *entries* are packed, the first one is at *first*. Bytes of a body that look like the property may add values.
        Budget: 0.4 us for a record that ends like the one before it, from the property on, 1.5 us for another.
        """
        runs: list[tuple[int, set[bytes]]] = []
        places = _places(end - begin).unpack_from(entries, (begin - first) * ENTRY_BYTES)
        offsets, sizes = places[::2], places[1::2]
        ends, shortest = list(map(add, offsets, sizes)), min(sizes)
        ordered = offsets == tuple(sorted(offsets)) and ends == sorted(ends) and shortest >= MIN_RECORD_BYTES
        if not ordered or offsets[0] < self._log.min_offset or ends[-1] > self._log.end:
            return None
        alone = _far_apart(entries, range(len(entries) // ENTRY_BYTES))
        mark, tail, index = name.encode() + b"\x01", b"", 0
        while index < len(ends):
            block = self._blocks.holding(offsets[index], ends[index], alone=alone)
            if block is None:
                return None
            shift, block_end, data = block
            after, same = bisect_right(ends, block_end, index), data.startswith
            for at, record_end in enumerate(ends[index:after], index):
                if tail and same(tail, record_end - shift - len(tail)):
                    continue
                values, tail = _values_in(data, mark, offsets[at] - shift, record_end - shift)
                if len(tail) > shortest:
                    tail = b""
                if not runs or runs[-1][1] != values:
                    runs.append((begin + at, values))
            index = after
        return runs


class _Slice:
    """Records to evaluate together."""

    __slots__ = ("length", "missed", "records", "stopped", "texts")

    def __init__(self, length: int) -> None:
        self.texts: list[bytes] = []  # stored properties
        self.records: list[tuple[int, int, int, bytes, int]] = []  # index, log offset, size, block, position in it
        self.length = length  # entries, including those without a needle or a record
        self.missed = -1  # index of the last entry without a record
        self.stopped: int | None = None  # index of an entry at which this get must end


class _RecordScan:
    """The records examined by one get."""

    def __init__(
        self, log: CommitLog, blocks: LogBlocks, selection: Selection, entries: bytes, match: PropertiesFilter
    ) -> None:
        self._lowest, self._highest, self._blocks = log.min_offset, log.end, blocks
        self._selection, self._entries, self._match = selection, entries, match
        self._match_slice: Callable[[Sequence[bytes]], Sequence[int]] | None = getattr(match, "match_slice", None)
        self._block, self._bytes, self._examined = Block(0, 0, b""), 0, 0
        self.found: list[tuple[int, bytes, int]] = []
        self.missed = -1  # index of the last entry without a record

    def at(self, indexes: Sequence[int], first: int, *, alone: bool) -> int | None:
        """Filter the records of the entries at *indexes*; the entry at index 0 has queue offset *first*.

        Returns:
            None if all were examined, else the index at which to continue: the selection is full, or the record is on
                disk.
        """
        selection, done = self._selection, 0
        while done < len(indexes):
            log_offset, _, _ = ENTRY.unpack_from(self._entries, indexes[done] * ENTRY_BYTES)
            room = selection.room(log_offset)
            most = room * max(self._examined, 1) // max(selection.count, 1)
            part = self._slice(indexes[done : done + max(most, 1)], alone=alone)
            matching, evaluated = self._matching(part.texts)
            for each in matching:
                index, log_offset, size, data, position = part.records[each]
                if selection.full(log_offset, size):
                    return index
                if selection.add(log_offset, size):
                    self.found.append((log_offset, data[position : position + size], first + index))
            if evaluated < len(part.texts):
                index = part.records[evaluated][0]
                if not index:
                    raise FilterBudgetExceeded("the filter postpones the first entry")
                return index
            self.missed = max(self.missed, part.missed)
            if part.stopped is not None:
                return part.stopped
            done += part.length
            self._examined += part.length
        return None

    def _matching(self, texts: Sequence[bytes]) -> tuple[Sequence[int], int]:
        """Return the indexes of the *texts* that match, and how many were evaluated before the filter's time was up."""
        found: list[int] = []
        index = 0
        try:
            if self._match_slice is not None:
                return (self._match_slice(texts) if texts else found), len(texts)
            for index, text in enumerate(texts):
                if self._match.match_properties(text):
                    found.append(index)
        except FilterBudgetExceeded:
            return found, index
        return found, len(texts)

    def _slice(self, indexes: Sequence[int], *, alone: bool) -> _Slice:
        """Cut out the properties of the records at *indexes* that may match, at most about `SLICE_BYTES` of records."""
        lowest, highest, needles = self._lowest, self._highest, self._match.needles
        (begin, end, data), head_of = self._block, _HEAD.unpack_from
        part, total = _Slice(len(indexes)), self._bytes
        add_text, add_record = part.texts.append, part.records.append
        most = total + SLICE_BYTES
        entries = map(ENTRY.unpack_from, repeat(self._entries), [index * ENTRY_BYTES for index in indexes])
        for index, (log_offset, size, _) in zip(indexes, entries, strict=False):
            if total > MOST_BYTES:
                part.stopped = index
                break
            if total > most:
                part.length = bisect_left(indexes, index)
                break
            record_end = log_offset + size
            if not lowest <= log_offset < record_end <= highest or (not log_offset and is_pre_blank(log_offset, size)):
                part.missed = index
                continue
            if log_offset < begin or record_end > end:
                block = self._blocks.holding(log_offset, record_end, alone=alone)
                if block is None:
                    part.stopped = index
                    break
                self._block = block
                begin, end, data = block
            total += size
            position, record_end = log_offset - begin, record_end - begin
            start = 0  # of the properties
            magic, flags, body_bytes = head_of(data, position) if size >= MIN_RECORD_BYTES else _NO_HEAD
            topic_at = position + _BODY_AT + body_bytes
            if magic == MAGIC_V1 and not flags & _HOST_BITS and body_bytes >= 0 and topic_at < record_end:
                start = topic_at + 3 + data[topic_at]
                if start > record_end or start + (data[start - 2] << 8 | data[start - 1]) != record_end:
                    start = 0
            if not start:
                text = _unusual_properties(data, position, size)
                if text is None:
                    part.missed = index
                    continue
                if needles and not _holds_one(text, needles, 0, len(text)):
                    continue
            elif needles and not _holds_one(data, needles, start, record_end):
                continue
            else:
                text = data[start:record_end]
            add_text(text)
            add_record((index, log_offset, size, data, position))
        self._bytes = total
        return part


@lru_cache(maxsize=64)
def _places(count: int) -> struct.Struct:
    """Return the struct that unpacks log offset and size of each of *count* packed entries."""
    return struct.Struct(">" + "qi8x" * count)


def _in_one_turn(entries: bytes) -> int:
    """Return how many of packed *entries* have `MOST_BYTES` of records, at least one."""
    count = len(entries) // ENTRY_BYTES
    first, *_ = ENTRY.unpack_from(entries)
    last, size, _ = ENTRY.unpack_from(entries, len(entries) - ENTRY_BYTES)
    if 0 <= last - first <= MOST_BYTES - size:
        return count
    sizes = accumulate(_places(count).unpack(entries)[1::2])
    return max(1, bisect_right(list(sizes), MOST_BYTES))


def _far_apart(entries: bytes, indexes: Sequence[int]) -> bool:
    """Return whether blocks of the log would contain few of the records at *indexes* of *entries*."""
    count = len(indexes)
    if count <= _FEW:
        return True
    first, size, _ = ENTRY.unpack_from(entries, indexes[0] * ENTRY_BYTES)
    last, last_size, _ = ENTRY.unpack_from(entries, indexes[-1] * ENTRY_BYTES)
    return bool(last - first > MOST_SPREAD * count * (size + last_size) // 2)


def load_records(log: CommitLog, entries: bytes, passing: bytes) -> None:
    """Read the records of *entries*, as many as one get examines, into memory. Runs in a thread.

    Entries that are not *passing*, see `MessageScan.take`, are left out.
    """
    end, left = 0, MOST_BYTES
    for log_offset, size, _ in compress(ENTRY.iter_unpack(entries), passing):
        file = log.find(log_offset) if log_offset + size > end else None
        if file is not None:
            begin, end = max(end, log_offset), min(log_offset + max(size, BLOCK_BYTES), file.end)
            left -= len(file.pread(begin, end))
            if left < 0:
                return


def _holds_one(data: bytes, needles: tuple[bytes, ...], start: int, end: int) -> bool:
    for needle in needles:  # noqa: SIM110 (a generator takes twice as long)
        if data.find(needle, start, end) >= 0:
            return True
    return False


def _values_in(data: bytes, mark: bytes, start: int, stop: int) -> tuple[set[bytes], bytes]:
    """Return the value after *mark* in the record at *start*; a body may look as if it had the property.

    Also return the rest of the record from the property on: any record that ends so has the same value. It is empty if
    the property is the first one, or absent.
    """
    at = data.rfind(mark, max(start, stop - _MOST_PROPERTIES), stop)
    if at > start and data[at - 1] == _SEPARATOR:
        value = _value_at(data, at + len(mark), stop)
        if value:  # the last pair that is not empty counts
            return {value}, data[at - 1 : stop]
    text = _properties_in(data, start, stop) if at >= 0 else None
    if text is None:  # no property, or no record
        return set(), b""
    later = text.rfind(b"\x02" + mark)
    while later >= 0:
        value = _value_at(text, later + 1 + len(mark), len(text))
        if value:
            return {value}, b""
        later = text.rfind(b"\x02" + mark, 0, later)
    return {_value_at(text, len(mark), len(text))} if text.startswith(mark) else set(), b""


def _properties_in(data: bytes, start: int, stop: int) -> bytes | None:
    """Return the properties of the record at *start*, None if there is no record."""
    magic, flags, body_bytes = _HEAD.unpack_from(data, start)
    topic_at = start + _BODY_AT + body_bytes
    if magic == MAGIC_V1 and not flags & _HOST_BITS and body_bytes >= 0 and topic_at < stop:
        begin = topic_at + 3 + data[topic_at]
        if begin <= stop and begin + (data[begin - 2] << 8 | data[begin - 1]) == stop:
            return data[begin:stop]
    return _unusual_properties(data, start, stop - start)


def _value_at(data: bytes, start: int, stop: int) -> bytes:
    end = data.find(b"\x02", start, stop)
    return data[start : end if end >= 0 else stop]


def _unusual_properties(data: bytes, position: int, size: int) -> bytes | None:
    """Return the properties of a record of any layout at *position*, None if there is no record."""
    if size < MIN_RECORD_BYTES:
        return None
    try:
        return bytes(read_record(data, position).properties_bytes)
    except FormatError:
        return None
