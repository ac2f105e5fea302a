"""Reads the stored properties of a block's messages, by gets invisible to consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gantrymq.errors import FormatError
from gantrymq.formats.record import RecordView, read_record
from gantrymq.interfaces import ExtUnit, GetLimit, GetResult, GetStatus, MessageStore
from gantrymq.model.queue import Queue
from gantrymq_filter_sql92.blocks.block import LastMessage
from gantrymq_filter_sql92.blocks.skipping import EVERYTHING

__all__ = ["last_message", "property_texts"]


class _Collector:
    """A filter that rejects every message and collects its properties."""

    accepts_all = False
    needs_message = True
    needles: tuple[bytes, ...] = ()

    def __init__(self, end: int) -> None:
        self.texts: list[bytes] = []
        self._end = end  # end of the wanted range, exclusive; a store may pass more entries

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        return True

    def match_units(self, runs: Sequence[tuple[bytes, int]]) -> bytes | None:
        return b"".join(b"\1" * (len(units) // size) for units, size in runs)

    def match_message(self, record: RecordView) -> bool:
        self.texts.append(bytes(record.properties_bytes))
        return False

    def match_properties(self, properties: bytes) -> bool:
        self.texts.append(properties)
        return False

    def candidates(self, queue: Queue, queue_offset: int) -> tuple[int, int]:
        return (queue_offset, self._end) if queue_offset < self._end else (EVERYTHING, EVERYTHING + 1)


async def property_texts(store: MessageStore, queue: Queue, first: int, entries: int) -> list[bytes] | None:
    """Return the properties of the messages ``[first, first + entries)``, reading in short steps.

    Returns None if some cannot be read: a filter without them would hide those messages.

    Raises:
        StoreError: the disk failed.
    """
    end = first + entries
    collector = _Collector(end)
    while first < end:
        found = await _got(store, queue, first, GetLimit(), collector)
        if found.status is not GetStatus.NO_MATCHED_MESSAGE or found.next_offset <= first:
            return None
        first = found.next_offset
        await asyncio.sleep(0)
    return collector.texts if len(collector.texts) >= entries else None


async def last_message(store: MessageStore, queue: Queue, queue_offset: int) -> LastMessage | None:
    """Return the identity of a block that ends with this message; None if the message does not exist.

    Raises:
        StoreError: the disk failed.
    """
    found = await _got(store, queue, queue_offset, GetLimit(max_count=1), None)
    if found.status is not GetStatus.FOUND:
        return None
    try:
        record = read_record(found.buffers[0])
    except FormatError:
        return None
    same = (record.topic, record.queue_id, record.queue_offset) == (*queue, queue_offset)
    return LastMessage(record.log_offset, record.store_timestamp) if same else None


async def _got(
    store: MessageStore, queue: Queue, queue_offset: int, limit: GetLimit, match: _Collector | None
) -> GetResult:
    found = store.get(queue, queue_offset, limit, match)
    return found if isinstance(found, GetResult) else await found
