"""Reading a queue: which records one pull gets, and where the next one goes on.

The rules are RocketMQ's, limits and statuses included; the next offset moves past an entry before any filter is asked,
so a pull whose messages were all filtered out still advances. Records that lie side by side in the log leave as one
piece: nothing is decoded. What lies further back is read at once where the system says that it is in memory
(`cold_blocks`, or record by record), else in a thread. Either way it is checked (`read_check`).

Source: apache/rocketmq store/.../DefaultMessageStore.java (getMessage, isTheBatchFull, checkInMemByCommitOffset).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from gantrymq.errors import FormatError, StoreError
from gantrymq.formats.ext_unit import ExtUnit
from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES, is_ext_address
from gantrymq.formats.record import read_record
from gantrymq.interfaces import GetLimit, GetResult, GetStatus, MessageFilter
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.reading.cold_blocks import ColdBlocks
from gantrymq_storage_mmap.reading.read_ahead import ReadAhead
from gantrymq_storage_mmap.reading.read_check import Damaged, Wanted, sound_pieces, wanted_records
from gantrymq_storage_mmap.reading.selection import Selection

__all__ = ["Reader"]

Units = Mapping[int, ExtUnit]
_NO_UNITS: Units = {}


class Reader:
    """Serves gets from one log."""

    def __init__(
        self,
        log: CommitLog,
        workers: BoundedWorkers,
        options: Options,
        ahead: ReadAhead,
        tell: Callable[[str], object] = lambda sentence: None,
    ) -> None:
        """Nothing is read before the first `get`.

        Args:
            log: the records.
            workers: read what is cold.
            options: limits.
            ahead: hears of each cold get.
            tell: is given a sentence for each damaged record.
        """
        self._log = log
        self._workers = workers
        self._options = options
        self._ahead = ahead
        self._blocks = ColdBlocks(log)
        self.reading = 0  # cold reads that are under way
        self.damaged = Damaged(tell)

    def get(
        self, queue: ConsumeQueue | None, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult | Awaitable[GetResult]:
        """Read *queue* from *queue_offset*. Budget: 5 us and 0.4 us a message when it is hot and nothing filters."""
        if queue is None or queue.max_offset == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if queue_offset < low:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if queue_offset == high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
        if queue_offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        filters = match is not None and not match.accepts_all
        wanted = self._entries_wanted(queue_offset, high, limit, filters)
        if not filters:
            match = None
        warm = queue_offset >= queue.warm_offset
        position, length = queue_offset * ENTRY_BYTES, wanted * ENTRY_BYTES
        data = queue.read(position, length) if warm else queue.read_cached(position, length)
        if data is None:
            return self._cold(queue, queue_offset, wanted, limit, match)
        if len(data) < ENTRY_BYTES:
            return self._no_entries(queue, queue_offset)
        if not warm and match is not None and queue.ext is not None:  # its units may have to be waited for
            return self._cold(queue, queue_offset, wanted, limit, match)
        hot = warm and ENTRY.unpack_from(data)[0] >= self._log.hot_offset  # written since the start
        if not hot and match is not None and match.needs_message:
            return self._cold(queue, queue_offset, wanted, limit, match)
        selection = Selection(self._log, self._options, queue_offset, limit)
        if match is None:
            selection.take_all(data)
        else:
            self._filter(selection, data, match, queue.ext.units(data) if queue.ext is not None else _NO_UNITS)
        if hot:
            return selection.result(low, high, self._log.read_hot(selection.runs))
        taken, topic = selection.next_offset - queue_offset, queue.topic.encode()
        if match is None and taken == selection.count:  # a record each
            whole = self._blocks.take(data[: taken * ENTRY_BYTES], queue_offset, topic, selection.size)
            if whole is not None:
                self._ahead.follow(queue, queue_offset, selection.next_offset, cached=True)
                return selection.result(low, high, [whole], cold=True)
        records = wanted_records(queue.topic, queue_offset, data, taken)
        read = self._cached_runs(selection.runs, records, topic)
        if read is None:
            return self._cold(queue, queue_offset, wanted, limit, match)
        self._refuse(selection, read[1])
        self._ahead.follow(queue, queue_offset, selection.next_offset, cached=True)
        return selection.result(low, high, read[0], cold=True)

    def _entries_wanted(self, queue_offset: int, high: int, limit: GetLimit, filters: bool) -> int:
        """How many entries may be looked at; without a filter one more than may be returned, see `Selection`."""
        if filters:
            wanted = max(self._options.scan_bytes, limit.max_count * ENTRY_BYTES) // ENTRY_BYTES
        else:
            most = max(self._options.memory_limit_count, self._options.disk_limit_count)
            wanted = max(1, min(limit.max_count, most)) + 1
        return min(wanted, high - queue_offset)

    def _no_entries(self, queue: ConsumeQueue, queue_offset: int) -> GetResult:
        """The file that should hold the entry is missing: go on with the next one."""
        per_file = self._options.queue_file_bytes // ENTRY_BYTES
        next_offset = min(queue_offset - queue_offset % per_file + per_file, queue.max_offset)
        return GetResult(GetStatus.OFFSET_FOUND_NULL, next_offset, queue.min_offset, queue.max_offset)

    def _filter(self, selection: Selection, data: bytes, match: MessageFilter, units: Units) -> None:
        needs_message = match.needs_message
        for log_offset, size, tags_code in ENTRY.iter_unpack(data):
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
                try:
                    record = read_record(self._log.read_hot([(log_offset, log_offset + size)])[0])
                except FormatError:
                    selection.missed()
                    continue
                if match.match_message(record):
                    selection.add(log_offset, size)
                else:
                    selection.skipped()

    # --- cold -------------------------------------------------------------------------------------------------------

    async def _cold(
        self, queue: ConsumeQueue, queue_offset: int, wanted: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult:
        """`_get_cold`, counted while it runs, its errors those of a store."""
        self.reading += 1
        try:
            result = await self._get_cold(queue, queue_offset, wanted, limit, match)
        except OSError as error:
            raise StoreError(
                f"queue {queue.topic}/{queue.queue_id} cannot be read at {queue_offset}: {error}"
            ) from error
        finally:
            self.reading -= 1
        self._ahead.follow(queue, queue_offset, result.next_offset, cached=False)
        return result

    async def _get_cold(
        self, queue: ConsumeQueue, queue_offset: int, wanted: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult:
        """The same through a thread: entries are read there, then records; filters run on the event loop."""
        from_files, tail = queue.split(queue_offset * ENTRY_BYTES, wanted * ENTRY_BYTES)
        data, units = await self._workers.run(_read_entries, queue, queue_offset, from_files, tail, match is not None)
        if len(data) < ENTRY_BYTES:
            return self._no_entries(queue, queue_offset)
        selection = Selection(self._log, self._options, queue_offset, limit)
        if match is None:
            selection.take_all(data)
        elif not match.needs_message:
            self._filter(selection, data, match, units)
        else:
            return await self._filter_cold(queue, selection, data, match, units)
        wanted_now = wanted_records(queue.topic, queue_offset, data, selection.next_offset - queue_offset)
        buffers, damaged = await self._workers.run(self._read_runs, selection.runs, wanted_now, queue.topic.encode())
        self._refuse(selection, damaged)
        return selection.result(queue.min_offset, queue.max_offset, buffers, cold=True)

    def _refuse(self, selection: Selection, damaged: list[tuple[int, int, str]]) -> None:
        for log_offset, size, problem in damaged:
            self.damaged.refuse(log_offset, problem)
            selection.refuse(1, size)

    async def _filter_cold(
        self, queue: ConsumeQueue, selection: Selection, data: bytes, match: MessageFilter, units: Units
    ) -> GetResult:
        """Read the candidates of the first stage in groups no larger than what may still be returned."""
        entries = list(ENTRY.iter_unpack(data))
        buffers: list[bytes | memoryview] = []
        position = 0
        while position < len(entries) and not selection.full(*entries[position][:2]):
            group = selection.split()
            first = position
            chosen: list[tuple[int, int]] = []
            while position < len(entries):
                log_offset, size, tags_code = entries[position]
                if group.full(log_offset, size):
                    break
                position += 1
                fits = _fits(match, tags_code, units)
                if fits and group.present(log_offset, size):
                    group.add(log_offset, size)
                    chosen.append((log_offset, size))
                elif fits:
                    selection.missed()
                else:
                    selection.skipped()
            selection.next_offset += position - first
            wanted = wanted_records(queue.topic, selection.next_offset - position, data, position)
            pieces = await self._workers.run(self._read_each, chosen, wanted, queue.topic.encode())
            for (log_offset, size), (piece, problem) in zip(chosen, pieces, strict=True):
                if problem is not None:
                    self.damaged.refuse(log_offset, problem)
                    selection.missed()
                    continue
                try:
                    record = read_record(piece)
                except FormatError:  # gone by now
                    selection.missed()
                    continue
                if match.match_message(record):
                    selection.add(log_offset, size)
                    buffers.append(piece)
                else:
                    selection.skipped()
        return selection.result(queue.min_offset, queue.max_offset, buffers, cold=True)

    def _cached_runs(
        self, runs: list[tuple[int, int]], wanted: dict[int, Wanted], topic: bytes
    ) -> tuple[list[bytes | memoryview], list[tuple[int, int, str]]] | None:
        """As `_read_runs` if all is in memory, None else. Budget: 2.5 us a run, and the check."""
        pieces: list[bytes | memoryview] = []
        damaged: list[tuple[int, int, str]] = []
        for start, end in runs:
            file = self._log.find(start)
            piece = file.pread_cached(start, end) if file is not None else b""
            if piece is None:
                return None
            sound, broken = sound_pieces(start, piece, wanted, topic)
            pieces += sound
            damaged += broken
        return pieces, damaged

    def _read_runs(
        self, runs: list[tuple[int, int]], wanted: dict[int, Wanted], topic: bytes
    ) -> tuple[list[bytes | memoryview], list[tuple[int, int, str]]]:
        """Sound records of each ``(start, end)``, and the damaged ones. For a thread; what is gone reads as nothing."""
        pieces: list[bytes | memoryview] = []
        damaged: list[tuple[int, int, str]] = []
        for start, end in runs:
            file = self._log.find(start)
            if file is not None:
                sound, broken = sound_pieces(start, file.pread(start, end), wanted, topic)
                pieces += sound
                damaged += broken
        return pieces, damaged

    def _read_each(
        self, places: list[tuple[int, int]], wanted: dict[int, Wanted], topic: bytes
    ) -> list[tuple[bytes | memoryview, str | None]]:
        """Each record ``(log offset, size)``, or why it is refused. Runs in a thread."""
        found: list[tuple[bytes | memoryview, str | None]] = []
        for log_offset, size in places:
            pieces, damaged = self._read_runs([(log_offset, log_offset + size)], wanted, topic)
            found.append((pieces[0] if pieces else b"", damaged[0][2] if damaged else None))
        return found


def _fits(match: MessageFilter, tags_code: int, units: Units) -> bool:
    """The first stage: *tags_code* is what the entry holds; one whose ext unit is missing passes."""
    if not is_ext_address(tags_code):
        return match.match_entry(tags_code, None)
    unit = units.get(tags_code)
    return unit is None or match.match_entry(unit.tags_code, unit)


def _read_entries(
    queue: ConsumeQueue, queue_offset: int, length: int, tail: bytes, with_units: bool
) -> tuple[bytes, Units]:
    """Packed entries and the ext units they name; *length* and *tail* are from `split`. Runs in a thread."""
    data = queue.read_detached(queue_offset * ENTRY_BYTES, length, tail)
    if not with_units or queue.ext is None:
        return data, _NO_UNITS
    return data, queue.ext.units(data, detached=True)
