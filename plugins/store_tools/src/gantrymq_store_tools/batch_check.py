"""Comparison of batch queues with the log. Both are ordered by log offset, so they are walked in parallel.

The findings batch.missing, batch.wrong and batch.no_record have the same meaning as their queue.* equivalents in
`queue_check`.
"""

from __future__ import annotations

from gantrymq.plugin.model import Queue
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry, read_batch_entry
from gantrymq_store_tools.config_check import NO_LIMIT
from gantrymq_store_tools.findings import Finding
from gantrymq_store_tools.layout import Layout, Series
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.record_entries import RangePart

_READ_ENTRIES = 1024


class _Cursor:
    """A cursor over the entries of one batch queue's files."""

    def __init__(self, series: Series, open_files: OpenFiles) -> None:
        self._series = series
        self._open = open_files
        self._at = series.start
        self._data = b""
        self._index = 0

    def peek(self) -> BatchQueueEntry | None:
        """Return the current entry, None after the last one."""
        if self._index * BATCH_ENTRY_BYTES >= len(self._data):
            self._at += len(self._data)
            self._index = 0
            length = min(_READ_ENTRIES * BATCH_ENTRY_BYTES, self._series.end - self._at)
            self._data = self._open.read_series(self._series, self._at, length) if length > 0 else b""
            if len(self._data) < BATCH_ENTRY_BYTES:
                self._data = b""
                return None
        return read_batch_entry(self._data, self._index)

    def advance(self) -> None:
        """Move to the next entry."""
        self._index += 1


class BatchCheck:
    """Compares the batch queues of one store with the log. Call `check_part` for each part, then `finish`."""

    def __init__(self, layout: Layout, open_files: OpenFiles, vouched_to: int = NO_LIMIT) -> None:
        """Nothing is read yet. *vouched_to*: see `config_check.vouched_to`."""
        self.findings: list[Finding] = []
        self.entries = 0
        self._vouched_to = vouched_to
        self._log_start = layout.log.start
        self._cursors = {queue: _Cursor(series, open_files) for queue, series in layout.batch.items()}
        self._nothing = _Cursor(Series(), open_files)

    def check_part(self, part: RangePart) -> None:
        """Compare the entries of *part* with the files."""
        for queue, runs in part.batches.items():
            cursor = self._cursors.get(queue, self._nothing)
            for run in runs:
                wanted = read_batch_entry(run.entries, 0)
                assert wanted is not None
                self.entries += 1
                self._one(queue, cursor, wanted)

    def finish(self) -> list[Finding]:
        """Report the remaining entries, which have no record, and return all findings."""
        for queue, cursor in sorted(self._cursors.items()):
            while (entry := cursor.peek()) is not None:
                self._no_record(queue, entry)
                cursor.advance()
        return self.findings

    def _one(self, queue: Queue, cursor: _Cursor, wanted: BatchQueueEntry) -> None:
        while (entry := cursor.peek()) is not None and entry.log_offset < wanted.log_offset:
            self._no_record(queue, entry)
            cursor.advance()
        if entry is None or entry.log_offset > wanted.log_offset:
            self._add("missing", queue, wanted, f"no entry for the record at log offset {wanted.log_offset}")
            return
        if entry != wanted:
            text = f"the entry says {tuple(entry)}, the record {tuple(wanted)}"
            self._add("wrong", queue, wanted, text)
        cursor.advance()

    def _no_record(self, queue: Queue, entry: BatchQueueEntry) -> None:
        if entry.log_offset >= self._log_start:
            text = f"the entry names {entry.size} bytes at log offset {entry.log_offset}, where no sound record is"
            self._add("no_record", queue, entry, text)

    def _add(self, kind: str, queue: Queue, entry: BatchQueueEntry, text: str) -> None:
        path = f"batchconsumequeue/{queue.topic}/{queue.queue_id}"
        sentence = f"batch queue {queue.topic}/{queue.queue_id}, offset {entry.base_offset}: {text}"
        finding = Finding(f"batch.{kind}", path, sentence, entry.base_offset, 1)
        self.findings.append(finding.for_recovery() if entry.log_offset >= self._vouched_to else finding)
