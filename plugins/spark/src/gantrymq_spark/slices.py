"""Arrow arrays of slices of one buffer, gathered by Arrow without a Python object for each slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


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
