"""The index's part of a checkpoint: the files that are not durable, in their state between two steps.

    event loop: snapshot, steps pause --> thread: slots written --> steps resume --> thread: files synced
        --> event loop: durable up to the snapshot, or failed

Slots are written only in this way. So the slots on disk are those of the last durable entries, and a slot that an
interrupted checkpoint wrote is recognized because it refers to an entry that did not exist then (`IndexFile.load`).

The state saved in the checkpoint tells how far the log is indexed, and the header of the newest file at that point:

    {"offset": <log offset>, "keys": <count>, "file": "<name>", "header": [<its six numbers>], "unsure": false}

Everything before *offset* is indexed, and *keys* keys of the message that starts there. *file* is empty if there is
none. Further entries or files on the disk were not durable then and do not count. *unsure*: the slots of the file may
be newer than its header.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import attrs

from gantrymq.plugin.world import File
from gantrymq_storage_mmap.index.file import IndexFile, IndexPosition
from gantrymq_store_files.index import IndexHeader, is_index_file_name
from gantrymq_store_files.index_table import SlotRun

_WRITE_SLOTS = 128 * 1024  # per write, so that the event loop gets the interpreter's lock during each
_BOUNDS = (2**63, 2**63, 2**63, 2**63, 2**31, 2**31)  # exclusive upper bounds of a header's numbers


class FileCheckpoint(NamedTuple):
    """State of one file; later writes belong to the next checkpoint."""

    file: IndexFile
    header: IndexHeader
    runs: list[SlotRun]  # slots that are not on the disk


@attrs.define
class IndexCheckpoint:
    """All files that were not durable."""

    note: dict[str, Any]  # JSON: position, and the newest file with its header; see `index_state`
    full_timestamp: int  # ms, end time of the newest full file that becomes durable; 0 without one
    folders: tuple[Path, ...]  # folders to sync as well, in this order
    parts: list[FileCheckpoint]

    @property
    def files(self) -> list[File]:
        """The files to sync after `write`."""
        return [part.file.file for part in self.parts]

    def write(self) -> None:
        """Write the slots; header and entries were written when they were added.

        Runs in a thread while nothing is added, so that no slot refers to an entry that the header does not count.
        Raises OSError.
        """
        for file, _, runs in self.parts:
            for first, length in runs:
                for start in range(first, first + length, _WRITE_SLOTS):
                    file.write_slots(start, min(_WRITE_SLOTS, first + length - start))


class SavedIndexState(NamedTuple):
    """A valid state read from a checkpoint."""

    place: IndexPosition
    file: str
    header: IndexHeader
    unsure: bool


def index_state(place: IndexPosition, newest: IndexFile | None) -> dict[str, Any]:
    """Return the present state as JSON: *place*, and the newest file with its header."""
    return {
        "offset": place.log_offset,
        "keys": place.keys,
        "file": newest.path.name if newest is not None else "",
        "header": list(newest.header) if newest is not None else [],
        "unsure": newest is not None and newest.unsure,
    }


def parse_index_state(note: Any) -> SavedIndexState | None:
    """Parse a state; None if it is not valid."""
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


def _number(value: object, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit
