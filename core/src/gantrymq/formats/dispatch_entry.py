"""What a stored record says to those who follow the log: queues, index, dispatchers."""

from __future__ import annotations

from typing import NamedTuple

from gantrymq.model import properties as props
from gantrymq.model.light_queues import light_queue_offsets
from gantrymq.model.sys_flag import INNER_BATCH

__all__ = ["DispatchEntry"]

_LISTED = props.INNER_MULTI_QUEUE_OFFSET.encode()


class DispatchEntry(NamedTuple):
    """One stored record, as those who follow the log see it."""

    topic: str
    queue_id: int
    queue_offset: int  # entries
    log_offset: int  # bytes
    size: int  # bytes of the record
    tags_code: int  # hash of the tag, or the time a delayed message is due
    store_timestamp: int  # ms
    sys_flag: int
    prepared_offset: int
    properties: bytes  # stored property text, not decoded

    @property
    def messages(self) -> int:
        """How many queue offsets the record takes: INNER_NUM of an inner batch, else 1."""
        if not self.sys_flag & INNER_BATCH:
            return 1
        text = props.decode(self.properties).get(props.INNER_NUM, "")
        return max(1, min(int(text), 32767)) if text.isascii() and text.isdecimal() else 1

    @property
    def light_queue_offsets(self) -> list[tuple[str, int]]:
        """Light queues that list the record besides its own queue, and its queue offset in each."""
        return light_queue_offsets(self.topic, props.decode(self.properties)) if _LISTED in self.properties else []
