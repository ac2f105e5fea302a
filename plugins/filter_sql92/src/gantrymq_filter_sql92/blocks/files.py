"""Files of block filters, one per block: ``<folder>/<topic>/<queue id>/<first queue offset, 20 digits>``.

A file is written under a temporary name, synced and renamed. A file that is damaged, or of another block size than
configured, is removed. All calls may wait for the disk and run in threads.
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.model.queue import Queue
from gantrymq.world import Files
from gantrymq_filter_sql92.blocks.block import Block, read_block, write_block

__all__ = ["BlockFiles"]

_DIGITS = 20


class BlockFiles:
    """Filters on disk, for blocks of one size."""

    def __init__(self, files: Files, folder: Path, entries: int) -> None:
        """*entries*: of each block."""
        self._files = files
        self._folder = folder
        self._entries = entries

    def load(self, queue: Queue, number: int, count: int) -> tuple[list[Block], int]:
        """Load the filters of *count* blocks from *number* on. Return them and the number of damaged files removed.

        Raises:
            OSError: the disk failed.
        """
        found: list[Block] = []
        removed = 0
        for first in range(number * self._entries, (number + count) * self._entries, self._entries):
            try:
                data = self._files.read(self._path(queue, first))
            except FileNotFoundError:
                continue
            try:
                block = read_block(data)
            except FormatError:
                block = None
            if block is not None and (block.first, block.entries) == (first, self._entries):
                found.append(block)
            else:
                self.remove(queue, first)
                removed += 1
        return found, removed

    def save(self, queue: Queue, block: Block) -> None:
        """Write a filter. Raises OSError if the disk is full or failed."""
        path = self._path(queue, block.first)
        self._files.make_dirs(path.parent)
        self._files.replace(path, write_block(block))

    def remove(self, queue: Queue, first: int) -> None:
        """Remove the filter of the block at queue offset *first*."""
        self._files.remove(self._path(queue, first))

    def queues(self) -> list[Queue]:
        """Return the queues with a folder."""
        return [
            Queue(topic, int(queue_id))
            for topic in self._files.list(self._folder)
            for queue_id in self._files.list(self._folder / topic)
            if queue_id.isdecimal()
        ]

    def clean(self, queue: Queue, min_offset: int | None) -> None:
        """Remove unknown files and filters of blocks ending at or before *min_offset*; None: all of the queue.

        Raises:
            OSError: the disk failed.
        """
        folder = self._folder / queue.topic / str(queue.queue_id)
        kept = 0
        for name in self._files.list(folder):
            first = int(name) if len(name) == _DIGITS and name.isdecimal() else None
            if min_offset is None or first is None or first % self._entries or first + self._entries <= min_offset:
                self._files.remove(folder / name)
            else:
                kept += 1
        if not kept:
            self._files.remove_dir(folder)
            if not self._files.list(folder.parent):
                self._files.remove_dir(folder.parent)

    def _path(self, queue: Queue, first: int) -> Path:
        return self._folder / queue.topic / str(queue.queue_id) / f"{first:0{_DIGITS}d}"
