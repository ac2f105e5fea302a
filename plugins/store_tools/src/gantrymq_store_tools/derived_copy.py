"""Copies queues and index of a store that a broker may be writing, up to its checkpoint.

Files of a queue, and of the index, are copied the newest first: brokers delete the oldest one, and what is older than a
deleted file is not needed. If a topic is deleted meanwhile, its queues are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gantrymq.plugin.world import Files
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.checkpoint import Checkpoint
from gantrymq_store_files.index import HEADER_BYTES, read_header
from gantrymq_store_files.queue_entry import ENTRY_BYTES
from gantrymq_store_tools.copy_ends import ext_end, queue_end
from gantrymq_store_tools.findings import ProgressListener
from gantrymq_store_tools.layout import Layout, StoreFile
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.summed_copy import NewFolder

__all__ = ["DerivedCopy", "DurableTo"]


class DurableTo(NamedTuple):
    """What is copied of a store that is in use, or was killed."""

    log_offset: int  # entries of later records are not copied
    checkpoint: Checkpoint  # ext units of later records, and index files that it does not cover, are not copied


class DerivedCopy:
    """Copies everything that a broker derives from the log."""

    def __init__(self, files: Files, new: NewFolder, layout: Layout, progress: ProgressListener) -> None:
        """Copy nothing yet. *new* receives the files; *progress* is told of the bytes that are read."""
        self._files = files
        self._new = new
        self._layout = layout
        self._progress = progress
        self._open = OpenFiles(files)

    def run(self, durable: DurableTo | None) -> None:
        """Copy up to *durable*; everything if it is None.

        Raises:
            StoreError: a file cannot be read.
            OSError: the disk failed, or is full.
        """
        try:
            self._copy_queues(durable)
            self._copy_ext(durable)
            self._copy_index(durable)
        finally:
            self._open.close()

    def _copy_queues(self, durable: DurableTo | None) -> None:
        layout = self._layout
        for table, entry_bytes in ((layout.queues, ENTRY_BYTES), (layout.batch, BATCH_ENTRY_BYTES)):
            for _, series in sorted(table.items()):
                end = series.end
                if durable is not None:
                    try:
                        end = queue_end(self._open, series, entry_bytes, durable.log_offset)
                    except FileNotFoundError:  # its topic was deleted, or its first file by age
                        continue
                self._copy(series.files, end)

    def _copy_ext(self, durable: DurableTo | None) -> None:
        for _, series in sorted(self._layout.ext.items()):
            end = series.end
            if durable is not None:
                try:
                    end = ext_end(self._open, series, durable.checkpoint.queue_timestamp)
                except FileNotFoundError:
                    continue
            self._copy(series.files, end)

    def _copy_index(self, durable: DurableTo | None) -> None:
        self._copy([file for file in self._layout.index if durable is None or self._is_covered(file, durable)])

    def _is_covered(self, file: StoreFile, durable: DurableTo) -> bool:
        header = self._files.peek(file.path, HEADER_BYTES, 0) or b""
        return len(header) == HEADER_BYTES and (
            0 < read_header(header).end_timestamp <= durable.checkpoint.index_timestamp
        )

    def _copy(self, series: Sequence[StoreFile], end: int | None = None) -> None:
        """Copy files of one series up to *end*."""
        for file in reversed(series):
            if end is not None and file.start >= end:
                continue
            length = None if end is None else end - file.start
            try:
                self._new.copy(file.path, self._layout.name(file.path), length, self._progress.advance)
            except FileNotFoundError:
                return
