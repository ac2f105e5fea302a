"""Stored records as Arrow batches with the columns of `columns`: what a log holds and what a pull reply carries.

Numbers are gathered into NumPy columns, bytes by Arrow. Python has objects for what there is little of: topics, hosts,
compressed bodies. Records are taken as sound; `positions.record_positions` finds those of a reply, `log_scan` those of
a log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gantrymq.errors import FormatError
from gantrymq.formats.compression import decompress
from gantrymq.formats.record import PROPERTIES_LENGTH
from gantrymq.model.hosts import host_text
from gantrymq.model.properties import KEYS, TAGS, UNIQ_KEY
from gantrymq.model.sys_flag import COMPRESSED
from gantrymq_spark.columns import COLUMNS, schema
from gantrymq_spark.property_texts import PropertyTexts
from gantrymq_spark.record_fields import RecordFields
from gantrymq_spark.slices import merged, slices, strings_of_one_length

__all__ = ["NO_LOG", "record_batch"]

NO_LOG = -1  # for data that is no stretch of a log
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # years 1 to 9999
_NUMBERS = {  # columns that stand in the record's head as they are
    "queueId": "queue_id",
    "storeSize": "total_size",
    "flag": "flag",
    "bodyCRC": "body_crc",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_offset",
}
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)


def record_batch(
    data: bytes | bytearray | memoryview,
    positions: Any,
    log_offset_of_data: int,
    broker_name: str | None,
    queue_names: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    stored_bodies: bool = False,
    queue_offset_delta: int = 0,
) -> pa.RecordBatch:
    """One row for each record.

    Args:
        data: whole, sound records; shorter than 2 GiB.
        positions: int64 array, where in *data* a record starts, ascending.
        log_offset_of_data: log offset of its first byte; `NO_LOG` for a pull reply, whose records say it themselves.
        broker_name: for the column brokerName; None where it is not known.
        queue_names: the name to show for a topic as it is stored, for those that have another one (namespaces).
        columns: which, in what order; None for all.
        stored_bodies: True leaves bodies compressed that are stored so.
        queue_offset_delta: entries, added to each queue offset (static topics).

    Raises:
        InvalidParameter: a column that does not exist.
        ClientError: a body is compressed in a way whose package is not installed; the sentence names it.
    """
    wanted = schema(columns)
    places = np.asarray(positions, dtype=np.int64)
    if not len(places):
        return pa.RecordBatch.from_pylist([], schema=wanted)
    records = _Records(data, places, stored_bodies)
    made_by: dict[str, Callable[[], pa.Array]] = {
        "topic": lambda: records.topics(queue_names or {}),
        "brokerName": lambda: pa.repeat(pa.scalar(broker_name, pa.string()), len(places)),
        "queueOffset": lambda: pa.array(records.fields.column("queue_offset") + np.int64(queue_offset_delta)),
        "commitLogOffset": lambda: pa.array(records.log_offsets(log_offset_of_data)),
        "sysFlag": lambda: pa.array(records.sys_flags()),
        "body": lambda: records.bodies[0],
        "properties": lambda: records.properties.maps(),
        "keys": lambda: records.properties.values(KEYS),
        "tags": lambda: records.properties.values(TAGS),
        "uniqueKey": lambda: records.properties.values(UNIQ_KEY),
        "msgId": lambda: records.offset_ids(log_offset_of_data),
        "bornTimestamp": lambda: records.times("born_timestamp"),
        "bornHost": lambda: records.hosts("born_host"),
        "storeTimestamp": lambda: records.times("store_timestamp"),
        "storeHost": lambda: records.hosts("store_host"),
    }
    arrays = []
    for name in wanted.names:
        maker = made_by.get(name)
        arrays.append(pa.array(records.fields.column(_NUMBERS[name])) if maker is None else maker())
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


class _Records:
    """What columns are made of; each part is made when a column first needs it."""

    def __init__(self, data: bytes | bytearray | memoryview, places: Any, stored_bodies: bool) -> None:
        self._data = data
        self._stored_bodies = stored_bodies
        self.fields = RecordFields(np.frombuffer(data, dtype=np.uint8), places)

    @cached_property
    def _body_places(self) -> tuple[Any, Any]:
        return self.fields.body_starts(), self.fields.body_ends()

    @cached_property
    def _topic_places(self) -> tuple[Any, Any]:
        return self.fields.topics(self._body_places[1])

    @cached_property
    def properties(self) -> PropertyTexts:
        """The property texts."""
        return PropertyTexts(self._data, self._topic_places[1] + PROPERTIES_LENGTH.size, self.fields.ends())

    def topics(self, shown: Mapping[str, str]) -> pa.Array:
        """Names of topics."""
        coded = slices(self._data, *self._topic_places, pa.binary()).dictionary_encode()
        names = [raw.decode("utf-8", "replace") for raw in coded.dictionary.to_pylist()]
        return pa.array([shown.get(name, name) for name in names], pa.string()).take(coded.indices)

    def log_offsets(self, log_offset_of_data: int) -> Any:
        """Places in the log: bytes."""
        return self.fields.column("log_offset") if log_offset_of_data < 0 else self.fields.at + log_offset_of_data

    @cached_property
    def bodies(self) -> tuple[pa.Array, Any]:
        """Bodies, and the rows whose body was decompressed."""
        starts, ends = self._body_places
        flags = self.fields.column("sys_flag")
        packed = flags & COMPRESSED != 0
        if self._stored_bodies or not packed.any():
            return slices(self._data, starts, ends, pa.binary()), np.zeros(0, dtype=np.int64)
        plain, rows = np.flatnonzero(~packed), np.flatnonzero(packed)
        view = memoryview(self._data)
        found, opened = [], np.zeros(len(rows), dtype=bool)
        for number, row in enumerate(rows.tolist()):
            body = view[starts[row] : ends[row]]
            try:
                found.append(decompress(body, int(flags[row])))
                opened[number] = True
            except FormatError:
                found.append(bytes(body))
        parts = [(rows, pa.array(found, pa.binary()))]
        if len(plain):
            parts.append((plain, slices(self._data, starts[plain], ends[plain], pa.binary())))
        return merged(parts), rows[opened]

    def sys_flags(self) -> Any:
        """Flags, of rows whose body is decompressed without the bit."""
        flags = self.fields.column("sys_flag")
        if self._stored_bodies or not (flags & COMPRESSED).any():
            return flags
        flags = flags.copy()
        flags[self.bodies[1]] &= ~COMPRESSED
        return flags

    def times(self, name: str) -> pa.Array:
        """A time, null where no calendar has it."""
        times = self.fields.column(name)
        odd = (times < _FIRST_MS) | (times > _LAST_MS)
        if odd.any():
            return pa.array(np.where(odd, 0, times) * 1000, COLUMNS["bornTimestamp"], mask=odd)
        return pa.array(times * 1000, COLUMNS["bornTimestamp"])

    def hosts(self, name: str) -> pa.Array:
        """A host as ``ip:port``."""
        parts = []
        for rows, packed in self.fields.hosts(name):
            buffers = [None, pa.py_buffer(packed)]
            coded = pa.Array.from_buffers(pa.binary(packed.shape[1]), len(rows), buffers).dictionary_encode()
            texts = pa.array([host_text(each) for each in coded.dictionary.to_pylist()], pa.string())
            parts.append((rows, texts.take(coded.indices)))
        return merged(parts)

    def offset_ids(self, log_offset_of_data: int) -> pa.Array:
        """Message ids that say where a message lies."""
        log_offsets = self.log_offsets(log_offset_of_data).astype(">i8").view(np.uint8).reshape(-1, 8)
        parts = []
        for rows, packed in self.fields.hosts("store_host"):
            raw = np.concatenate([packed, log_offsets if len(rows) == len(log_offsets) else log_offsets[rows]], axis=1)
            parts.append((rows, strings_of_one_length(_HEX[raw].view(np.uint8))))
        return merged(parts)
