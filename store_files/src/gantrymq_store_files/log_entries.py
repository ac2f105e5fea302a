"""Walking the log for what its followers need: batches of dispatch entries, and the damage between them.

    walk = LogEntries(source, start, end, delay_levels_ms=levels)
    for found in walk:
        if isinstance(found, LogDamage): ...        # a hole, or the log's tail
        else: ...                                   # list[DispatchEntry], in log order

It finds what `LogWalk` finds: the same checks, the same damage. Plain records are read many at a time
(`plain_entries`); the rest goes through `LogWalk`, one by one.

When the walk is over, `sound_end` is the log's end: behind the last sound record, or at the start of the file behind
the blank that follows it. Damage that starts before it is a hole, with sound records behind; damage at or behind it is
the tail. `zeros_from` says from where on nothing but zeros was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import tags_code_of
from gantrymq_store_files.log_source import LogSource
from gantrymq_store_files.log_walk import LogDamage, LogWalk
from gantrymq_store_files.plain_entries import plain_entries

__all__ = ["LogEntries", "entry_of"]

MOST_RECORDS = 1024  # of a batch
CHUNK_BYTES = 1024 * 1024  # read at once: what the processor's caches hold until its entries are made


class LogEntries:
    """One walk; what the source raises ends it, and another one may begin at `position`."""

    def __init__(
        self,
        source: LogSource,
        start: int,
        end: int | None = None,
        *,
        delay_levels_ms: Sequence[int],
        check_crc: bool = True,
        trust_zeros: bool = False,
    ) -> None:
        """Nothing is read yet.

        Args:
            source: the log's files.
            start: where a record, a blank or nothing starts (see `log_walk.align`).
            end: records that start before it are walked over, and nothing behind it is looked at; None for the end of
                the source's last file.
            delay_levels_ms: durations by delay level, for the tags codes of delayed messages.
            check_crc: whether bodies are checked.
            trust_zeros: zeros where a record belongs are the log's end; what stands behind them is not read.
        """
        self.position = start  # behind what was given last
        self.records = 0
        self.last_timestamp = 0  # ms, store time of the newest record
        self.last = (-1, 0)  # log offset and size of the newest record
        self._end = source.end if end is None else end
        self._delay_levels_ms = delay_levels_ms
        self._check_crc = check_crc
        self._topics: dict[bytes, str] = {}
        self._walk = LogWalk(
            source,
            start,
            end,
            check_crc=check_crc,
            look_behind_end=False,
            trust_zeros=trust_zeros,
            chunk_bytes=CHUNK_BYTES,
        )

    @property
    def sound_end(self) -> int:
        """Log offset behind the last sound record, and behind a blank that follows it."""
        return self._walk.sound_end

    @property
    def zeros_from(self) -> int:
        """Log offset from which on only zeros stand, as far as the walk came; -1 while something else stands last."""
        return self._walk.zeros_from

    def __iter__(self) -> Iterator[list[DispatchEntry] | LogDamage]:
        """Walk. Budget: 1 us a record of 1 KB with reading and CRC, not compiled 6 us (`bench_scan.py`)."""
        batch: list[DispatchEntry] = []
        begun = self.position
        for found in self._walk:
            if isinstance(found, LogDamage):
                if batch:
                    yield self._given(batch)
                    batch = []
                self.position = begun = found.log_offset + found.size
                yield found
                continue
            batch.append(entry_of(found, self._delay_levels_ms))
            batch += self._plain(MOST_RECORDS - len(batch))
            if len(batch) >= MOST_RECORDS or self._walk.position - begun >= CHUNK_BYTES:
                yield self._given(batch)
                batch, begun = [], self.position
        if batch:
            yield self._given(batch)
        self.position = max(self.position, self._walk.position)

    def _plain(self, most: int) -> list[DispatchEntry]:
        """The plain records among the bytes that were read already; the walk goes on behind them."""
        walk = self._walk
        data, place = walk.loaded()
        found: list[DispatchEntry] = plain_entries(
            data, place, walk.position, self._end, most, self._check_crc, self._topics
        )
        if found:
            last = found[-1]
            before = found[-2].store_timestamp if len(found) > 1 else walk.last_timestamp
            walk.skip(last.log_offset + last.size - walk.position, last.store_timestamp, before)
        return found

    def _given(self, batch: list[DispatchEntry]) -> list[DispatchEntry]:
        last = batch[-1]
        self.records += len(batch)
        self.last = (last.log_offset, last.size)
        self.last_timestamp = last.store_timestamp
        self.position = last.log_offset + last.size
        return batch


def entry_of(record: RecordView, delay_levels_ms: Sequence[int]) -> DispatchEntry:
    """What *record* says to those who follow the log."""
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
