"""Reading a queue: selects the records that one pull returns, and the offset of the next pull.

The rules are RocketMQ's, including limits and statuses; the next offset moves past an entry before any filter is
called, so a pull whose messages were all filtered out still advances. Adjacent records of the log are returned as one
buffer without being decoded. Older data is read on the event loop if the system has it in memory (`log_blocks`, or
record by record), else in a thread; in both cases it is checked (`read_check`).

Source: apache/rocketmq store/.../DefaultMessageStore.java (getMessage, isTheBatchFull, checkInMemByCommitOffset).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import cast

import attrs

from gantrymq.errors import FilterBudgetExceeded
from gantrymq.plugin.interfaces import (
    Candidates,
    GetLimit,
    GetResult,
    GetStatus,
    MessageFilter,
    PropertiesFilter,
    SkippingFilter,
)
from gantrymq.plugin.model import Queue
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.reading.cold_record import NotInMemory
from gantrymq_storage_mmap.reading.entry_repair import EntryRepairer, impossible
from gantrymq_storage_mmap.reading.log_blocks import LogBlocks
from gantrymq_storage_mmap.reading.message_scan import MessageScan, load_records
from gantrymq_storage_mmap.reading.read_ahead import ReadAhead
from gantrymq_storage_mmap.reading.read_check import (
    DamagedRecords,
    ExpectedRecord,
    expected_records,
    read_each,
    read_runs,
    sound_pieces,
)
from gantrymq_storage_mmap.reading.selection import MAX_EXAMINED, Selection, outside
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.check import verified_queue_offset
from gantrymq_store_files.ext_unit import ExtUnit
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, is_ext_address

Units = Mapping[int, ExtUnit]
_NO_UNITS: Units = {}


@attrs.frozen(eq=False)
class QueueReader:
    """Serves gets from one log. Nothing is read before the first `get`."""

    _log: CommitLog
    _workers: BoundedWorkers
    _options: Options
    _ahead: ReadAhead  # is informed of each cold get
    _damaged: DamagedRecords  # counts and logs refused records
    _blocks: LogBlocks
    _scan: MessageScan
    _entry_repairer: EntryRepairer

    def get(
        self, queue: ConsumeQueue | None, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult | Awaitable[GetResult]:
        """Read *queue* from *queue_offset*.

        Budget: 5 us and 0.4 us a message if the data is hot and not filtered (`bench_store.py`).
        """
        if queue is None:
            return outside(queue_offset, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if not low <= queue_offset < high:
            return outside(queue_offset, low, high)
        filters = match is not None and not match.accepts_all
        if filters and hasattr(match, "needles"):
            return self._by_properties(queue, queue_offset, limit, cast(PropertiesFilter, match))
        wanted = self._entries_wanted(queue_offset, high, limit, filters)
        if not filters:
            match = None
        warm = queue_offset >= queue.warm_offset
        position, length = queue_offset * ENTRY_BYTES, wanted * ENTRY_BYTES
        data = queue.read(position, length) if warm else queue.read_cached(position, length)
        if data is None:
            return self._cold(queue, queue_offset, wanted, limit, match)
        if filters or len(data) < ENTRY_BYTES:
            wrong = self._wrong(queue, queue_offset, data, filters)
            if wrong is not None:
                return self._again(queue, [wrong], queue_offset, limit, match)
            if len(data) < ENTRY_BYTES:
                return self._no_entries(queue, queue_offset)
        if not warm and match is not None and queue.ext is not None:  # its units may be on the disk only
            return self._cold(queue, queue_offset, wanted, limit, match)
        hot = warm and ENTRY.unpack_from(data)[0] >= self._log.hot_offset  # written since the start
        if not hot and match is not None and match.needs_message:
            return self._cold(queue, queue_offset, wanted, limit, match)
        selection = Selection(self._log, self._options, queue_offset, limit)
        if match is None:
            selection.take_all(data)
            if selection.wrong and (wrong := self._wrong(queue, queue_offset, data, True)) is not None:
                return self._again(queue, [wrong], queue_offset, limit, match)
        else:
            self._filter(selection, data, match, queue.ext.units(data) if queue.ext is not None else _NO_UNITS)
        if hot:
            return selection.result(low, high, self._blocks.hot(selection.runs, selection.size))
        taken, topic = selection.next_offset - queue_offset, queue.topic.encode()
        if match is None and taken == selection.count:  # one record per entry
            whole = self._blocks.take(data[: taken * ENTRY_BYTES], queue_offset, topic, selection.size)
            if whole is not None:
                self._ahead.follow(queue, queue_offset, selection.next_offset, cached=True)
                return selection.result(low, high, [whole], cold=True)
        records = expected_records(queue_offset, data, taken)
        try:
            pieces, count, damaged = read_runs(self._log, selection.runs, records, topic, cached=True)
        except NotInMemory:
            return self._cold_records(queue, queue_offset, selection, data, records, limit, match)
        if doubtful := self._doubtful(queue, queue_offset, data, damaged):
            return self._again(queue, doubtful, queue_offset, limit, match, certain=False)
        self._settle(selection, pieces, count, damaged)
        self._ahead.follow(queue, queue_offset, selection.next_offset, cached=True)
        return selection.result(low, high, pieces, cold=True)

    # --- entries that are wrong ---------------------------------------------------------------------------------------

    def _wrong(self, queue: ConsumeQueue, queue_offset: int, data: bytes, look: bool) -> int | None:
        """Return the queue offset of an entry in *data* that has to be rebuilt; None if there is none.

        Also None if rebuilding was tried before. Entries in memory are always right. With *look*, entries from files
        are checked; without, only empty *data* is wrong.
        """
        index = 0
        if len(data) >= ENTRY_BYTES:
            if not look or queue_offset * ENTRY_BYTES >= queue.tail_start:
                return None
            found = impossible(data, self._log.end)
            if found is None:
                return None
            index = found
        return queue_offset + index if self._entry_repairer.can_repair(queue, queue_offset + index) else None

    def _doubtful(
        self, queue: ConsumeQueue, queue_offset: int, data: bytes, damaged: Sequence[tuple[int, str]]
    ) -> list[int]:
        """Return the queue offsets of entries whose records were refused: the entries themselves may be wrong."""
        if not damaged:
            return []
        refused, can_repair = {log_offset for log_offset, _ in damaged}, self._entry_repairer.can_repair
        numbers = enumerate(ENTRY.iter_unpack(data), queue_offset)
        found = [number for number, (log_offset, _, _) in numbers if log_offset in refused]
        return [number for number in found if can_repair(queue, number, certain=False)]

    async def _again(
        self,
        queue: ConsumeQueue,
        wrong: Sequence[int],
        queue_offset: int,
        limit: GetLimit,
        match: MessageFilter | None,
        *,
        certain: bool = True,
    ) -> GetResult:
        """Rebuild the entries around each of *wrong* and repeat the get."""
        for number in wrong:
            await self._entry_repairer.repair(queue, number, certain=certain)
        found = self.get(queue, queue_offset, limit, match)
        return found if isinstance(found, GetResult) else await found

    def _entries_wanted(self, queue_offset: int, high: int, limit: GetLimit, filters: bool) -> int:
        """Return how many entries to examine; without filter one more than may be returned, see `Selection`."""
        if filters:
            wanted = max(self._options.scan_bytes, min(limit.max_count, MAX_EXAMINED) * ENTRY_BYTES) // ENTRY_BYTES
        else:
            most = max(self._options.memory_limit_count, self._options.disk_limit_count)
            wanted = max(1, min(limit.max_count, most)) + 1
        return min(wanted, high - queue_offset)

    def _no_entries(self, queue: ConsumeQueue, queue_offset: int) -> GetResult:
        """Return the result if the entry's file is missing and could not be rebuilt: continue in the next file."""
        per_file = self._options.queue_file_bytes // ENTRY_BYTES
        next_offset = min(queue_offset - queue_offset % per_file + per_file, queue.max_offset)
        return GetResult(GetStatus.OFFSET_FOUND_NULL, next_offset, queue.min_offset, queue.max_offset)

    def _filter(self, selection: Selection, entries: bytes, match: MessageFilter, units: Units) -> None:
        needs_message = match.needs_message
        try:
            for log_offset, size, tags_code in ENTRY.iter_unpack(entries):
                if selection.full(log_offset, size):
                    break
                selection.next_offset += 1
                if not _fits(match, tags_code, units):
                    selection.skipped()
                elif not selection.present(log_offset, size):
                    selection.missed()
                elif not needs_message:
                    selection.add(log_offset, size)
                else:
                    (data,) = self._log.read_hot([(log_offset, log_offset + size)])
                    selection.add_matching(log_offset, size, data, match)
        except FilterBudgetExceeded:
            selection.next_offset -= 1

    def _by_properties(
        self, queue: ConsumeQueue, queue_offset: int, limit: GetLimit, match: PropertiesFilter
    ) -> GetResult | Awaitable[GetResult]:
        """Like `get`, from the first message that may match on; data in memory is scanned at once."""
        part, high = None, queue.max_offset
        if hasattr(match, "candidates"):
            name = Queue(queue.topic, queue.queue_id)
            part = cast(SkippingFilter, match).candidates(name, queue.version, queue_offset, high)
            queue_offset = part.begin
            if queue_offset >= high:
                return GetResult(GetStatus.NO_MATCHED_MESSAGE, high, queue.min_offset, high)
        wanted = self._entries_wanted(queue_offset, high if part is None else part.end, limit, filters=True)
        position, length = queue_offset * ENTRY_BYTES, wanted * ENTRY_BYTES
        warm = queue_offset >= queue.warm_offset
        data = queue.read(position, length) if warm else queue.read_cached(position, length)
        if data is not None and (wrong := self._wrong(queue, queue_offset, data, True)) is not None:
            return self._again(queue, [wrong], queue_offset, limit, match)
        if data is not None and len(data) < ENTRY_BYTES:
            return self._no_entries(queue, queue_offset)
        passing, found = None, None
        if data is not None:
            passing = _first_stage(queue, data, match)
        if data is not None and passing is not None:
            found = self._scanned(queue, queue_offset, part, data, passing, limit, match)
        return found or self._cold_by_properties(queue, queue_offset, part, wanted, passing, limit, match)

    def _scanned(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        part: Candidates | None,
        data: bytes,
        passing: bytes,
        limit: GetLimit,
        match: PropertiesFilter,
    ) -> GetResult | None:
        """Apply a property filter to entries *data*; None if the first of their records is not in memory."""
        selection = Selection(self._log, self._options, queue_offset, limit)
        try:
            part = part if part is not None and part.version == queue.version else None
            found = self._scan.take(selection, data, match, passing, part)
        except FilterBudgetExceeded:
            return GetResult(GetStatus.NO_MATCHED_MESSAGE, queue_offset, queue.min_offset, queue.max_offset)
        if selection.next_offset == queue_offset:
            return None
        hot_offset, topic = self._log.hot_offset, queue.topic.encode()
        buffers: list[bytes | memoryview] = []
        damaged: list[tuple[int, str]] = []
        count = 0
        records: dict[int, ExpectedRecord] = {}
        for log_offset, piece, at in found:
            plain = log_offset >= hot_offset or verified_queue_offset(piece, 0, log_offset, len(piece), topic) == at
            if not plain:
                records = records or expected_records(queue_offset, data, len(data) // ENTRY_BYTES)
                sound, sound_count, broken = sound_pieces(log_offset, piece, records, topic)
                buffers += sound
                count += sound_count
                damaged += broken
            else:
                buffers.append(piece)
                count += 1
        cold = ENTRY.unpack_from(data)[0] < hot_offset
        self._settle(selection, buffers, count, damaged)
        self._ahead.follow(queue, queue_offset, selection.next_offset, cached=True)
        return selection.result(queue.min_offset, queue.max_offset, buffers, cold=cold)

    # --- cold -------------------------------------------------------------------------------------------------------

    async def _cold(
        self, queue: ConsumeQueue, queue_offset: int, wanted: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult:
        """Read entries and then records in a thread; filters run on the event loop."""
        workers, topic = self._workers, queue.topic.encode()
        with workers.reading(f"queue {queue.topic}/{queue.queue_id} cannot be read at {queue_offset}"):
            from_files, tail = queue.split(queue_offset * ENTRY_BYTES, wanted * ENTRY_BYTES)
            data, units = await workers.run(_read_entries, queue, queue_offset, from_files, tail, match is not None)
            if (wrong := self._wrong(queue, queue_offset, data, True)) is not None:
                return await self._again(queue, [wrong], queue_offset, limit, match)
            selection = Selection(self._log, self._options, queue_offset, limit)
            if len(data) < ENTRY_BYTES:
                result = self._no_entries(queue, queue_offset)
            elif match is not None and match.needs_message:
                result = await self._filter_cold(queue, selection, data, match, units)
            else:
                if match is None:
                    selection.take_all(data)
                else:
                    self._filter(selection, data, match, units)
                records = expected_records(queue_offset, data, selection.next_offset - queue_offset)
                pieces, count, damaged = await workers.run(read_runs, self._log, selection.runs, records, topic)
                if doubtful := self._doubtful(queue, queue_offset, data, damaged):
                    return await self._again(queue, doubtful, queue_offset, limit, match, certain=False)
                self._settle(selection, pieces, count, damaged)
                result = selection.result(queue.min_offset, queue.max_offset, pieces, cold=True)
        self._ahead.follow(queue, queue_offset, result.next_offset, cached=False)
        return result

    async def _cold_records(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        selection: Selection,
        data: bytes,
        records: dict[int, ExpectedRecord],
        limit: GetLimit,
        match: MessageFilter | None,
    ) -> GetResult:
        """Read the selected records in a thread, without calling the filters again."""
        workers = self._workers
        with workers.reading(f"queue {queue.topic}/{queue.queue_id} cannot be read at {queue_offset}"):
            pieces, count, damaged = await workers.run(
                read_runs, self._log, selection.runs, records, queue.topic.encode()
            )
        if doubtful := self._doubtful(queue, queue_offset, data, damaged):
            return await self._again(queue, doubtful, queue_offset, limit, match, certain=False)
        self._settle(selection, pieces, count, damaged)
        self._ahead.follow(queue, queue_offset, selection.next_offset, cached=False)
        return selection.result(queue.min_offset, queue.max_offset, pieces, cold=True)

    async def _cold_by_properties(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        part: Candidates | None,
        wanted: int,
        passing: bytes | None,
        limit: GetLimit,
        match: PropertiesFilter,
    ) -> GetResult:
        """Load the data of a get in a thread, then scan it; use `_cold` if it is not in memory afterwards."""
        workers = self._workers
        with workers.reading(f"queue {queue.topic}/{queue.queue_id} cannot be read at {queue_offset}"):
            from_files, tail = queue.split(queue_offset * ENTRY_BYTES, wanted * ENTRY_BYTES)
            data, _ = await workers.run(_read_entries, queue, queue_offset, from_files, tail, True)
            if (wrong := self._wrong(queue, queue_offset, data, True)) is not None:
                return await self._again(queue, [wrong], queue_offset, limit, match)
            if len(data) >= ENTRY_BYTES:
                passing = passing or _first_stage(queue, data, match)
            if len(data) >= ENTRY_BYTES and passing is not None:
                await workers.run(load_records, self._log, data, passing)
                found = self._scanned(queue, queue_offset, part, data, passing, limit, match)
                if found is not None:
                    return found
        return await self._cold(queue, queue_offset, wanted, limit, match)

    def _settle(
        self,
        selection: Selection,
        pieces: Sequence[bytes | memoryview],
        count: int,
        damaged: Sequence[tuple[int, str]],
    ) -> None:
        """Leave out of *selection* what was read neither whole nor sound: *count* records in *pieces* remain."""
        for log_offset, problem in damaged:
            self._damaged.refuse(log_offset, problem)
        selection.settle(count, sum(map(len, pieces)))

    async def _filter_cold(
        self, queue: ConsumeQueue, selection: Selection, data: bytes, match: MessageFilter, units: Units
    ) -> GetResult:
        """Read the candidates of the first stage in groups of at most the size that may still be returned."""
        entries = list(ENTRY.iter_unpack(data))
        buffers: list[bytes | memoryview] = []
        begin, position, over = selection.next_offset, 0, False
        while position < len(entries) and not over and not selection.full(*entries[position][:2]):
            group = selection.split()
            chosen: list[tuple[int, int]] = []
            places: list[int] = []
            while position < len(entries):
                log_offset, size, tags_code = entries[position]
                if group.full(log_offset, size):
                    break
                try:
                    fits = _fits(match, tags_code, units)
                except FilterBudgetExceeded:
                    over = True
                    break
                if fits and group.present(log_offset, size):
                    group.add(log_offset, size)
                    chosen.append((log_offset, size))
                    places.append(position)
                elif fits:
                    selection.missed()
                else:
                    selection.skipped()
                position += 1
            selection.next_offset = begin + position
            wanted = expected_records(begin, data, position)
            pieces = await self._workers.run(read_each, self._log, chosen, wanted, queue.topic.encode())
            for (log_offset, size), place, (piece, problem) in zip(chosen, places, pieces, strict=True):
                try:
                    if problem is not None:
                        self._damaged.refuse(log_offset, problem)
                        selection.missed()
                    elif selection.add_matching(log_offset, size, piece, match):
                        buffers.append(piece)
                except FilterBudgetExceeded:
                    selection.next_offset = begin + place
                    over = True
                    break
        return selection.result(queue.min_offset, queue.max_offset, buffers, cold=True)


def _fits(match: MessageFilter, tags_code: int, units: Units) -> bool:
    """First filter stage: *tags_code* is the content of the entry; entries with a missing ext unit pass."""
    if not is_ext_address(tags_code):
        return match.match_entry(tags_code, None)
    unit = units.get(tags_code)
    return unit is None or match.match_entry(unit.tags_code, unit)


def _first_stage(queue: ConsumeQueue, entries: bytes, match: PropertiesFilter) -> bytes | None:
    """Like `ExtQueue.passing`, also for a queue without ext files."""
    return b"\1" * (len(entries) // ENTRY_BYTES) if queue.ext is None else queue.ext.passing(entries, match)


def _read_entries(
    queue: ConsumeQueue, queue_offset: int, length: int, tail: bytes, with_units: bool
) -> tuple[bytes, Units]:
    """Return packed entries and their ext units; *length* and *tail* come from `split`. Runs in a thread."""
    data = queue.read_files(queue_offset * ENTRY_BYTES, length, tail)
    if not with_units or queue.ext is None:
        return data, _NO_UNITS
    return data, queue.ext.units(data, detached=True)
