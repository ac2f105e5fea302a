"""Runs of sound, consecutive records of a log, found and checked many at a time.

The checks are those of `gantrymq_store_files.check`: sizes, magic, lengths that add up, the log offset, the body's CRC,
topic, property text, and the record's own checksum. The first record that fails, or that is unusual (a zero byte in its
properties, lone surrogates, a filler), ends the run and is left to the record-by-record walk, which classifies it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gantrymq.plugin import speedups
from gantrymq_spark.record_columns import FORMAT, chain, first_false, gather, right_crcs
from gantrymq_spark.records import Records
from gantrymq_store_files.filler import FILLER_TOPIC
from gantrymq_store_files.record_crc import CRC_TAIL_BYTES, CRC_TAIL_START, record_crc_matches

_FILLER = FILLER_TOPIC.encode()
_LOG_OFFSETS, _BODIES, _PROPERTIES = 1, 2, 4  # checks of the compiled function


def _sound_run(view: memoryview, base: int, end: int, *, check_crc: bool = True) -> Records | None:
    """Return the sound records at the start of *view*; None if the first must be left to the walk.

    Args:
        view: bytes of one log file; an incomplete record ends the run.
        base: log offset of the first byte of *view*.
        end: records at or after this log offset are not included.
        check_crc: whether the CRCs of bodies are checked.
    """
    starts = chain(view, min(end - base, len(view)))
    if not starts:
        return None
    records = Records(view, np.array(starts, dtype=np.int64))
    count = _well_built(records, base)
    if count and check_crc:
        starts, ends = (places[:count].tolist() for places in records.body_places)
        count = right_crcs(view, starts, ends, records.fields.column("body_crc")[:count].tolist())
    if not count:
        return None
    if count < len(records):
        records = records.at(slice(count))
    count = min(_usable_topics(records), _usable_properties(records), _own_check_sums(view, records))
    if count < len(records):
        return records.at(slice(count)) if count else None
    return records


def _whole_records(view: memoryview) -> Records | None:
    """Return the leading records of *view* whose lengths add up and whose topic is valid text, from any source."""
    starts = chain(view, len(view))
    if not starts:
        return None
    records = Records(view, np.array(starts, dtype=np.int64))
    count = _well_built(records, None)
    if not count:
        return None
    records = records.at(slice(count)) if count < len(records) else records
    count = _usable_topics(records)
    return None if not count else records.at(slice(count)) if count < len(records) else records


def _well_built(records: Records, base: int | None) -> int:
    """Return the number of records before the first with inconsistent lengths or another log offset."""
    fields = records.fields
    ends, starts = fields.ends(), fields.body_starts()
    body_ends = starts + fields.column("body_length")
    good = (body_ends >= starts) & (body_ends + 3 <= ends)
    if base is not None:
        good &= fields.column("log_offset") == fields.at + base
    count = first_false(good)
    if not count:
        return 0
    body_ends, ends = np.where(good, body_ends, fields.at), ends[:count]
    topic_starts, topic_ends = (places[:count] for places in fields.topics(body_ends))
    good = (topic_ends > topic_starts) & (topic_ends + 2 <= ends)
    length_at = np.where(good, topic_ends, 0)
    lengths = fields.data[length_at].astype(np.int64) << 8 | fields.data[length_at + 1]
    good &= (length_at + 2 + lengths == ends) & (lengths < 1 << 15)
    return first_false(good)


def _usable_topics(records: Records) -> int:
    names, indices = records.coded_topics
    odd = [number for number, raw in enumerate(names) if raw == _FILLER or b"\0" in raw or not _is_utf8(raw)]
    if not odd:
        return len(records)
    return first_false(~np.isin(indices.to_numpy(), odd))


def _usable_properties(records: Records) -> int:
    """Return the number of records before the first with a zero byte or invalid UTF-8 in its properties."""
    stored = records.property_bytes
    offsets = np.frombuffer(stored.buffers()[1], dtype=np.int32)[: len(stored) + 1]
    text = np.frombuffer(stored.buffers()[2] or b"", dtype=np.uint8)[: offsets[-1]]
    if not len(text):
        return len(records)
    count = len(records)
    if not np.min(text):
        count = int(np.searchsorted(offsets, np.argmin(text), side="right")) - 1
    if np.max(text) < 128:
        return count
    try:
        stored.cast(pa.string())
    except pa.ArrowInvalid:
        odd = (number for number, raw in enumerate(stored.to_pylist()) if not _is_utf8(raw))
        return min(count, next(odd, count))
    return count


def _own_check_sums(view: memoryview, records: Records) -> int:
    fields = records.fields
    ends = fields.ends()
    marked = gather(fields.data, ends - CRC_TAIL_BYTES, len(CRC_TAIL_START)) == np.void(CRC_TAIL_START)
    for row in np.flatnonzero(marked).tolist():
        if record_crc_matches(view[fields.at[row] : ends[row]]) is False:
            return row
    return len(records)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _compiled_run(view: memoryview, base: int, end: int, *, check_crc: bool = True) -> Records | None:
    checks = _LOG_OFFSETS | _PROPERTIES | (_BODIES if check_crc else 0)
    return _compiled_records(view, min(end - base, len(view)), base, checks)


def _compiled_records(view: memoryview, end: int, base: int, checks: int) -> Records | None:
    packed = speedups.compiled.sound_starts(FORMAT, _FILLER, CRC_TAIL_START, view, end, base, checks)
    return Records(view, np.frombuffer(packed, dtype=np.int64)) if packed else None


if speedups.compiled is None:
    sound_run, whole_records = _sound_run, _whole_records
else:
    sound_run = _compiled_run

    def whole_records(view: memoryview) -> Records | None:
        """See `_whole_records`."""
        return _compiled_records(view, len(view), 0, 0)
