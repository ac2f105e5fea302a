"""Stored records as columns; each column is built on first use.

Numbers are gathered into NumPy columns, bytes by Arrow. Python objects are used only for few values: topics, hosts,
compressed bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.errors import FormatError, GantryError
from gantrymq.plugin.formats import PROPERTIES_LENGTH, RecordView, decompress, read_record
from gantrymq.plugin.model import host_text
from gantrymq.plugin.sys_flag import COMPRESSED
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.inner_batches import unwrapped
from gantrymq_spark.property_texts import PropertyTexts, merged, slices, strings_of_one_length
from gantrymq_spark.record_columns import SYS_FLAG_AT, RecordFields, gather

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # years 1 to 9999
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)


class Bodies(NamedTuple):
    """Decompressed bodies of records."""

    plain: pa.Array  # binary; null if a body cannot be decompressed
    opened: Any  # int64, the indexes of rows that were decompressed
    problems: dict[int, str]  # by row: why the body cannot be decompressed


class Records:
    """The sound records that start at *at* in *data*."""

    def __init__(self, data: bytes | bytearray | memoryview, at: Any) -> None:
        """*data*: shorter than 2 GiB; *at*: int64, ascending."""
        self.data = data
        self.starts = at

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def fields(self) -> RecordFields:
        """The heads of the records as columns."""
        return RecordFields(np.frombuffer(self.data, dtype=np.uint8), self.starts)

    def at(self, rows: Any) -> Records:
        """Return some of the records: *rows* is an array of booleans or of ascending indexes."""
        return Records(self.data, self.starts[rows])

    def last(self, count: int) -> list[RecordView]:
        """Return up to *count* of the last records."""
        return [read_record(self.data, start) for start in self.starts[-count:].tolist()]

    def unwrapped(self) -> Records:
        """Return the same records with inner batches split into one record for each message."""
        data, at = unwrapped(self.data, self.starts)
        return self if data is self.data else Records(data, at)

    def check_log_offsets(self, log_offset_of_data: int) -> None:
        """Raise FormatError if a record states another log offset than its own."""
        said, actual = self.fields.column("log_offset"), self.fields.at + log_offset_of_data
        wrong = np.flatnonzero(said != actual)
        if len(wrong):
            raise FormatError(f"record at log offset {actual[wrong[0]]}: it states log offset {said[wrong[0]]}")

    # --- topics and properties --------------------------------------------------------------------------------------

    @cached_property
    def body_places(self) -> tuple[Any, Any]:
        """Starts and ends of bodies in the data."""
        return self.fields.body_starts(), self.fields.body_ends()

    @cached_property
    def topic_places(self) -> tuple[Any, Any]:
        """Starts and ends of topics in the data."""
        return self.fields.topics(self.body_places[1])

    @cached_property
    def coded_topics(self) -> tuple[list[bytes], pa.Array]:
        """The distinct topics, and the index of each record's topic."""
        coded = slices(self.data, *self.topic_places, pa.binary()).dictionary_encode()
        return coded.dictionary.to_pylist(), coded.indices

    @cached_property
    def property_bytes(self) -> pa.Array:
        """The stored property texts as a contiguous array."""
        return slices(self.data, self.topic_places[1] + PROPERTIES_LENGTH.size, self.fields.ends(), pa.binary())

    @cached_property
    def properties(self) -> PropertyTexts:
        """The properties."""
        return PropertyTexts(self.property_bytes)

    def topics(self, shown: Mapping[str, str]) -> pa.Array:
        """Return topic names; *shown* maps stored names to names to show."""
        names, indices = self.coded_topics
        texts = [raw.decode("utf-8", "replace") for raw in names]
        return pa.array([shown.get(text, text) for text in texts], pa.string()).take(indices)

    # --- bodies -----------------------------------------------------------------------------------------------------

    def stored_bodies(self) -> pa.Array:
        """Return bodies as stored."""
        return slices(self.data, *self.body_places, pa.binary())

    @cached_property
    def has_compressed_bodies(self) -> bool:
        """Whether any body is stored compressed."""
        flags = gather(np.frombuffer(self.data, dtype=np.uint8), self.starts + SYS_FLAG_AT, 4).view(">i4")
        return bool((flags & COMPRESSED).any())

    @cached_property
    def bodies(self) -> Bodies:
        """The decompressed bodies."""
        flags = self.fields.column("sys_flag")
        packed = flags & COMPRESSED != 0
        if not self.has_compressed_bodies:
            return Bodies(self.stored_bodies(), np.zeros(0, dtype=np.int64), {})
        (starts, ends), rows, plain = self.body_places, np.flatnonzero(packed), np.flatnonzero(~packed)
        view = memoryview(self.data)
        found: list[bytes | None] = []
        problems: dict[int, str] = {}
        for row in rows.tolist():
            try:
                found.append(decompress(view[starts[row] : ends[row]], int(flags[row])))
            except GantryError as problem:
                found.append(None)
                problems[row] = str(problem)
        parts = [(rows, pa.array(found, pa.binary()))]
        if len(plain):
            parts.append((plain, slices(self.data, starts[plain], ends[plain], pa.binary())))
        opened = [row for row in rows.tolist() if row not in problems]
        return Bodies(merged(parts), np.array(opened, dtype=np.int64), problems)

    def kept_bodies(self) -> pa.Array:
        """Return bodies decompressed, or as stored if they cannot be decompressed."""
        found = self.bodies
        return pc.coalesce(found.plain, self.stored_bodies()) if found.problems else found.plain

    def body_problems(self) -> pa.Array:
        """Return why bodies cannot be decompressed; null for the others."""
        found = self.bodies.problems if self.has_compressed_bodies else {}
        if not found:
            return pa.nulls(len(self), pa.string())
        return pa.array([found.get(row) for row in range(len(self))], pa.string())

    def refuse_body_problems(self) -> None:
        """Raise FormatError if a body cannot be decompressed."""
        if not self.has_compressed_bodies:
            return
        for row, problem in self.bodies.problems.items():
            names, indices = self.coded_topics
            queue, offset = (int(self.fields.column(name)[row]) for name in ("queue_id", "queue_offset"))
            topic = names[indices[row].as_py()].decode("utf-8", "replace")
            raise FormatError(f"topic {topic}, queue {queue}, offset {offset}: {problem}")

    def sys_flags(self, *, stored_bodies: bool) -> Any:
        """Return the flags; for rows with decompressed bodies without the compression bit."""
        flags = self.fields.column("sys_flag")
        if stored_bodies or not self.has_compressed_bodies:
            return flags
        flags = flags.copy()
        flags[self.bodies.opened] &= ~COMPRESSED
        return flags

    # --- times, hosts, ids ------------------------------------------------------------------------------------------

    def times(self, name: str) -> pa.Array:
        """Return a time of the head, null if it is outside the years 1 to 9999."""
        times = self.fields.column(name)
        odd = (times < FIRST_MS) | (times > LAST_MS)
        if odd.any():
            return pa.array(np.where(odd, 0, times) * 1000, COLUMNS["bornTimestamp"], mask=odd)
        return pa.array(times * 1000, COLUMNS["bornTimestamp"])

    def hosts(self, name: str) -> pa.Array:
        """Return a host of the head as ``ip:port``."""
        parts = []
        for rows, packed in self.fields.hosts(name):
            buffers = [None, pa.py_buffer(packed)]
            coded = pa.Array.from_buffers(pa.binary(packed.shape[1]), len(rows), buffers).dictionary_encode()
            texts = pa.array([host_text(each) for each in coded.dictionary.to_pylist()], pa.string())
            parts.append((rows, texts.take(coded.indices)))
        return merged(parts)

    def offset_ids(self) -> pa.Array:
        """Return the offset message ids (`gantrymq.model.ids`)."""
        log_offsets = self.fields.column("log_offset").astype(">i8").view(np.uint8).reshape(-1, 8)
        parts = []
        for rows, packed in self.fields.hosts("store_host"):
            raw = np.concatenate([packed, log_offsets[rows]], axis=1)
            parts.append((rows, strings_of_one_length(_HEX[raw].view(np.uint8))))
        return merged(parts)
