"""The properties of many records at once: stored texts, the map column, and single properties.

    name 0x01 value 0x02 name 0x01 value 0x02 ...

The rules are those of `gantrymq.model.properties`: the first 0x01 of a piece splits it, pieces without a name or a
value are dropped, of equal names the last counts, the last 0x02 is optional. Texts are processed as bytes, because
UTF-8 sequences never contain these separators; a batch with a text that is not UTF-8 is decoded record by record first.
Slices of one buffer are gathered by Arrow, without a Python object for each slice.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.record_columns import gather

_NAMES_IN_BITS = 40  # a text has at most 8,191 pairs (13 bits), so sums of this many different bits fit in 64


def slices(data: Any, starts: Any, ends: Any, kind: Any) -> pa.Array:
    """Return copies of the slices ``data[starts[n]:ends[n]]``.

    Slices and the gaps between them together are one array over *data* itself; every other element of it is taken.

    Args:
        data: a buffer, shorter than 2 GiB.
        starts: int64, of each slice; ``ends[n] <= starts[n + 1]``.
        ends: int64, the exclusive end of each slice.
        kind: the Arrow type, binary or string; UTF-8 of strings is not checked.
    """
    count = len(starts)
    offsets = np.empty(max(2 * count, 1), dtype=np.int32)
    offsets[:1] = 0
    offsets[0 : 2 * count : 2] = starts
    offsets[1 : 2 * count : 2] = ends
    places = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, max(2 * count - 1, 0), buffers).take(places)


def strings_of_one_length(characters: Any) -> pa.Array:
    """Return strings from a matrix of ASCII bytes, one in each row."""
    count, length = characters.shape
    offsets = np.arange(0, (count + 1) * length, length, dtype=np.int32) if length else np.zeros(count + 1, np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(characters))]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def merged(parts: list[tuple[Any, pa.Array]]) -> pa.Array:
    """Return one array of *parts*, each with its row indexes (ascending int64) and its values."""
    if len(parts) == 1:
        return parts[0][1]
    rows = np.concatenate([rows for rows, _ in parts])
    order = np.empty(len(rows), dtype=np.int64)
    order[rows] = np.arange(len(rows))
    return pa.concat_arrays([values for _, values in parts]).take(pa.array(order))


class PropertyTexts:
    """The property texts of many records."""

    def __init__(self, stored: pa.Array) -> None:
        """*stored*: the stored texts, a binary array without nulls that is not a slice of another array."""
        self._offsets = np.frombuffer(stored.buffers()[1], dtype=np.int32)[: len(stored) + 1].astype(np.int64)
        text = stored.buffers()[2]
        self._text = np.frombuffer(b"" if text is None else text, dtype=np.uint8)[: self._offsets[-1]]
        if not self._is_utf8():
            self._rewrite()
        self._find_pairs()

    def _is_utf8(self) -> bool:
        if not len(self._text) or int(np.max(self._text)) < 128:
            return True
        buffers = [None, pa.py_buffer(self._offsets.astype(np.int32)), pa.py_buffer(self._text)]
        try:
            pa.Array.from_buffers(pa.string(), len(self._offsets) - 1, buffers).validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True

    def _rewrite(self) -> None:
        """Replace invalid UTF-8 by U+FFFD, as the decoder does."""
        raw, edges = self._text.tobytes(), self._offsets.tolist()
        texts = [raw[start:end].decode("utf-8", "replace").encode() for start, end in pairwise(edges)]
        self._offsets = np.cumsum([0, *map(len, texts)])
        self._text = np.frombuffer(b"".join(texts), dtype=np.uint8)

    def _find_pairs(self) -> None:
        text, offsets = self._text, self._offsets
        marks, closed = np.flatnonzero(text == 1), np.flatnonzero(text == 2)
        filled = offsets[1:] > offsets[:-1]
        last = offsets[1:][filled]
        open_ends = last[text[last - 1] != 2]
        if len(open_ends):  # older clients omit the last separator
            stops, next_starts = np.concatenate([closed, open_ends]), np.concatenate([closed + 1, open_ends])
            order = np.argsort(next_starts, kind="stable")
            stops, next_starts = stops[order], next_starts[order]
        else:
            stops, next_starts = closed, closed + 1
        starts = np.concatenate([[0], next_starts[:-1]])[: len(stops)]
        if not (len(marks) == len(stops) and (starts < marks).all() and (marks + 1 < stops).all()):
            found = np.searchsorted(marks, starts)
            first = np.append(marks, len(text))[found]  # 0x01 of the piece, or one after it
            good = (first > starts) & (first + 1 < stops)
            starts, marks, stops = starts[good], first[good], stops[good]
        self._starts, self._marks, self._stops = starts, marks, stops
        self._first_pairs = np.searchsorted(starts, offsets)

    @cached_property
    def _names(self) -> pa.Array:
        return slices(self._text, self._starts, self._marks, pa.string())

    def maps(self) -> pa.Array:
        """Return the map column."""
        names = self._names
        values = slices(self._text, self._marks + 1, self._stops, pa.string())
        first = self._first_pairs
        kept = self._last_of_equal_names(names)
        if kept is not None:
            places = pa.array(kept)
            names, values, first = names.take(places), values.take(places), np.searchsorted(kept, first)
        return pa.MapArray.from_arrays(pa.array(first.astype(np.int32)), names, values).cast(COLUMNS["properties"])

    def _last_of_equal_names(self, names: pa.Array) -> Any:
        """Return the indexes of pairs to keep, None for all."""
        if not len(names):
            return None
        coded = names.dictionary_encode()
        codes = coded.indices.to_numpy().astype(np.int64)
        filled = self._first_pairs[:-1][np.diff(self._first_pairs) > 0]
        if len(coded.dictionary) <= _NAMES_IN_BITS:
            bits = np.int64(1) << codes
            if (np.add.reduceat(bits, filled) == np.bitwise_or.reduceat(bits, filled)).all():
                return None
        records = np.searchsorted(filled, np.arange(len(codes)), side="right")
        keys = records * len(coded.dictionary) + codes
        _, from_end = np.unique(keys[::-1], return_index=True)
        return np.sort(len(keys) - 1 - from_end)

    def values(self, name: str) -> pa.Array:
        """Return the property *name* of each record, null if it is missing."""
        wanted = name.encode()
        chosen = np.flatnonzero(self._marks - self._starts == len(wanted))
        chosen = chosen[gather(self._text, self._starts[chosen], len(wanted)) == np.void(wanted)]
        records = np.searchsorted(self._first_pairs, chosen, side="right") - 1
        last = np.append(records[1:] != records[:-1], True)[: len(records)]
        chosen, records = chosen[last], records[last]
        found = slices(self._text, self._marks[chosen] + 1, self._stops[chosen], pa.string())
        count = len(self._offsets) - 1
        if len(found) == count:
            return found
        places, missing = np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
        places[records], missing[records] = np.arange(len(records)), False
        return found.take(pa.array(places, mask=missing))
