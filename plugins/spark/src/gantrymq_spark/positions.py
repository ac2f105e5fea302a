"""Where records start in the body of a pull reply."""

from __future__ import annotations

from typing import Any

import numpy as np

from gantrymq.formats.record import iter_records

__all__ = ["record_positions"]


def record_positions(data: bytes | bytearray | memoryview) -> Any:
    """Starts of the records that lie back to back in *data*, as an int64 array; all lengths are checked.

    Raises:
        FormatError: something that is no whole record.
    """
    starts, at = [], 0
    for record in iter_records(data):
        starts.append(at)
        at += record.total_size
    return np.array(starts, dtype=np.int64)
