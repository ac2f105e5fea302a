"""Names of files of one size that form one whole, and the parts of a range that fall into each file.

A file is named by the position of its first byte in the whole, in 20 decimal digits. Commit log, consume queues, their
ext files, batch queues and timer logs are stored this way.

Source: apache/rocketmq common/.../UtilAll.java (offset2FileName).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

NAME_DIGITS = 20


def file_name(start: int) -> str:
    """Return the name of the file whose first byte is byte *start* of the whole."""
    return str(start).zfill(NAME_DIGITS)


def file_start(name: str) -> int | None:
    """Return the position that *name* stands for, or None if it is not such a name."""
    return int(name) if len(name) == NAME_DIGITS and name.isascii() and name.isdecimal() else None


class Piece(NamedTuple):
    """The part of a range that is in one file."""

    file_start: int  # position of the file's first byte in the whole
    at: int  # position in the file
    length: int


def pieces(position: int, length: int, file_bytes: int) -> Iterator[Piece]:
    """Split *length* bytes at *position* of the whole at the ends of files of *file_bytes*."""
    end = position + length
    while position < end:
        at = position % file_bytes
        step = min(file_bytes - at, end - position)
        yield Piece(position - at, at, step)
        position += step
