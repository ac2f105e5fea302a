"""What stands behind the end of each queue, and of its ext units: what no record belongs to is kept aside and zeroed.

It is left when the log lost what its queues did not. While nothing hints at it the next 64 KiB behind each end are
looked at (files are sparse, and there may be very many); once anything is found, every byte behind every end is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from gantrymq.formats.batch_entry import BATCH_ENTRY_BYTES
from gantrymq.formats.ext_unit import MIN_UNIT_BYTES
from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.world import File, Files
from gantrymq_storage_mmap.log.file import file_start
from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.set_aside import SetAside, nonzero_end

__all__ = ["QueueCut"]

LOOK_BEHIND_BYTES = 64 * 1024


class _Tail(NamedTuple):
    """Where one queue's entries, or units, end."""

    topic: str
    queue_id: int
    folder: Path
    files: QueueFiles
    end: int  # position of the byte behind the last
    entry_bytes: int


class QueueCut:
    """What recovery cuts off the queues."""

    def __init__(self, files: Files, queues: QueueTable, aside: SetAside, note: Callable[[str], None]) -> None:
        """*aside* takes what is cut; *note* is told each cut in a sentence."""
        self._files = files
        self._queues = queues
        self._aside = aside
        self._note = note

    def behind_ends(self, *, hinted: bool) -> None:
        """Keep and zero what stands behind the end of each queue; *hinted*: the log lost something."""
        tails = list(self._tails())
        if hinted or any(self._holds_more(tail) for tail in tails):
            for tail in tails:
                self._cut(tail)

    def _tails(self) -> Iterator[_Tail]:
        for queue in self._queues.by_name.values():
            name, end = (queue.topic, queue.queue_id), queue.max_offset * ENTRY_BYTES
            if not queue.empty:
                yield _Tail(*name, queue.folder, self._queues.queue_files, end, ENTRY_BYTES)
            if (ext := queue.ext) is not None:
                yield _Tail(*name, ext.folder, ext.files, ext.end_position, MIN_UNIT_BYTES)
        for batch in self._queues.batch.values():
            yield _Tail(batch.topic, batch.queue_id, batch.folder, batch.files, batch.end_position, BATCH_ENTRY_BYTES)

    def _holds_more(self, tail: _Tail) -> bool:
        """Whether something stands right behind the end."""
        for file, _, first in self._behind(tail):
            if nonzero_end(file, first, min(first + LOOK_BEHIND_BYTES, tail.files.file_bytes)) > first:
                return True
        return False

    def _cut(self, tail: _Tail) -> None:
        for file, position, first in self._behind(tail):
            if cut := self._aside.cut(file, first, tail.files.file_bytes, position):
                self._note(
                    f"queue {tail.topic}/{tail.queue_id}: {-(-cut // tail.entry_bytes)} entries without a record were "
                    f"kept in {self._aside.kept[-1]}"
                )

    def _behind(self, tail: _Tail) -> Iterator[tuple[File, int, int]]:
        """Files that reach behind the end: each with its position, and where in it the end is."""
        for name in self._files.list(tail.folder):
            position = file_start(name)
            if position is not None and position + tail.files.file_bytes > tail.end:
                file = tail.files.existing(tail.folder, position)
                if file is not None:
                    yield file, position, max(tail.end - position, 0)
