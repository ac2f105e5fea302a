"""What a checkpoint says of the index: how far the log is indexed, and how much of the newest file that is.

    {"offset": <log offset>, "keys": <count>, "file": "<name>", "header": [<its six numbers>], "unsure": false}

Everything before *offset* is indexed, and so many keys of the message that starts there. *file* is empty where there is
none. Whatever the disk has beyond, entries or files, was not durable then and does not count. *unsure*: the slots of
the file may be further than its header.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gantrymq.formats.index import IndexHeader, is_index_file_name
from gantrymq_storage_mmap.index.file import IndexFile, IndexPlace

__all__ = ["IndexNote", "make_note", "read_note"]

_BOUNDS = (2**63, 2**63, 2**63, 2**63, 2**31, 2**31)  # of a header's numbers


class IndexNote(NamedTuple):
    """A note that can be understood."""

    place: IndexPlace
    file: str
    header: IndexHeader
    unsure: bool


def make_note(place: IndexPlace, newest: IndexFile | None) -> dict[str, Any]:
    """The note for *place* and the newest file, as they are now."""
    return {
        "offset": place.log_offset,
        "keys": place.keys,
        "file": newest.path.name if newest is not None else "",
        "header": list(newest.header) if newest is not None else [],
        "unsure": newest is not None and newest.unsure,
    }


def read_note(note: Any) -> IndexNote | None:
    """Understand a note; None where it is none, whatever it is instead."""
    try:
        place, name, numbers = (note["offset"], note["keys"]), note["file"], tuple(note["header"])
    except (TypeError, KeyError):
        return None
    if not all(_number(number, 2**63) for number in place):
        return None
    if name == "" and not numbers:
        return IndexNote(IndexPlace(*place), "", IndexHeader(), False)
    sound = len(numbers) == len(_BOUNDS) and all(map(_number, numbers, _BOUNDS))
    if not sound or not isinstance(name, str) or not is_index_file_name(name):
        return None
    header = IndexHeader._make(numbers)
    return IndexNote(IndexPlace(*place), name, header, bool(note.get("unsure"))) if header.index_count > 0 else None


def _number(value: object, behind: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < behind
