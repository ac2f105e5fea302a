"""How samples are written: rows of one subject over one period, and one sample of all subjects.

A row has the series of one subject, in the order of `KINDS`::

    one byte for each series: 0 unknown, 1 constant, 2 varying, 3 whole numbers as differences; and 4 added to the first
        byte if what follows the constants is compressed (raw deflate)
    float32 of each constant series, and the first value of each one of differences
    the values of the other series, little-endian, sorted by place: of all values the last bytes, then the ones before,
        and so on, because the upper ones hardly differ and compress well

Counts (`_COUNTS`) are int16 differences to the value before, if they are known and small; otherwise all values are
float32, NaN if unknown. Of words that are not counts the last 12 bits are left out, which leaves 20 bits and a relative
error below 1/2048.

A sample has a section for each of its kinds and series: header, numbers of subjects, and their values as float32. It is
compressed (zlib) as a whole.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from operator import sub
from typing import Any, Final, TypeAlias

from gantrymq_console.history.reading import KINDS

KIND_NAMES: Final = tuple(KINDS)
"""Kinds by their number in the file."""
_COUNTS: Final = frozenset({"lag", "retries", "dead_letters", "replica_lag"})
_UNKNOWN, _CONSTANT, _VARYING, _DIFFERENCES, _COMPRESSED = range(5)
_SECTION: Final = struct.Struct("<BBI")  # kind, place of the word, number of values
_FLOAT: Final = struct.Struct("<f")
_EXACT: Final = float(2**24)  # whole numbers below this are exact in float32
_SWAPPED: Final = sys.byteorder == "big"

Values: TypeAlias = "array[float]"
Column: TypeAlias = "Mapping[str, float | None]"


def pack_row(kind: str, series: Sequence[float | Values | None]) -> bytes:
    """Return the row of one subject; each series is one value, or the values of a varying one."""
    heads, constants, planes = bytearray(), b"", list[bytes]()
    for word, values in zip(KINDS[kind], series, strict=True):
        if values is None:
            heads.append(_UNKNOWN)
        elif not isinstance(values, array):
            heads.append(_CONSTANT)
            constants += _FLOAT.pack(values)
        elif word not in _COUNTS:
            heads.append(_VARYING)
            planes += _rounded(_little_endian(values))
        elif (differences := _differences(values)) is not None:
            heads.append(_DIFFERENCES)
            constants += _FLOAT.pack(values[0])
            planes += [differences[1::2], differences[0::2]]
        else:
            heads.append(_VARYING)
            data = _little_endian(values)
            planes += [data[3::4], data[2::4], data[1::4], data[0::4]]
    body = b"".join(planes)
    if body:
        packed = zlib.compress(body, 6, -15)
        if len(packed) < len(body):
            heads[0] |= _COMPRESSED
            body = packed
    return bytes(heads) + constants + body


def unpack_row(kind: str, data: bytes, count: int, only: int | None = None) -> list[float | Values | None]:
    """Return the series of a row.

    Args:
        kind: of the subject.
        data: the row.
        count: samples in the period.
        only: place of the only series that is needed; others that vary are None.

    Raises:
        ValueError: the row is damaged.
    """
    words = KINDS[kind]
    try:
        if not count:
            raise IndexError("it is of a period without samples")
        heads = [each & 3 for each in data[: len(words)]]
        body_at = len(words) + _FLOAT.size * (heads.count(_CONSTANT) + heads.count(_DIFFERENCES))
        body = zlib.decompress(data[body_at:], -15) if data[0] & _COMPRESSED else data[body_at:]
        found, at, constant_at = list[Any](), 0, len(words)
        for word, head in zip(words, heads, strict=True):
            if head == _UNKNOWN:
                found.append(None)
                continue
            if head != _VARYING:
                constant = _FLOAT.unpack_from(data, constant_at)[0]
                constant_at += _FLOAT.size
            if head == _CONSTANT:
                found.append(constant)
                continue
            size = _size(head, word, count)
            part = body[at : at + size]
            if len(part) < size:
                raise IndexError("it is too short")
            at += size
            if only is not None and len(found) != only:
                found.append(None)
            elif head == _DIFFERENCES:
                found.append(_summed(constant, part, count))
            elif word in _COUNTS:
                found.append(_joined([part[number * count : (number + 1) * count] for number in range(4)]))
            else:
                found.append(_joined([part[:count], part[count : 2 * count], _spread(part[2 * count :])[:count]]))
    except (zlib.error, struct.error, IndexError, TypeError) as problem:
        raise ValueError(f"a row is damaged: {problem}") from None
    return found


def _size(head: int, word: str, count: int) -> int:
    """Return the bytes of the values of a series."""
    if head == _DIFFERENCES:
        return 2 * (count - 1)
    return 4 * count if word in _COUNTS else 2 * count + (count + 1) // 2


def _rounded(data: bytes) -> list[bytes]:
    """Return the upper 20 bits of float32 values by place."""
    halves = data[1::4].hex()[0::2]
    return [data[3::4], data[2::4], bytes.fromhex(halves + "0" * (len(halves) % 2))]


def _spread(halves: bytes) -> bytes:
    """Return a byte for each half of a byte, which is its upper half."""
    return bytes.fromhex("0".join(halves.hex()) + "0") if halves else b""


def _joined(planes: Sequence[bytes]) -> Values:
    """Return values from their bytes by place, the last ones first; the places that are left out are 0."""
    data = bytearray(4 * len(planes[0]))
    for number, plane in enumerate(planes):
        data[3 - number :: 4] = plane
    return _floats(bytes(data))


def _differences(values: Values) -> bytes | None:
    """Return whole numbers as differences; None if one is unknown, not whole or not exact, or a difference is large."""
    try:
        numbers = list(map(int, values))
        differences = array("h", map(sub, numbers[1:], numbers))
    except (ValueError, OverflowError):
        return None
    if numbers != values.tolist() or max(numbers) >= _EXACT or min(numbers) <= -_EXACT:
        return None
    if _SWAPPED:
        differences.byteswap()
    return differences.tobytes()


def _summed(first: float, planes: bytes, count: int) -> Values:
    data = bytearray(2 * (count - 1))
    data[1::2], data[0::2] = planes[: count - 1], planes[count - 1 :]
    differences = array("h", bytes(data))
    if _SWAPPED:
        differences.byteswap()
    return array("f", accumulate(differences, initial=first))


def _little_endian(values: Values) -> bytes:
    if _SWAPPED:
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _floats(data: bytes) -> Values:
    values = array("f", data)
    if _SWAPPED:
        values.byteswap()
    return values


def pack_sample(sections: Sequence[tuple[str, int, array[int], Values]]) -> bytes:
    """Return one sample; a section has the kind, the place of the word, the subjects and their values."""
    parts = []
    for kind, place, subjects, values in sections:
        parts.append(_SECTION.pack(KIND_NAMES.index(kind), place, len(values)))
        if _SWAPPED:
            subjects = subjects[:]
            subjects.byteswap()
        parts += [subjects.tobytes(), _little_endian(values)]
    return zlib.compress(b"".join(parts), 1)


def unpack_sample(data: bytes) -> Iterator[tuple[str, int, array[int], Values]]:
    """Return the sections of a sample.

    Raises:
        ValueError: the sample is damaged.
    """
    try:
        body, at = zlib.decompress(data), 0
        while at < len(body):
            kind, place, count = _SECTION.unpack_from(body, at)
            at += _SECTION.size
            subjects = array("I", body[at : at + 4 * count])
            if _SWAPPED:
                subjects.byteswap()
            at += 4 * count
            yield KIND_NAMES[kind], place, subjects, _floats(body[at : at + 4 * count])
            at += 4 * count
    except (zlib.error, struct.error, IndexError, TypeError) as problem:
        raise ValueError(f"a sample is damaged: {problem}") from None


def known(value: float) -> float | None:
    """Return a stored value, None for NaN; rounded, as float32 has seven digits."""
    return None if math.isnan(value) else round(value, 3)
