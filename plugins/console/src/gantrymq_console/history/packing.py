"""How samples are written: rows of one subject over one period, and one sample of all subjects.

A row has the series of one subject, in the order of `KINDS`::

    one byte for each series: 0 unknown, 1 constant, 2 varying, and 4 added to the first byte if what follows the
        constants is compressed (raw deflate)
    float32 of each constant series
    the values of all varying series: of all values the fourth bytes, then the third ones, and so on

Values are little-endian float32; NaN is an unknown one. Of words that are not counts (`_COUNTS`) the last 12 bits are
left out, which leaves a relative error below 1/2048. The bytes are sorted by place because the upper ones hardly differ
and compress well.

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
from typing import Any, Final, TypeAlias

from gantrymq_console.history.reading import KINDS

KIND_NAMES: Final = tuple(KINDS)
"""Kinds by their number in the file."""
_COUNTS: Final = frozenset({"lag", "retries", "dead_letters", "replica_lag"})
_UNKNOWN, _CONSTANT, _VARYING, _COMPRESSED = 0, 1, 2, 4
_SECTION: Final = struct.Struct("<BBI")  # kind, place of the word, number of values
_FLOAT: Final = struct.Struct("<f")
_UPPER_HALF: Final = bytes(each & 0xF0 for each in range(256))
_SWAPPED: Final = sys.byteorder == "big"

Values: TypeAlias = "array[float]"
Column: TypeAlias = "Mapping[str, float | None]"


def pack_row(kind: str, series: Sequence[float | Values | None]) -> bytes:
    """Return the row of one subject; each series is one value, or the values of a varying one."""
    heads, constants, planes = bytearray(), b"", list[bytes]()
    for word, values in zip(KINDS[kind], series, strict=True):
        if values is None:
            heads.append(_UNKNOWN)
        elif isinstance(values, array):
            heads.append(_VARYING)
            planes += _planes(values, word in _COUNTS)
        else:
            heads.append(_CONSTANT)
            constants += _FLOAT.pack(values)
    body = b"".join(planes)
    if body:
        packed = zlib.compress(body, 6, -15)
        if len(packed) < len(body):
            heads[0] |= _COMPRESSED
            body = packed
    return bytes(heads) + constants + body


def unpack_row(kind: str, data: bytes, count: int) -> list[float | Values | None]:
    """Return the series of a row over *count* samples.

    Raises:
        ValueError: the row is damaged.
    """
    words = KINDS[kind]
    try:
        heads = [each & 3 for each in data[: len(words)]]
        body_at = len(words) + _FLOAT.size * heads.count(_CONSTANT)
        body = zlib.decompress(data[body_at:], -15) if data[0] & _COMPRESSED else data[body_at:]
        found, at, constant_at = list[Any](), 0, len(words)
        for word, head in zip(words, heads, strict=True):
            if head == _UNKNOWN:
                found.append(None)
            elif head == _CONSTANT:
                found.append(_FLOAT.unpack_from(data, constant_at)[0])
                constant_at += _FLOAT.size
            else:
                size = count * (4 if word in _COUNTS else 3)
                found.append(_values(body[at : at + size], count, word in _COUNTS))
                at += size
    except (zlib.error, struct.error, IndexError) as problem:
        raise ValueError(f"a row is damaged: {problem}") from None
    return found


def _planes(values: Values, exact: bool) -> list[bytes]:
    data = _little_endian(values)
    upper = [data[3::4], data[2::4]]
    return [*upper, data[1::4], data[0::4]] if exact else [*upper, data[1::4].translate(_UPPER_HALF)]


def _values(planes: bytes, count: int, exact: bool) -> Values:
    data = bytearray(4 * count)
    for number in range(4 if exact else 3):
        data[3 - number :: 4] = planes[number * count : (number + 1) * count]
    return _floats(bytes(data))


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
    except (zlib.error, struct.error, IndexError) as problem:
        raise ValueError(f"a sample is damaged: {problem}") from None


def known(value: float) -> float | None:
    """Return a stored value, None for NaN; rounded, as float32 has seven digits."""
    return None if math.isnan(value) else round(value, 3)
