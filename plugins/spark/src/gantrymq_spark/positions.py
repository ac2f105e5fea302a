"""The starts of records in the body of a pull reply."""

from __future__ import annotations

from typing import Any

import numpy as np

from gantrymq.formats.record import read_record
from gantrymq_spark.record_run import whole_records

__all__ = ["record_positions"]


def record_positions(data: bytes | bytearray | memoryview) -> Any:
    """Return the starts of the consecutive records in *data* as an int64 array.

    Lengths and topics are checked. CRCs are not, because the client checks them when it reads the reply's records.

    Raises:
        FormatError: *data* contains anything but complete records.
    """
    view, found, at = memoryview(data), [], 0
    while at < len(view):
        many = whole_records(view[at:])
        if many is None:
            found.append(np.array([at], dtype=np.int64))
            at += read_record(view, at).total_size
        else:
            found.append(many.fields.at + at)
            at += int(many.fields.ends()[-1])
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
