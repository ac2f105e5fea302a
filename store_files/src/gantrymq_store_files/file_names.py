"""Files of one size that are one whole: their names, and which of them a range of the whole lies in.

A file is named for the place of its first byte in the whole, in 20 decimal digits.

Commit log, consume queues, their ext files, batch queues and timer logs are such wholes.

Source: apache/rocketmq common/.../UtilAll.java (offset2FileName).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["NAME_DIGITS", "Piece", "file_name", "file_start", "pieces"]

NAME_DIGITS = 20


def file_name(start: int) -> str:
    """The name of the file whose first byte is byte *start* of the whole."""
    return str(start).zfill(NAME_DIGITS)


def file_start(name: str) -> int | None:
    """What `file_name` was made from, or None for a name of another kind."""
    return int(name) if len(name) == NAME_DIGITS and name.isascii() and name.isdecimal() else None


class Piece(NamedTuple):
    """The part of a range that lies in one file."""

    file_start: int  # place of the file's first byte in the whole
    at: int  # where in the file the piece begins
    length: int


def pieces(position: int, length: int, file_bytes: int) -> Iterator[Piece]:
    """Cut *length* bytes from *position* of the whole on where files of *file_bytes* end."""
    end = position + length
    while position < end:
        at = position % file_bytes
        step = min(file_bytes - at, end - position)
        yield Piece(position - at, at, step)
        position += step
