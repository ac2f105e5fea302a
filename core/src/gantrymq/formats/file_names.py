"""Names of the files of a whole that is kept in pieces: the place of the first byte in it, in 20 decimal digits.

Commit log, consume queues, their ext files, batch queues and timer logs are such wholes.

Source: apache/rocketmq common/.../UtilAll.java (offset2FileName).
"""

from __future__ import annotations

__all__ = ["NAME_DIGITS", "file_name", "file_start"]

NAME_DIGITS = 20


def file_name(start: int) -> str:
    """The name of the file whose first byte is byte *start* of the whole."""
    return str(start).zfill(NAME_DIGITS)


def file_start(name: str) -> int | None:
    """What `file_name` was made from, or None for a name of another kind."""
    return int(name) if len(name) == NAME_DIGITS and name.isascii() and name.isdecimal() else None
