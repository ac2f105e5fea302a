"""Dispatch: followers of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gantrymq.model import properties as props
from gantrymq.model.light_queues import light_places
from gantrymq.model.sys_flag import INNER_BATCH

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
    def light_places(self) -> list[tuple[str, int]]:
        """Light queues that list the record besides its own queue, and its queue offset in each."""
        return light_places(self.topic, props.decode(self.properties)) if _LISTED in self.properties else []


class Dispatcher(Protocol):
    """Follows the log after publication. One that raises is parked with its position kept; the broker goes on."""

    name: str

    def position(self) -> int:
        """Log offset up to which everything was handled, durably; core replays ``store.scan()`` from here at start."""

    def dispatch(self, entries: Sequence[DispatchEntry]) -> None:
        """Handle *entries*, in log order, each at least once."""

    def truncate(self, log_offset: int) -> None:
        """Forget everything at and after *log_offset*: recovery cut the log there."""

    def flush(self) -> None:
        """Make ``position`` durable."""
