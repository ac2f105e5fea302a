"""Rebuilds the queue entries and index keys of a range of the log, as a broker would have written them.

    part = rebuild_range(reader, start, end, rules)       # any number of these, anywhere, in any order
    whole = join(parts)                                   # checks that they fit together, in log order

`rebuild_range` reads nothing but the log and depends on nothing but its arguments; its result consists of plain values
and can be pickled, so ranges can be processed by other processes or machines. Ranges that start where log files start
need no search; others start at the first sound record after their start (`log_walk.align`), and the range before ends
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gantrymq.errors import FormatError
from gantrymq.plugin.formats import DispatchEntry
from gantrymq.plugin.sys_flag import INNER_BATCH, TRANSACTION_MASK
from gantrymq_store_files.batch_entry import read_batch_entry
from gantrymq_store_files.filler import FILLER_TOPIC, is_filler
from gantrymq_store_files.index_hash import hash_entries, tag_hashes
from gantrymq_store_files.log_entries import CHUNK_BYTES, entry_of
from gantrymq_store_files.log_walk import LogDamage, LogWalk, align
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.record_entries import EntryRules, IndexKeys, RangePart, Run, record_entries

__all__ = [
    "in_order",
    "join",
    "rebuild_range",
    "split",
]

_MOST_RECORDS = 1024  # at once
_SPECIAL_FLAGS = TRANSACTION_MASK | INNER_BATCH  # of records whose entries depend on more than their head


def rebuild_range(
    reader: LogReader,
    start: int,
    end: int,
    rules: EntryRules,
    *,
    check_crc: bool = True,
    queues: bool = True,
    index: bool = True,
) -> RangePart:
    """Read ``[start, end)`` and derive its entries and keys.

    Args:
        start: the start of a record, a blank or zeros; inside a file, see `align`.
        end: records that start before it belong to the range.
        check_crc: whether the CRCs of bodies are checked.
        queues: False derives no queue entries.
        index: False derives no index keys.
    """
    start = align(reader, start)
    part = RangePart(start, start)
    walk = LogWalk(reader, start, end, check_crc=check_crc, chunk_bytes=CHUNK_BYTES)
    for found in walk:
        if isinstance(found, LogDamage):
            part.damages.append(found)
            continue
        entries = [entry_of(found, rules.delay_levels.at(found.log_offset))]
        while entries:
            _count(part, entries)
            if queues:
                _add_entries(part, entries, rules)
            if index:
                _add_keys(part.index, entries, tags=rules.tag_keys)
            entries = walk.take_plain(_MOST_RECORDS)
    part.end, part.zeros_from = walk.position, walk.zeros_from
    return part


def _count(part: RangePart, entries: Sequence[DispatchEntry]) -> None:
    """Add these records to the counts of *part*; a filler does not count as a record."""
    part.records += len(entries) - sum(is_filler(entry) for entry in entries if entry.topic == FILLER_TOPIC)
    part.record_bytes += sum([entry.size for entry in entries])
    part.records_end = entries[-1].log_offset + entries[-1].size
    if not part.first_timestamp:
        part.first_timestamp = entries[0].store_timestamp
    part.last_timestamp = max(part.last_timestamp, *[entry.store_timestamp for entry in entries])


def _add_entries(part: RangePart, entries: Sequence[DispatchEntry], rules: EntryRules) -> None:
    special = rules.batch_topics | rules.dropped.keys()
    runs: dict[tuple[str, int], Run] = {}  # the newest run of each queue
    for dispatched in entries:
        topic, queue_id, offset, log_offset, size, code, _, sys_flag, _, _ = dispatched
        run = runs.get((topic, queue_id))
        if run is not None and run.end == offset and not sys_flag & _SPECIAL_FLAGS:
            run.entries += ENTRY.pack(log_offset, size, code)
            run.end += 1
            continue
        for batch, queue, first, packed in record_entries(dispatched, rules):
            if batch:
                entry = read_batch_entry(packed, 0)
                assert entry is not None
                part.batches.setdefault(queue, []).append(Run(first, bytearray(packed), entry.end_offset))
            else:
                part.add_run(queue, first, packed)
                if topic not in special and not rules.light_queues:
                    runs[queue] = part.queues[queue][-1]


def _add_keys(columns: IndexKeys, entries: Sequence[DispatchEntry], *, tags: bool) -> None:
    """Add the keys of *entries* in index order; with *tags* also the tag's, after the record's others."""
    hashes, log_offsets, timestamps = hash_entries(entries)
    flags = bytearray(len(hashes))
    if not tags:
        columns.add(hashes, log_offsets, timestamps, bytes(flags))
        return
    found = [(entry, tag) for entry, tag in zip(entries, tag_hashes(entries), strict=True) if tag >= 0]
    hashes += [tag for _, tag in found]
    log_offsets += [entry.log_offset for entry, _ in found]
    timestamps += [entry.store_timestamp for entry, _ in found]
    flags += b"\1" * len(found)
    order = sorted(range(len(hashes)), key=log_offsets.__getitem__)  # stable: a tag stays after its record's other keys
    hashes, log_offsets, timestamps = ([column[at] for at in order] for column in (hashes, log_offsets, timestamps))
    columns.add(hashes, log_offsets, timestamps, bytes([flags[at] for at in order]))


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
