"""Dispatch: followers of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gantrymq.formats.dispatch_entry import DispatchEntry

__all__ = ["DispatchEntry", "Dispatcher"]


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
