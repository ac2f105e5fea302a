"""What stands behind the end of a row: what no record belongs to is kept aside and zeroed.

It is left when the log lost what its queues did not. A Java broker, which looks for the end of a queue in its files,
would take it for messages.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.formats.batch_entry import BATCH_ENTRY_BYTES
from gantrymq.formats.ext_unit import MIN_UNIT_BYTES
from gantrymq.formats.file_names import file_start
from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.world import Files
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue
from gantrymq_storage_mmap.queues.file_row import FileRow
from gantrymq_storage_mmap.recovery.set_aside import SetAside, nonzero_end

__all__ = ["LOOK_BEHIND_BYTES", "QueueCut"]

LOOK_BEHIND_BYTES = 64 * 1024


class QueueCut:
    """What recovery cuts off rows."""

    def __init__(self, files: Files, aside: SetAside, note: Callable[[str], None]) -> None:
        """*aside* takes what is cut; *note* is told each cut in a sentence."""
        self._files = files
        self._aside = aside
        self._note = note

    def holds_more(self, row: FileRow) -> bool:
        """Whether something stands within the next `LOOK_BEHIND_BYTES` behind the end."""
        return bool(row.look(row.end, LOOK_BEHIND_BYTES).strip(b"\0"))

    def cut(self, row: FileRow) -> None:
        """Keep and zero every byte behind the end."""
        file_bytes = row.files.file_bytes
        for name in self._files.list(row.folder):
            start = file_start(name)
            if start is None or start + file_bytes <= row.end or (file := row.files.existing(row, start)) is None:
                continue
            first = max(row.end - start, 0)
            if nonzero_end(file, first, file_bytes) > first and (
                cut := self._aside.cut(file, first, file_bytes, start)
            ):
                self._note(
                    f"queue {row.topic}/{row.queue_id}: {-(-cut // _unit_bytes(row))} entries without a record were "
                    f"kept in {self._aside.kept[-1]}"
                )


def _unit_bytes(row: FileRow) -> int:
    if isinstance(row, ExtQueue):
        return MIN_UNIT_BYTES
    return BATCH_ENTRY_BYTES if isinstance(row, BatchQueue) else ENTRY_BYTES
