"""Writes queue files from rebuilt parts as a broker would have written them.

The first record's queue offset is the start of the queue: entries before it in its file become pre-blank, as in
RocketMQ. If the log shows that a topic was deleted and recreated, the queue holds the new one. A single record whose
queue offset breaks the sequence is moved to the free position in the sequence (`queue_order`).

Offsets of lost records stay occupied, so that all others keep theirs. The entry of a lost record repeats the entry
after it, or at the queue's end the entry before it, as recovery does: a Java broker that meets a blank entry skips
sound ones, and delivers a repeated one twice.

A queue without any record in the log keeps its entries for records that have been deleted from the log, because its
next offset depends on them. An entry whose tags code is the address of a sound ext unit keeps it.

Source: apache/rocketmq store/.../ConsumeQueue.java (putMessagePositionInfo, fillPreBlank).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.plugin.formats import BATCH_QUEUES, QUEUES
from gantrymq.plugin.model import Queue
from gantrymq.plugin.world import Files
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.ext_unit import MAX_UNIT_BYTES, ext_position, read_ext_unit
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK, is_ext_address
from gantrymq_store_tools.layout import Layout
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.queue_order import QueueOrder, SettledRun, name_problem
from gantrymq_store_tools.record_entries import RangePart, Run
from gantrymq_store_tools.target_files import TargetFiles

_MAX_LOST = 16_000_000  # entries between two others
_DEFAULT_ENTRIES = 300_000  # of a file, if the store has no queue file


class QueueWriter:
    """Writes the queues of one store into a folder. Call `add` for each part in log order, then `finish`."""

    def __init__(
        self,
        files: Files,
        layout: Layout,
        target: Path,
        open_files: OpenFiles,
        queues: Collection[Queue] | None = None,
    ) -> None:
        """Write nothing yet.

        Args:
            target: receives ``consumequeue`` and ``batchconsumequeue``.
            layout: the store for which the queues are written.
            queues: the only queues to write, if other writers write the rest; None for all. Parts may omit entries of
                other queues, but no part may be omitted.
        """
        self.entries = 0
        self.batch_entries = 0
        self.lost = 0  # queue offsets without a record
        self.kept_queues = 0  # queues without any record
        self._layout = layout
        self._target = target
        self._open = open_files
        self._only = queues
        file_bytes = next((each.file_bytes for each in layout.queues.values()), _DEFAULT_ENTRIES * ENTRY_BYTES)
        self._queues = TargetFiles(files, file_bytes)
        batch_bytes = next((each.file_bytes for each in layout.batch.values()), _DEFAULT_ENTRIES * BATCH_ENTRY_BYTES)
        self._batches = TargetFiles(files, batch_bytes)
        self.moved: list[tuple[Queue, int, int, int]] = []  # queue, log offset, stated and corrected queue offset
        self.refused: dict[Queue, str] = {}  # queues whose name cannot be a folder, and why
        self._orders: dict[Queue, QueueOrder] = {}
        self._records_end = 0  # log offset of the end of the last record
        self._ends: dict[Queue, int] = {}  # queue offset after the last entry
        self._batch_ends: dict[Queue, int] = {}  # position after the last entry

    def add(self, part: RangePart) -> None:
        """Write the entries of *part*. Raises OSError."""
        self._records_end = max(self._records_end, part.records_end)
        for queue, runs in part.queues.items():
            if not self._usable(queue):
                continue
            order = self._orders.get(queue)
            if order is None:
                order = self._orders[queue] = QueueOrder()
            for run in runs:
                for settled in order.feed(run):
                    self._settled(queue, settled)
        for queue, runs in part.batches.items():
            if not self._usable(queue):
                continue
            position = self._batch_ends.get(queue, 0)
            data = b"".join([run.entries for run in runs])
            self._batches.write(self._target / BATCH_QUEUES / queue.topic / str(queue.queue_id), position, data)
            self._batch_ends[queue] = position + len(data)
            self.batch_entries += len(runs)

    def finish(self) -> int:
        """Keep entries that the log does not determine, make everything durable, and return the number of files."""
        for queue, order in self._orders.items():
            for settled in order.finish():
                self._settled(queue, settled)
        for queue in sorted(self._layout.queues):
            if self._only is not None and queue not in self._only:
                continue
            if queue in self._ends:
                self._keep_taken(queue)
            else:
                self._keep(queue)
        self._queues.close()
        self._batches.close()
        return self._queues.made + self._batches.made

    def _usable(self, queue: Queue) -> bool:
        if queue in self._orders or queue in self._batch_ends:
            return True
        if self._only is not None and queue not in self._only:
            return False
        problem = name_problem(queue)
        if problem is not None:
            self.refused[queue] = problem
        return problem is None

    def _settled(self, queue: Queue, settled: SettledRun) -> None:
        run = settled.run
        if settled.stated != run.start:
            self.moved.append((queue, ENTRY.unpack_from(run.entries)[0], settled.stated, run.start))
        self._write(queue, run)

    def _folder(self, queue: Queue) -> Path:
        return self._target / QUEUES / queue.topic / str(queue.queue_id)

    def _write(self, queue: Queue, run: Run) -> None:
        folder, end = self._folder(queue), self._ends.get(queue)
        position, file_bytes = run.start * ENTRY_BYTES, self._queues.file_bytes
        entries = self._with_addresses(queue, run)
        if end is None:
            if before := position % file_bytes // ENTRY_BYTES:
                self._queues.write(folder, position - before * ENTRY_BYTES, PRE_BLANK * before)
        elif run.start > end:
            self.lost += run.start - end
            first = max(end, run.start - _MAX_LOST)  # damage cannot explain a larger gap
            self._queues.write(folder, first * ENTRY_BYTES, bytes(entries[:ENTRY_BYTES]) * (run.start - first))
        elif run.end < end:
            last = min(end, run.end + _MAX_LOST)
            self._queues.write(folder, run.end * ENTRY_BYTES, bytes((last - run.end) * ENTRY_BYTES))
        self._queues.write(folder, position, entries)
        self._ends[queue] = run.end
        self.entries += run.end - run.start

    def _with_addresses(self, queue: Queue, run: Run) -> bytearray:
        """Return the run's entries, with the addresses of sound ext units."""
        ext, before = self._layout.ext.get(queue), self._layout.queues.get(queue)
        if ext is None or before is None:
            return run.entries
        entries = bytearray(run.entries)
        old = self._open.read_series(before, run.start * ENTRY_BYTES, len(entries))
        for at in range(0, len(entries), ENTRY_BYTES):
            address = ENTRY.unpack_from(old, at)[2]
            if old[at : at + 12] != entries[at : at + 12] or not is_ext_address(address):
                continue
            place = ext_position(address)
            length = min(ext.file_bytes - place % ext.file_bytes, MAX_UNIT_BYTES)
            try:
                unit = read_ext_unit(self._open.read_series(ext, place, length), 0)
            except FormatError:
                continue
            if unit is not None and unit.tags_code == ENTRY.unpack_from(entries, at)[2]:
                entries[at : at + ENTRY_BYTES] = old[at : at + ENTRY_BYTES]
        return entries

    def _keep_taken(self, queue: Queue) -> None:
        """Keep offsets after the last record occupied if their entries name lost records of the log."""
        series, end = self._layout.queues[queue], self._ends[queue]
        last = self._open.read_series(series, (end - 1) * ENTRY_BYTES, ENTRY_BYTES)
        place, size = self._orders[queue].last
        if ENTRY.unpack(last)[:2] != (place, size):
            last = ENTRY.pack(place, size, 0)
        while end * ENTRY_BYTES < series.end:
            named, size, _ = ENTRY.unpack(self._open.read_series(series, end * ENTRY_BYTES, ENTRY_BYTES))
            if size <= 0 or not self._layout.log.start <= named < self._records_end:
                break
            self._queues.write(self._folder(queue), end * ENTRY_BYTES, last)
            self.lost += 1
            end += 1
        self._ends[queue] = end

    def _keep(self, queue: Queue) -> None:
        series, log_start = self._layout.queues[queue], self._layout.log.start
        kept = False
        for file in series.files:
            data = self._open.read(file.path, 0, series.file_bytes)
            end = 0
            for at in range(0, len(data) - len(data) % ENTRY_BYTES, ENTRY_BYTES):
                place, size, _ = ENTRY.unpack_from(data, at)
                if size <= 0 or place < 0 or place >= log_start > 0 or (log_start == 0 and size != 0x7FFFFFFF):
                    break
                end = at + ENTRY_BYTES
            if end:
                self._queues.write(self._folder(queue), file.start, data[:end])
                kept = True
        self.kept_queues += kept
