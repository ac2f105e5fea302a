"""Walking the log as batches of dispatch entries, with the damage between them.

    walk = LogEntries(source, start, end, delay_levels_ms=levels)
    for found in walk:
        if isinstance(found, LogDamage): ...        # a hole, or the log's tail
        else: ...                                   # list[DispatchEntry], in log order

The results are the same as those of `LogWalk`: the same checks, the same damage. Plain records are read many at a time
(`plain_entries`); other records go through `LogWalk`, one by one.

After the walk, `sound_end` is the log's end: after the last sound record, or at the start of the next file if a blank
follows it. Damage before it is a hole, with sound records after it; damage at or after it is the tail. `zeros_from` is
the position from which only zeros were found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import tags_code_of
from gantrymq_store_files.log_source import LogSource
from gantrymq_store_files.log_walk import LogDamage, LogWalk

_MOST_RECORDS = 1024  # per batch
CHUNK_BYTES = 1024 * 1024  # per read: fits the processor's caches until its entries are built


class LogEntries:
    """One walk. Errors of the source end it, and another walk may begin at `position`."""

    def __init__(
        self,
        source: LogSource,
        start: int,
        end: int | None = None,
        *,
        delay_levels_ms: Sequence[int],
        check_crc: bool = True,
        trust_zeros: bool = False,
        chunk_bytes: int | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            source: the log's files.
            start: position of a record, a blank or the end (see `log_walk.align`).
            end: include records that start before it, and read nothing after it; None for the end of the source's last
                file.
            delay_levels_ms: durations by delay level, for the tags codes of delayed messages.
            check_crc: whether to check bodies.
            trust_zeros: zeros in place of a record end the log; nothing after them is read.
            chunk_bytes: how much of the log is read at a time; `CHUNK_BYTES` if None.
        """
        self.position = start  # after the last result
        self.records = 0
        self.last_timestamp = 0  # ms, store time of the newest record; see `LogWalk.last_timestamp`
        self.last = (-1, 0)  # log offset and size of the newest record
        self._delay_levels_ms = delay_levels_ms
        self._chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
        self._walk = LogWalk(
            source,
            start,
            end,
            check_crc=check_crc,
            check_beyond_end=False,
            trust_zeros=trust_zeros,
            chunk_bytes=self._chunk_bytes,
        )

    @property
    def sound_end(self) -> int:
        """Log offset after the last sound record, or after a blank that follows it."""
        return self._walk.sound_end

    @property
    def zeros_from(self) -> int:
        """Log offset from which only zeros were found so far; -1 if the last result was something else."""
        return self._walk.zeros_from

    def __iter__(self) -> Iterator[list[DispatchEntry] | LogDamage]:
        """Walk. Budget: 1 us a record of 1 KB including read and CRC, 6 us if not compiled (`bench_scan.py`)."""
        batch: list[DispatchEntry] = []
        begun = self.position
        for found in self._walk:
            if isinstance(found, LogDamage):
                if batch:
                    yield self._finish_batch(batch)
                    batch = []
                self.position = begun = found.log_offset + found.size
                yield found
                continue
            batch.append(entry_of(found, self._delay_levels_ms))
            batch += self._walk.take_plain(_MOST_RECORDS - len(batch))
            if len(batch) >= _MOST_RECORDS or self._walk.position - begun >= self._chunk_bytes:
                yield self._finish_batch(batch)
                batch, begun = [], self.position
        if batch:
            yield self._finish_batch(batch)
        self.position = max(self.position, self._walk.position)

    def _finish_batch(self, batch: list[DispatchEntry]) -> list[DispatchEntry]:
        last = batch[-1]
        self.records += len(batch)
        self.last = (last.log_offset, last.size)
        self.last_timestamp = self._walk.last_timestamp
        self.position = last.log_offset + last.size
        return batch


def entry_of(record: RecordView, delay_levels_ms: Sequence[int]) -> DispatchEntry:
    """Return the dispatch entry of *record*."""
    return DispatchEntry(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.log_offset,
        record.total_size,
        tags_code_of(record.topic, record.properties, record.store_timestamp, delay_levels_ms),
        record.store_timestamp,
        record.sys_flag,
        record.prepared_offset,
        bytes(record.properties_bytes),
    )
