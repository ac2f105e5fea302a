"""Dispatch entries (the data of a stored record for queues, index and dispatchers) and extension units for filters."""

from __future__ import annotations

from typing import Final, NamedTuple

from gantrymq.model import properties as props
from gantrymq.model.light_queues import light_queue_offsets
from gantrymq.model.sys_flag import INNER_BATCH

_LISTED = props.INNER_MULTI_QUEUE_OFFSET.encode()


class DispatchEntry(NamedTuple):
    """One stored record, as passed to dispatchers."""

    topic: str
    queue_id: int
    queue_offset: int  # entries
    log_offset: int  # bytes
    size: int  # bytes of the record
    tags_code: int  # hash of the tag, or due time of a delayed message
    store_timestamp: int  # ms
    sys_flag: int
    prepared_offset: int
    properties: bytes  # stored property text, not decoded

    @property
    def messages(self) -> int:
        """Number of queue offsets of the record: INNER_NUM for an inner batch, else 1."""
        if not self.sys_flag & INNER_BATCH:
            return 1
        text = props.decode(self.properties).get(props.INNER_NUM, "")
        return max(1, min(int(text), 32767)) if text.isascii() and text.isdecimal() else 1

    @property
    def light_queue_offsets(self) -> list[tuple[str, int]]:
        """Light queues that also list the record, each with its queue offset there."""
        return light_queue_offsets(self.topic, props.decode(self.properties)) if _LISTED in self.properties else []


MIN_UNIT_BYTES: Final = 20


class ExtUnit(NamedTuple):
    """Extension of one queue entry, stored in consumequeue_ext."""

    tags_code: int
    store_timestamp: int  # ms
    bits: bytes = b""

    @property
    def size(self) -> int:
        """Size of the packed unit in bytes."""
        return MIN_UNIT_BYTES + len(self.bits)
