"""Dispatchers: consumers of the commit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gantrymq.formats.dispatch_entry import DispatchEntry

__all__ = ["DispatchEntry", "Dispatcher"]


class Dispatcher(Protocol):
    """Consumer of published log entries.

    A dispatcher that raises is suspended until the next start and keeps its position; the broker continues.
    """

    name: str

    def position(self) -> int:
        """Return the log offset up to which everything is handled durably; replay at startup begins here."""

    def dispatch(self, entries: Sequence[DispatchEntry]) -> None:
        """Handle *entries* in log order; each is delivered at least once."""

    def truncate(self, log_offset: int) -> None:
        """Discard everything at and after *log_offset*, where the log was or will be truncated."""

    def flush(self) -> None:
        """Make ``position`` durable."""
