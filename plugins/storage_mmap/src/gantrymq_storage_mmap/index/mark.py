"""What a checkpoint makes durable of the index: a picture of the files that are not, taken between two steps.

    event loop: the picture --> thread: slots written, files synced --> event loop: durable up to the picture, or not

Slots are written from such pictures and nowhere else. So the slots on disk are those of the last durable entries, and
one that a broken off checkpoint wrote shows by naming an entry that those did not have yet (`IndexFile.load`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import attrs

from gantrymq.formats.index import IndexHeader
from gantrymq.formats.index_table import SlotRun
from gantrymq.world import File
from gantrymq_storage_mmap.index.file import IndexFile

__all__ = ["FileMark", "IndexMark"]

_WRITE_SLOTS = 16 * 1024  # 64 KiB in one write


class FileMark(NamedTuple):
    """One file as it was."""

    file: IndexFile
    header: IndexHeader
    runs: list[SlotRun]  # slots that the disk does not have

    @classmethod
    def of(cls, file: IndexFile) -> FileMark:
        """The file as it is now; what it writes from now on belongs to the next picture."""
        table = file.table
        return cls(file, file.header, table.take_dirty() if table is not None else [])

    def write(self) -> None:
        """Write the slots; header and entries are written as they come. Runs in a thread. Raises OSError."""
        layout, file = self.file.layout, self.file.file
        for run in self.runs:
            for start in range(0, run.length, _WRITE_SLOTS):
                file.pwrite(run.file_bytes(start, _WRITE_SLOTS), layout.slot_at(run.first + start))


@attrs.define
class IndexMark:
    """All files that were not durable."""

    note: dict[str, Any]  # JSON: the place, and the newest file with its header; see `index.note`
    full_timestamp: int  # ms, end of the newest full file that becomes durable; 0 without one
    folders: tuple[Path, ...]  # whose names have to be synced as well, in this order
    parts: list[FileMark]
    written: bool = False

    @property
    def files(self) -> list[File]:
        """What has to be synced once `write` is through."""
        return [part.file.file for part in self.parts]

    def write(self) -> None:
        """Write what the files lack. Runs in a thread, while entries are added. Raises OSError."""
        for part in self.parts:
            part.write()
        self.written = True
