"""Columns of records that a compiled function builds as Arrow buffers; `records` has the Python version of each.

The compiled function leaves out a column if a record has unusual content: IPv6 hosts, texts that are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gantrymq.plugin import speedups
from gantrymq_spark.columns import COLUMNS, HOSTS, NUMBERS, PROPERTIES, TIMES
from gantrymq_spark.record_columns import FORMAT, field_at
from gantrymq_spark.records import FIRST_MS, LAST_MS

_INT32, _INT64, _TIME, _HOST, _TOPIC, _BODY, _OFFSET_ID, _PROPERTY, _MAP = range(9)  # kinds of the compiled function
_QUEUE_OFFSET = "queueOffset"
_NUMBERS = {**NUMBERS, "sysFlag": "sys_flag", _QUEUE_OFFSET: "queue_offset"}

COMPILED: dict[str, tuple[int, int, bytes]] = {  # name: kind, position in the head, name of a property
    "topic": (_TOPIC, 0, b""),
    "body": (_BODY, 0, b""),
    "msgId": (_OFFSET_ID, 0, b""),
    "properties": (_MAP, 0, b""),
    **{name: (_INT64 if COLUMNS[name] == pa.int64() else _INT32, field_at(_NUMBERS[name]), b"") for name in _NUMBERS},
    **{name: (_TIME, field_at(field), b"") for name, field in TIMES.items()},
    **{name: (_HOST, field_at(field), b"") for name, field in HOSTS.items()},
    **{name: (_PROPERTY, 0, key.encode()) for name, key in PROPERTIES.items()},
}


def compiled_columns(
    data: bytes | bytearray | memoryview, starts: Any, names: Sequence[str], queue_offset_delta: int
) -> dict[str, pa.Array]:
    """Return columns by name; none without compiled functions.

    Args:
        data: complete, sound records; shorter than 2 GiB.
        starts: int64, their positions.
        names: of columns in `COMPILED`. Bodies and flags are those stored.
        queue_offset_delta: entries, added to each queue offset.
    """
    if speedups.compiled is None or not names:
        return {}
    wanted = []
    for name in names:
        kind, at, key = COMPILED[name]
        wanted.append((kind, at, queue_offset_delta if name == _QUEUE_OFFSET else 0, key))
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    found = speedups.compiled.record_columns(FORMAT, (FIRST_MS, LAST_MS), data, starts, tuple(wanted))
    return {
        name: _array(name, len(starts), buffers)
        for name, buffers in zip(names, found, strict=True)
        if buffers is not None
    }


def _array(name: str, count: int, buffers: tuple[bytearray, ...]) -> pa.Array:
    kind = COMPILED[name][0]
    made = [pa.py_buffer(buffer) for buffer in buffers]
    if kind == _MAP:
        firsts, name_offsets, names, value_offsets, values = made
        pairs = len(buffers[1]) // 4 - 1
        children = [
            pa.Array.from_buffers(pa.string(), pairs, [None, name_offsets, names]),
            pa.Array.from_buffers(pa.string(), pairs, [None, value_offsets, values]),
        ]
        column = COLUMNS[name]
        entries = pa.StructArray.from_arrays(children, fields=[column.key_field, column.item_field])
        return pa.Array.from_buffers(column, count, [None, firsts], children=[entries])
    has_nulls = kind in (_TIME, _PROPERTY)
    return pa.Array.from_buffers(COLUMNS[name], count, made if has_nulls else [None, *made])
