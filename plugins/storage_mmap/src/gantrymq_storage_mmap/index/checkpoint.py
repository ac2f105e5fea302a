"""What a checkpoint makes durable of the index: the files that are not, as they are between two steps.

    event loop: the mark, no step --> thread: slots written --> steps go on --> thread: files synced
        --> event loop: durable up to the mark, or not

Slots are written so and not otherwise. So the slots on disk are those of the last durable entries, and
one that a broken off checkpoint wrote shows by naming an entry that those did not have yet (`IndexFile.load`).

And the note that it leaves: how far the log is indexed, and how much of the newest file that is.

    {"offset": <log offset>, "keys": <count>, "file": "<name>", "header": [<its six numbers>], "unsure": false}

Everything before *offset* is indexed, and so many keys of the message that starts there. *file* is empty where there is
none. Whatever the disk has beyond, entries or files, was not durable then and does not count. *unsure*: the slots of
the file may be further than its header.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import attrs

from gantrymq.world import File
from gantrymq_storage_mmap.index.file import IndexFile, IndexPosition
from gantrymq_store_files.index import IndexHeader, is_index_file_name
from gantrymq_store_files.index_table import SlotRun

__all__ = ["FileCheckpoint", "IndexCheckpoint", "SavedIndexState", "index_state", "parse_index_state"]

_WRITE_SLOTS = 128 * 1024  # in one write, long enough for the event loop to get the interpreter's lock meanwhile
_BOUNDS = (2**63, 2**63, 2**63, 2**63, 2**31, 2**31)  # of a header's numbers


class FileCheckpoint(NamedTuple):
    """One file as it was; what it writes from then on belongs to the next mark."""

    file: IndexFile
    header: IndexHeader
    runs: list[SlotRun]  # slots that the disk does not have


@attrs.define
class IndexCheckpoint:
    """All files that were not durable."""

    note: dict[str, Any]  # JSON: the place, and the newest file with its header; see `index_state`
    full_timestamp: int  # ms, end of the newest full file that becomes durable; 0 without one
    folders: tuple[Path, ...]  # whose names have to be synced as well, in this order
    parts: list[FileCheckpoint]

    @property
    def files(self) -> list[File]:
        """What has to be synced once `write` is through."""
        return [part.file.file for part in self.parts]

    def write(self) -> None:
        """Write the slots; header and entries are written as they come.

        Runs in a thread, while nothing is added: slots lead to no entry that the header does not count. Raises OSError.
        """
        for file, _, runs in self.parts:
            for first, length in runs:
                for start in range(first, first + length, _WRITE_SLOTS):
                    file.write_slots(start, min(_WRITE_SLOTS, first + length - start))


class SavedIndexState(NamedTuple):
    """A note that can be understood."""

    place: IndexPosition
    file: str
    header: IndexHeader
    unsure: bool


def index_state(place: IndexPosition, newest: IndexFile | None) -> dict[str, Any]:
    """The note for *place* and the newest file, as they are now."""
    return {
        "offset": place.log_offset,
        "keys": place.keys,
        "file": newest.path.name if newest is not None else "",
        "header": list(newest.header) if newest is not None else [],
        "unsure": newest is not None and newest.unsure,
    }


def parse_index_state(note: Any) -> SavedIndexState | None:
    """Understand a note; None where it is none, whatever it is instead."""
    try:
        place, name, numbers = (note["offset"], note["keys"]), note["file"], tuple(note["header"])
    except (TypeError, KeyError):
        return None
    if not all(_number(number, 2**63) for number in place):
        return None
    if name == "" and not numbers:
        return SavedIndexState(IndexPosition(*place), "", IndexHeader(), False)
    sound = len(numbers) == len(_BOUNDS) and all(map(_number, numbers, _BOUNDS))
    if not sound or not isinstance(name, str) or not is_index_file_name(name):
        return None
    header = IndexHeader._make(numbers)
    return (
        SavedIndexState(IndexPosition(*place), name, header, bool(note.get("unsure")))
        if header.index_count > 0
        else None
    )


def _number(value: object, behind: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < behind
