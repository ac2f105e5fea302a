"""What stands behind the end of each queue: entries without a record are kept aside and zeroed.

They are left when the log lost what its queues did not. While nothing hints at it the next 64 KiB behind each end are
looked at (files are sparse, and there may be very many); once anything is found, every byte behind every end is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.world import File, Files
from gantrymq_storage_mmap.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.log_file import file_start
from gantrymq_storage_mmap.queue_table import QueueTable
from gantrymq_storage_mmap.set_aside import SetAside, nonzero_end

__all__ = ["QueueCut"]

LOOK_BEHIND_BYTES = 64 * 1024


class QueueCut:
    """What recovery cuts off the queues."""

    def __init__(self, files: Files, queues: QueueTable, aside: SetAside, note: Callable[[str], None]) -> None:
        """*aside* takes what is cut; *note* is told each cut in a sentence."""
        self._files = files
        self._queues = queues
        self._file_bytes = queues.queue_files.file_bytes
        self._aside = aside
        self._note = note

    def behind_ends(self, *, hinted: bool) -> None:
        """Keep and zero what stands behind the end of each queue; *hinted*: the log lost something."""
        queues = [queue for queue in self._queues.by_name.values() if not queue.empty]
        if hinted or any(self._holds_more(queue) for queue in queues):
            for queue in queues:
                self._cut_queue(queue)

    def _holds_more(self, queue: ConsumeQueue) -> bool:
        """Whether something stands right behind the queue's end."""
        for file, _, first in self._behind(queue):
            if nonzero_end(file, first, min(first + LOOK_BEHIND_BYTES, self._file_bytes)) > first:
                return True
        return False

    def _cut_queue(self, queue: ConsumeQueue) -> None:
        for file, position, first in self._behind(queue):
            if cut := self._aside.cut(file, first, self._file_bytes, position):
                self._note(
                    f"queue {queue.topic}/{queue.queue_id}: {-(-cut // ENTRY_BYTES)} entries without a record were "
                    f"kept in {self._aside.kept[-1]}"
                )

    def _behind(self, queue: ConsumeQueue) -> Iterator[tuple[File, int, int]]:
        """Files that reach behind the queue's end: each with its position, and where in it the end is."""
        end = queue.max_offset * ENTRY_BYTES
        for name in self._files.list(queue.folder):
            position = file_start(name)
            if position is not None and position + self._file_bytes > end:
                file = self._queues.queue_files.existing(queue.folder, position)
                if file is not None:
                    yield file, position, max(end - position, 0)
