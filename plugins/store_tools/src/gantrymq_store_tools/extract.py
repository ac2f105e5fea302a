"""Messages of a store selected by topic, queue, offsets, times, keys or ids.

The log is walked from its start, or from the file of the first log offset. Queues and index are not needed, so messages
can be extracted from stores that have lost both. An offset id names a position in the log, and only that position is
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from gantrymq.errors import FormatError, InvalidParameter, QueryNotFound
from gantrymq.plugin.formats import RecordView, read_record
from gantrymq.plugin.model import host_text, offset_id, parse_offset_id
from gantrymq.plugin.properties import KEYS, TAGS, UNIQ_KEY
from gantrymq_store_files.check import check_bytes
from gantrymq_store_files.filler import is_filler
from gantrymq_store_files.log_walk import LogDamage, LogWalk
from gantrymq_store_tools.findings import ProgressListener, no_progress
from gantrymq_store_tools.log_reader import LogReader

_PROGRESS_STEP_BYTES = 8 * 1024 * 1024


@attrs.frozen
class ExtractQuery:
    """Conditions for records; None means any. Bounds are inclusive."""

    topic: str | None = None
    queue_id: int | None = None
    first_offset: int | None = None  # queue offsets
    last_offset: int | None = None
    first_ms: int | None = None  # store times
    last_ms: int | None = None
    key: str | None = None  # the unique key, or one of KEYS
    offset_id: str | None = None
    tag: str | None = None
    first_log_offset: int = 0  # which may be inside the first record

    def test(self, record: RecordView) -> bool:
        """Return whether *record* meets all conditions."""
        if record.log_offset + record.total_size <= self.first_log_offset:
            return False
        if self.topic is not None and record.topic != self.topic:
            return False
        if self.queue_id is not None and record.queue_id != self.queue_id:
            return False
        if not _within(record.queue_offset, self.first_offset, self.last_offset):
            return False
        if not _within(record.store_timestamp, self.first_ms, self.last_ms):
            return False
        if self.tag is not None and record.properties.get(TAGS) != self.tag:
            return False
        if self.key is None:
            return True
        properties = record.properties
        return self.key == properties.get(UNIQ_KEY) or self.key in properties.get(KEYS, "").split(" ")


def extract(
    reader: LogReader,
    wanted: ExtractQuery,
    damage: Callable[[LogDamage], object],
    *,
    progress: ProgressListener = no_progress,
) -> Iterator[RecordView]:
    """Yield the records selected by *wanted* in log order; *damage* is called with each unreadable range.

    Raises:
        InvalidParameter: the offset id is malformed.
        QueryNotFound: there is no record at the position of the offset id.
    """
    if wanted.offset_id is not None:
        try:
            _, _, log_offset = parse_offset_id(wanted.offset_id)
        except ValueError as problem:
            raise InvalidParameter(str(problem)) from None
        record = record_at(reader, log_offset)
        if wanted.test(record):
            yield record
        return
    first = reader.file_at(wanted.first_log_offset)  # a file begins with a record
    told = reader.log.start if first is None else first.start
    if wanted.first_log_offset >= reader.log.end:
        return
    walk = LogWalk(reader, told)
    progress.begin("log", reader.log.end - told)
    for found in walk:
        if walk.position - told >= _PROGRESS_STEP_BYTES:
            progress.advance(walk.position - told)
            told = walk.position
        if isinstance(found, LogDamage):
            damage(found)
        elif not is_filler(found) and wanted.test(found):
            yield found
    progress.end()


def record_at(reader: LogReader, log_offset: int) -> RecordView:
    """Return the record that starts at *log_offset*, even a damaged one if its lengths add up.

    Raises:
        QueryNotFound: no record starts there; the message says what does.
    """
    file = reader.file_at(log_offset)
    if file is None:
        raise QueryNotFound(f"the log holds {reader.log.start} to {reader.log.end}; log offset {log_offset} is outside")
    left = file.start + reader.log.file_bytes - log_offset
    size = int.from_bytes(reader.read(log_offset, min(4, left)), "big", signed=True)
    data = memoryview(reader.read(log_offset, max(min(size, left), min(8, left))))
    found = check_bytes(data, 0, log_offset)
    if found.record is not None:
        return found.record
    try:
        return read_record(data)
    except FormatError:
        what = found.problem.replace("record at 0: ", "") or found.found.name.lower()
        raise QueryNotFound(f"no record starts at log offset {log_offset}: {what}") from None


def describe_record(record: RecordView) -> dict[str, Any]:
    """Return all fields of a record except its body."""
    properties = record.properties
    place = offset_id(bytes(record.store_host), record.log_offset)
    return {
        "topic": record.topic,
        "queue": record.queue_id,
        "queue_offset": record.queue_offset,
        "log_offset": record.log_offset,
        "size": record.total_size,
        "message_id": properties.get(UNIQ_KEY) or place,
        "offset_id": place,
        "tags": properties.get(TAGS),
        "keys": properties.get(KEYS),
        "properties": properties,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "born_ms": record.born_timestamp,
        "born_host": host_text(record.born_host),
        "stored_ms": record.store_timestamp,
        "store_host": host_text(record.store_host),
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
        "body_crc": record.body_crc,
    }


def _within(value: int, first: int | None, last: int | None) -> bool:
    return (first is None or value >= first) and (last is None or value <= last)
