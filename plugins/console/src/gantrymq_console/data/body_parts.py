"""A part of a large body, and a search in all of it, while it is decompressed part by part.

Memory is for one part and the result, whatever the size of the body. No more is decompressed than a part needs; for the
last part, or a search, all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from gantrymq.errors import GantryError
from gantrymq_console.data.body_forms import CHARSETS, decode
from gantrymq_console.values import Long

READ_BYTES: Final = 256 * 1024  # decompressed at a time
MOST_HITS: Final = 50
_BESIDE: Final = 40  # bytes of the body shown before and behind a hit
_MOST_WANTED: Final = 1000  # characters of the text to find


@attrs.frozen
class Part:
    """Bytes of a body."""

    start: int
    data: bytes
    size: int | None  # of the whole body; None if the end was not reached
    problem: str = ""  # why the part ends early


def part_of(parts: Iterator[bytes], start: int | None, length: int) -> Part:
    """Return *length* bytes from *start* on; the last ones if *start* is None or after the end."""
    kept, end, problem = bytearray(), 0, ""  # kept: the bytes before *end*
    try:
        for each in parts:
            kept += each
            end += len(each)
            if start is not None and end > start + length:
                first = len(kept) - (end - start)
                return Part(start, bytes(kept[first : first + length]), None)
            del kept[: max(0, len(kept) - length)]  # the part has not begun before those
    except GantryError as error:
        problem = str(error)
    if start is not None and start < end:
        del kept[: len(kept) - (end - start)]
    return Part(end - len(kept), bytes(kept), None if problem else end, problem)


@attrs.frozen
class Hit:
    """One place where the text was found."""

    offset: Long
    before: str
    found: str
    behind: str


@attrs.frozen
class Hits:
    """The result of a search in a body."""

    wanted: str
    count: int  # all of them
    hits: tuple[Hit, ...]  # the first
    searched: Long  # bytes
    problem: str = ""  # why the rest of the body was not searched
    unwritable: bool = False  # whether the charset has not all the characters


def find(parts: Iterator[bytes], wanted: str, charset: str) -> Hits:
    """Return where *wanted* is in a body: bytes written as ``0x`` and hexadecimal digits, or text of the charset."""
    needle = _needle(wanted[:_MOST_WANTED], charset)
    if not needle:
        return Hits(wanted, 0, (), Long(0), unwritable=True)
    hits: list[Hit] = []
    count = end = after = 0  # after: where the next hit may begin
    window = b""
    problem = ""
    try:
        for each in parts:
            window += each
            end += len(each)
            begin = end - len(window)
            while len(hits) < MOST_HITS and (at := window.find(needle, after - begin)) >= 0:
                count, after = count + 1, begin + at + len(needle)
                hits.append(_hit(window, at, len(needle), begin, charset))
            if len(hits) == MOST_HITS:  # further ones are only counted: there may be one for each byte
                between = window[after - begin :].split(needle)
                count += len(between) - 1
                after = end - len(between[-1])
            after = max(after, end - len(needle) + 1)
            window = window[max(0, after - begin - _BESIDE) :]
    except GantryError as error:
        problem = str(error)
    return Hits(wanted, count, tuple(hits), Long(end), problem)


def _needle(wanted: str, charset: str) -> bytes:
    if wanted.startswith("0x"):
        try:
            return bytes.fromhex(wanted[2:])
        except ValueError:
            pass
    try:
        return wanted.encode(CHARSETS[charset])
    except UnicodeEncodeError:
        return b""


def _hit(window: bytes, at: int, length: int, begin: int, charset: str) -> Hit:
    behind = at + length
    texts = window[max(0, at - _BESIDE) : at], window[at:behind][: 2 * _BESIDE], window[behind : behind + _BESIDE]
    return Hit(Long(begin + at), *(decode(each, charset) for each in texts))
