"""Rebuilds queue entries that are missing or wrong because a file is gone, zeroed, truncated or garbage.

    file      |--- whole ---|--- hole ------|--- whole ---|
    entries   ........ last | low ..... high| first .......
    log       ............ [from ........ to) ............      only this part is read, for all holes together

At startup the edges of each file are checked: the first and the last entry must exist, in log order. If they do not, or
if a reader meets an impossible entry, the edges are compared with the records they refer to; files whose edges do not
match are rebuilt as a whole. Files that retention deleted are not holes: the log has no records for them.

Entries are rebuilt with plain tags codes, also in queues with ext files; every reader accepts both.

Source of the requeuing rules: `recovery.replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import attrs

from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq.plugin.model import LIGHT_QUEUE_ID, is_light, light_queue_offsets
from gantrymq.plugin.sys_flag import TRANSACTION_PREPARED
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.source import CommitLogSource, entries_between
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES, pack_batch_entry, read_batch_entry
from gantrymq_store_files.blank import without_zeros
from gantrymq_store_files.log_source import check_offset
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK, is_pre_blank, read_entry

_MOST_NAMES = 10  # queues named in a sentence
_MOST_OUTSIDE = 1_000_000  # entries before the first file of a queue, or after its last
_PLACE_BYTES = 12  # log offset and size at the start of an entry
_READ_AT_ONCE = 256  # entries
MOST_BETWEEN = 16 * 1024**2  # bytes of the log that are read to rebuild a single entry

AnyQueue = ConsumeQueue | BatchQueue


@attrs.frozen(eq=False)
class RepairView:
    """Snapshot of a queue, created on the event loop for use in a thread."""

    queue: AnyQueue
    unit: int = attrs.field(init=False)  # bytes of an entry
    low: int = attrs.field(init=False)  # number of the first valid entry
    end: int = attrs.field(init=False)  # number after the newest entry
    per_file: int = attrs.field(init=False)  # entries per file
    read: Callable[[int, int], bytes] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        queue, put = self.queue, object.__setattr__
        batch = isinstance(queue, BatchQueue)
        put(self, "unit", BATCH_ENTRY_BYTES if batch else ENTRY_BYTES)
        put(self, "low", queue.first if isinstance(queue, BatchQueue) else queue.min_offset)
        put(self, "end", queue.end // self.unit)
        put(self, "per_file", self.per_file_of(queue))
        put(self, "read", queue.detached())

    @staticmethod
    def per_file_of(queue: AnyQueue) -> int:
        """Return how many entries a file of *queue* holds."""
        return queue.files.file_bytes // (BATCH_ENTRY_BYTES if isinstance(queue, BatchQueue) else ENTRY_BYTES)

    def entry(self, number: int, data: bytes | None = None) -> tuple[int, int, int, int] | None:
        """Return log offset, size, queue offset and messages of an entry; None if it was never written.

        If *data* is given, its last entry is used. For a pre-blank entry, which is before a queue's first message, log
        offset and size are 0.
        """
        data = self.read(number * self.unit, self.unit) if data is None else data[-self.unit :]
        if len(data) < self.unit:
            return None
        if self.unit == BATCH_ENTRY_BYTES:
            batch = read_batch_entry(data, 0)
            return None if batch is None else (batch.log_offset, batch.size, batch.base_offset, batch.messages)
        found = read_entry(data, 0)
        if found is None:
            return None
        return (0, 0, number, 0) if is_pre_blank(found[0], found[1]) else (found[0], found[1], number, 1)

    def read_all(self, number: int, count: int) -> bytes:
        """Return the entries of several files, zeros for missing ones."""
        found = bytearray()
        while len(found) < count * self.unit:
            at = number + len(found) // self.unit
            length = min(count * self.unit - len(found), (self.per_file - at % self.per_file) * self.unit)
            found += self.read(at * self.unit, length)[:length].ljust(length, b"\0")
        return bytes(found)

    def files(self) -> list[tuple[int, int]]:
        """Return the range ``[first, end)`` of entry numbers in each file."""
        per_file = self.per_file
        starts = range(self.low - self.low % per_file, self.end, per_file) if self.low < self.end else range(0)
        return [(max(start, self.low), min(start + per_file, self.end)) for start in starts]

    def edges(self, first: int, end: int) -> Iterator[tuple[int, int, int, int] | None]:
        """Yield the first and the last entry of ``[first, end)``, which are in one file."""
        if end - first <= _READ_AT_ONCE:
            data = self.read(first * self.unit, (end - first) * self.unit).ljust((end - first) * self.unit, b"\0")
            yield self.entry(first, data[: self.unit])
            yield self.entry(end - 1, data)
        else:
            yield self.entry(first)
            yield self.entry(end - 1)


@attrs.frozen(eq=False)
class QueueHole:
    """Entries ``[low, high)`` of a queue to rebuild from the records of ``[log_from, log_to)``."""

    view: RepairView
    low: int
    high: int
    log_from: int
    log_to: int
    front: bool = False  # the queue has nothing before it
    open: bool = False  # its end is unknown; *high* is far after the newest entry


@attrs.frozen(eq=False)
class RebuiltEntries:
    """Entries of a hole rebuilt from the log."""

    hole: QueueHole
    first: int  # number of the first of *entries*
    entries: bytes
    count: int  # entries with a record
    lost: int  # entries without a record, after others that have one

    @property
    def begin(self) -> int:
        """Number of the first valid entry."""
        return self.hole.high - self.count - self.lost if self.hole.front else self.first

    def already_listed(self) -> bool:
        """Return whether the files already refer to every record of the hole; then it is the log that lost records."""
        view, unit, skipped = self.hole.view, self.hole.view.unit, self.begin - self.first
        stored = view.read_all(self.first + skipped, len(self.entries) // unit - skipped)
        pairs = zip(_split(self.entries[skipped * unit :], unit), _split(stored, unit), strict=False)
        # Of entries that repeat each other, only one refers to its own record, see `recovery.requeue`.
        return all(any(a == b for a, b in run) for _, run in groupby(pairs, key=itemgetter(0)))

    def write(self) -> None:
        """Write the entries into their files. Runs on the event loop; takes 1 ms for 50,000.

        Raises:
            OSError: the disk is full or failed.
        """
        view, queue, position = self.hole.view, self.hole.view.queue, self.first * self.hole.view.unit
        if isinstance(queue, ConsumeQueue):
            queue.rebuilt()
        data = self.entries[: max(0, queue.written - position)]
        if self.hole.open:
            queue.append(self.entries)
            if isinstance(queue, BatchQueue) and (last := view.entry(0, self.entries)) is not None:
                queue.max_offset = last[2] + last[3]
            queue.next_offset = queue.warm_offset = queue.max_offset
            return
        file_bytes = queue.files.file_bytes
        for start in range(position - position % file_bytes, position + len(data), file_bytes):
            queue.files.forget_file(queue, start)  # an open file may have been deleted
        if data:
            queue.write(position, data)
            if position + len(data) == queue.written:
                self._zero_rest(queue)
        if self.hole.front:
            low = self.begin
            if isinstance(queue, BatchQueue):
                queue.begin_at(low if queue.first == view.low else max(low, queue.first))
            else:
                queue.min_offset = low if queue.min_offset == view.low else max(low, queue.min_offset)
                queue.oldest = -1

    @staticmethod
    def _zero_rest(queue: AnyQueue) -> None:
        """Zero everything after the newest entry of a file."""
        at = queue.written % queue.files.file_bytes
        file = queue.files.existing(queue, queue.written - at) if at else None
        if file is not None and (rest := without_zeros(file.pread(queue.files.file_bytes - at, at))):
            queue.files.write(queue, queue.written - at, bytes(len(rest)), at)


@attrs.frozen(eq=False)
class QueueRepair:
    """Finds holes and rebuilds their entries. The methods are for any thread, and write nothing."""

    _log: CommitLog
    _dropped: DroppedTopics  # records of deleted topics
    _delay_levels_ms: Sequence[int]

    def is_consistent(self, view: RepairView, log_end: int) -> bool:
        """Return whether the edges of the files are valid and in order. Budget: 12 us per file."""
        previous = 0
        for first, end in view.files():
            for entry in view.edges(first, end):
                if entry is None or entry[0] < previous or entry[0] + entry[1] > log_end:
                    return False
                previous = entry[0]
        return True

    def holes(self, view: RepairView, log_end: int) -> list[QueueHole]:
        """Return the holes of a queue: the files whose edges do not refer to their records."""
        source = CommitLogSource(self._log)
        wrong = [
            index
            for index, (first, end) in enumerate(view.files())
            if not (self._holds(view, first, source, log_end) and self._holds(view, end - 1, source, log_end))
        ]
        found: list[QueueHole] = []
        while wrong:
            count = next((n for n in range(1, len(wrong)) if wrong[n] != wrong[0] + n), len(wrong))
            found.append(self._hole(view, wrong[0], wrong[count - 1], log_end))
            del wrong[:count]
        return found

    def hole_at(self, view: RepairView, number: int, log_end: int) -> list[QueueHole]:
        """Return the hole around an entry that a reader found wrong, if there is one."""
        source, files = CommitLogSource(self._log), view.files()
        low = high = number // view.per_file - view.low // view.per_file
        if not 0 <= low < len(files):
            return []
        while low > 0 and not self._holds(view, files[low][0] - 1, source, log_end):
            low -= 1
        while high < len(files) - 1 and not self._holds(view, files[high][1], source, log_end):
            high += 1
        return [self._hole(view, low, high, log_end)]

    def is_alone(self, view: RepairView, number: int, log_end: int) -> bool:
        """Return whether the entries before and after *number* are right."""
        source = CommitLogSource(self._log)
        beside = [each for each in (number - 1, number + 1) if view.low <= each < view.end]
        return view.low <= number < view.end and all(self._holds(view, each, source, log_end) for each in beside)

    def hole_of_one(self, view: RepairView, number: int, log_end: int) -> list[QueueHole]:
        """Return the hole of an entry that `is_alone`, with its neighbours; none if much of the log is between them."""
        before = view.entry(number - 1) if number > view.low else None
        following = view.entry(number + 1) if number + 1 < view.end else None
        if before is not None and (not before[1] or before[0] < self._log.min_offset):  # it has no record in the log
            before = None
        low, log_from = (number, self._log.min_offset) if before is None else (number - 1, before[0])
        high, log_to = (number + 1, log_end) if following is None else (number + 2, following[0] + following[1])
        return [QueueHole(view, low, high, log_from, log_to)] if log_to - log_from <= MOST_BETWEEN else []

    def _hole(self, view: RepairView, first_file: int, last_file: int, log_end: int) -> QueueHole:
        files = view.files()
        low, high = files[first_file][0], files[last_file][1]
        before = view.entry(low - 1) if first_file else None
        following = view.entry(high) if high < view.end else None
        log_from = self._log.min_offset if before is None else before[0] + before[1]
        return QueueHole(
            view, low, high, log_from, log_end if following is None else following[0], front=not first_file
        )

    def holes_outside_files(self, view: RepairView, log_end: int) -> list[QueueHole]:
        """Return holes before the first file and after the last entry, if no checkpoint gives the queue's bounds.

        The first file may be missing if the log begins before the remaining entries; the last file may be missing if
        the newest entry is the last of its file, or the last file is empty.
        """
        found, queue = [], view.queue
        if view.low >= view.end:
            return []
        first, last = view.entry(view.low), view.entry(view.end - 1)
        if view.low and not view.low % view.per_file and first is not None and first[0] > self._log.min_offset:
            low = max(0, view.low - _MOST_OUTSIDE)
            found.append(QueueHole(view, low, view.low, self._log.min_offset, first[0], front=True))
        doubtful = not view.end % view.per_file or any(start >= queue.end for start in queue.starts())
        if last is not None and last[1] and doubtful and not queue.unwritten:
            high = view.end + _MOST_OUTSIDE
            found.append(QueueHole(view, view.end, high, last[0] + last[1], log_end, open=True))
        return found

    def _holds(self, view: RepairView, number: int, source: CommitLogSource, log_end: int) -> bool:
        """Return whether an entry refers to a record with its queue offset, or to one that has left the log."""
        entry, queue = view.entry(number), view.queue
        if entry is None or entry[0] + entry[1] > log_end:
            return False
        if not entry[1]:
            first = view.entry(view.low)
            return first is not None and not first[1]
        if entry[0] < self._log.min_offset:
            return True
        found = check_offset(source, entry[0], check_crc=False)
        record = found.record
        if record is None or found.size != entry[1]:
            return False
        place = queue.topic, queue.queue_id, entry[2]
        if place == (record.topic, record.queue_id, record.queue_offset):
            return True
        return is_light(queue.topic) and (queue.topic, entry[2]) in light_queue_offsets(record.topic, record.properties)

    # --- making -----------------------------------------------------------------------------------------------------

    def make(
        self, holes: Sequence[QueueHole], progress: Callable[[int], object] = lambda log_offset: None
    ) -> list[RebuiltEntries]:
        """Read the log ranges of the holes, and rebuild their entries.

        Raises:
            OSError: the disk failed.
        """
        by_name: dict[tuple[str, int], list[_EntryBuilder]] = {}
        making = [_EntryBuilder(hole) for hole in holes]
        for each in making:
            queue = each.hole.view.queue
            by_name.setdefault((queue.topic, queue.queue_id), []).append(each)
        light = any(queue_id == LIGHT_QUEUE_ID for _, queue_id in by_name)
        for start, end in _joined(holes):
            for count, entry in enumerate(entries_between(self._log, start, end, self._delay_levels_ms)):
                if not count % 1024:
                    progress(entry.log_offset)
                if not entry.sys_flag & TRANSACTION_PREPARED and not self._dropped.holds(entry.topic, entry.log_offset):
                    for each in by_name.get((entry.topic, entry.queue_id), ()):
                        each.process(entry, entry.queue_offset)
                if light and b"INNER_" in entry.properties:
                    for name, queue_offset in entry.light_queue_offsets:
                        for each in by_name.get((name, LIGHT_QUEUE_ID), ()):
                            if not self._dropped.holds(name, entry.log_offset):
                                each.process(entry, queue_offset)
        return [each.made() for each in making]


def _split(entries: bytes, unit: int) -> Iterator[bytes]:
    """Yield packed log offset and size of each entry, without tags codes, which may be addresses of ext units."""
    return (entries[at : at + _PLACE_BYTES] for at in range(0, len(entries), unit))


def repair_summary(made: Sequence[RebuiltEntries]) -> str | None:
    """Return a sentence about rebuilt entries; None if there were none."""
    made = [each for each in made if each.count or each.lost]
    if not made:
        return None
    names = sorted({f"{each.hole.view.queue.topic}/{each.hole.view.queue.queue_id}" for each in made})
    named = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    count, lost = sum(each.count for each in made), sum(each.lost for each in made)
    missing = f"; {lost} message{'s are' if lost > 1 else ' is'} not in the log" if lost else ""
    return (
        f"files of consume queues were missing or wrong ({named}): {count} entries were rebuilt from the log{missing}"
    )


class _EntryBuilder:
    """Collects the entries of one hole from the log's records."""

    def __init__(self, hole: QueueHole) -> None:
        self.hole = hole
        self._base = -1  # number of the first entry, -1 before it
        self._data = bytearray()
        self._lost = 0

    def process(self, entry: DispatchEntry, queue_offset: int) -> None:
        """Process a record of the queue."""
        hole, data = self.hole, self._data
        if not hole.log_from <= entry.log_offset < hole.log_to:
            return
        if isinstance(hole.view.queue, BatchQueue):
            place, size, code = entry.log_offset, entry.size, entry.tags_code
            data += pack_batch_entry(place, size, code, entry.store_timestamp, queue_offset, entry.messages)
            return
        if not hole.low <= queue_offset < hole.high:
            return
        packed = ENTRY.pack(entry.log_offset, entry.size, entry.tags_code)
        if self._base < 0 or queue_offset < self._base:
            self._base = queue_offset
            data.clear()
        gap = queue_offset - self._base - len(data) // ENTRY_BYTES
        if gap < 0:  # a deleted topic was recreated
            del data[(queue_offset - self._base) * ENTRY_BYTES :]
        self._lost += max(gap, 0)
        data += packed * (max(gap, 0) + 1)

    def made(self) -> RebuiltEntries:
        """Return the rebuilt entries."""
        hole, unit = self.hole, self.hole.view.unit
        count = len(self._data) // unit
        if hole.open:
            gap = bytes(self._data[:unit]) * (self._base - hole.low if self._base >= 0 else 0)
            return RebuiltEntries(hole, hole.low, gap + self._data, count - self._lost, self._lost + len(gap) // unit)
        want = hole.high - hole.low
        if isinstance(hole.view.queue, BatchQueue):
            data = bytes(self._data[-want * unit :]) if want else b""
            count = len(data) // unit
            if hole.front:
                return RebuiltEntries(hole, hole.high - count, data, count, 0)
            if not count:
                return self._result_without_records(want)
            return RebuiltEntries(hole, hole.low, data[:unit] * (want - count) + data, count, want - count)
        if not count:
            return self._result_without_records(want)
        head, tail = self._base - hole.low, hole.high - self._base - count
        data, lost = bytes(self._data) + bytes(self._data[-unit:]) * tail, self._lost + tail
        if not hole.front:
            return RebuiltEntries(hole, hole.low, data[:unit] * head + data, count - self._lost, lost + head)
        file_first = self._base - self._base % hole.view.per_file  # RocketMQ reads a file from its start
        return RebuiltEntries(hole, file_first, PRE_BLANK * (self._base - file_first) + data, count - self._lost, lost)

    def _result_without_records(self, want: int) -> RebuiltEntries:
        """Return the result without any record: copies of an adjacent entry, which readers skip."""
        hole, view = self.hole, self.hole.view
        if hole.front:
            return RebuiltEntries(hole, hole.high, b"", 0, 0)
        beside = view.read((hole.low - 1) * view.unit, view.unit)
        return RebuiltEntries(hole, hole.low, beside * want, 0, want)


def _joined(holes: Sequence[QueueHole]) -> Iterator[tuple[int, int]]:
    """Yield the disjoint log ranges that the holes need, in order."""
    start = end = -1
    for low, high in sorted((hole.log_from, hole.log_to) for hole in holes):
        if low > end:
            if end > start:
                yield start, end
            start, end = low, high
        end = max(end, high)
    if end > start:
        yield start, end
