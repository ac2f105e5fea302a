"""Dispatch: followers of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class DispatchEntry(NamedTuple):
    """One stored record, as those who follow the log see it."""

    topic: str
    queue_id: int
    queue_offset: int  # entries
    log_offset: int  # bytes
    size: int  # bytes of the record
    tags_code: int  # what the queue entry holds
    store_timestamp: int  # ms
    sys_flag: int
    prepared_offset: int
    properties: bytes  # stored property text, not decoded


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
