"""Rebuilds the queue entries and index keys of a range of the log, as a broker would have written them.

    part = rebuild_range(reader, start, end, rules)       # any number of these, anywhere, in any order
    whole = join(parts)                                   # checks that they fit together, in log order

`rebuild_range` reads nothing but the log and depends on nothing but its arguments; its result consists of plain values
and can be pickled, so ranges can be processed by other processes or machines. Ranges that start where log files start
need no search; others start at the first sound record after their start (`log_walk.align`), and the range before ends
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gantrymq.errors import FormatError
from gantrymq.formats.record import RecordView
from gantrymq.model.properties import TAGS
from gantrymq.model.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from gantrymq_store_files.batch_entry import read_batch_entry
from gantrymq_store_files.filler import is_filler
from gantrymq_store_files.index_hash import index_hashes, index_keys
from gantrymq_store_files.log_walk import LogDamage, LogWalk, align
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.range_part import IndexKeys, RangePart, Run, uses_numpy
from gantrymq_store_tools.record_entries import EntryRules, record_entries

__all__ = [
    "in_order",
    "join",
    "rebuild_range",
    "record_keys",
    "split",
]

KEYS_AT_ONCE = 4096
RETRY_AFTER_RECORDS = 64  # records to read one by one after an unusual one


def rebuild_range(
    reader: LogReader,
    start: int,
    end: int,
    rules: EntryRules,
    *,
    check_crc: bool = True,
    queues: bool = True,
    index: bool = True,
    pure: bool = False,
) -> RangePart:
    """Read ``[start, end)`` and derive its entries and keys.

    Args:
        start: the start of a record, a blank or zeros; inside a file, see `align`.
        end: records that start before it belong to the range.
        check_crc: whether the CRCs of bodies are checked.
        queues: False derives no queue entries.
        index: False derives no index keys.
        pure: True does not use NumPy even if it is installed; the result is the same.
    """
    start = align(reader, start)
    part = RangePart(start, start)
    walk = LogWalk(reader, start, end, check_crc=check_crc)
    many = None
    if not pure and uses_numpy():
        from gantrymq_store_tools.numpy_records import NumpyRecords

        many = NumpyRecords(rules, check_crc=check_crc, queues=queues, index=index)
    waiting = _Keys(part.index)
    alone = 0  # records to read one by one before the next attempt
    for found in walk:
        if isinstance(found, LogDamage):
            part.damages.append(found)
            continue
        count_record(part, found)
        if queues:
            add_entries(part, found, rules)
        if index:
            waiting.add(found, rules)
        alone -= 1
        if many is not None and alone < 0:
            waiting.flush()
            while taken := many.take(part, walk.window(), walk.position, end):
                walk.skip(taken, many.last_timestamp)
            alone = RETRY_AFTER_RECORDS
    waiting.flush()
    part.end, part.zeros_from = walk.position, walk.zeros_from
    return part


class _Keys:
    """Keys whose hashes are computed later, many at a time."""

    def __init__(self, columns: IndexKeys) -> None:
        self._columns = columns
        self._topics: list[str] = []
        self._keys: list[bytes] = []

    def add(self, record: RecordView, rules: EntryRules) -> None:
        """Add the keys of *record*."""
        columns = self._columns
        for key, is_tag in record_keys(record, rules):
            self._topics.append(record.topic)
            self._keys.append(key)
            columns.log_offsets.append(record.log_offset)
            columns.timestamps.append(record.store_timestamp)
            columns.tags.append(is_tag)
        if len(self._keys) >= KEYS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Compute the pending hashes."""
        if self._keys:
            self._columns.hashes.extend(index_hashes(self._topics, self._keys))
            self._topics, self._keys = [], []


def count_record(part: RangePart, record: RecordView) -> None:
    """Add *record* to the counts of *part*; a filler does not count as a record."""
    part.records += not is_filler(record)
    part.record_bytes += record.total_size
    part.records_end = record.log_offset + record.total_size
    if not part.first_timestamp:
        part.first_timestamp = record.store_timestamp
    if record.store_timestamp > part.last_timestamp:
        part.last_timestamp = record.store_timestamp


def add_entries(part: RangePart, record: RecordView, rules: EntryRules) -> None:
    """Add the queue entries of *record*."""
    for batch, queue, offset, packed in record_entries(record, rules):
        if batch:
            entry = read_batch_entry(packed, 0)
            assert entry is not None
            part.batches.setdefault(queue, []).append(Run(offset, bytearray(packed), entry.end_offset))
        else:
            part.add_run(queue, offset, packed)


def record_keys(record: RecordView, rules: EntryRules) -> list[tuple[bytes, bool]]:
    """Return the keys of *record* in index order, each with whether it is the tag's (``T#tag``, the last one)."""
    found = [(key, False) for key in index_keys(bytes(record.properties_bytes), record.sys_flag)]
    if rules.tag_keys and record.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
        tag = record.properties.get(TAGS)
        if tag:
            found.append((b"T#" + tag.encode("utf-8", "surrogatepass"), True))
    return found


def split(reader: LogReader, parts: int) -> list[tuple[int, int]]:
    """Cut the log into at most *parts* ranges that start at file starts."""
    files = reader.log.files
    parts = max(1, min(parts, len(files)))
    cuts = [files[number * len(files) // parts].start for number in range(parts)]
    return list(zip(cuts, [*cuts[1:], reader.log.end], strict=True))


def join(parts: Iterable[RangePart]) -> Iterator[RangePart]:
    """Sort parts into log order, then check them as `in_order` does."""
    return in_order(sorted(parts, key=lambda part: (part.start, part.end)))


def in_order(parts: Iterable[RangePart]) -> Iterator[RangePart]:
    """Check that each part starts where the one before ended; holds one part at a time.

    Zeros at the end of a part that others follow are damage, which a single range cannot detect; it is added here.

    Raises:
        FormatError: two parts overlap, or a range between them was not read; says which range to read again.
    """
    before: RangePart | None = None
    zeros_from, zeros_end = -1, -1
    for part in parts:
        if before is not None and part.start != before.end:
            raise FormatError(
                f"ranges of the log do not fit: one ends at {before.end}, the next begins at {part.start}; read "
                f"[{before.end}, {part.end}) again as one range"
            )
        if zeros_from >= 0 and (part.records or any(damage.kind != "remains" for damage in part.damages)):
            text = f"zeros from log offset {zeros_from}, but the log continues at {part.start}"
            part.damages.insert(0, LogDamage("zeros", zeros_from, zeros_end - zeros_from, text))
            zeros_from = -1
        if part.zeros_from >= 0 and zeros_from < 0:
            zeros_from, zeros_end = part.zeros_from, part.end
        yield part
        before = part
