"""The audit log: one line of JSON for every change, and for every page that showed bodies of messages.

A change is written before it is attempted and again with its result. If the first line cannot be written, the change is
refused.
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs

__all__ = ["Audit", "AuditUnwritable", "Entry", "MemoryAudit"]


class AuditUnwritable(Exception):
    """The audit log cannot be written; the text says why. Nothing was changed."""


@attrs.frozen
class Entry:
    """One line of the audit log."""

    time_ms: int
    request_id: str
    user: str
    address: str  # of the visitor
    action: str  # name of the action or page
    target: str
    change: str = ""  # such as "24 -> 8 queues"
    result: str = ""  # empty: attempted; "done", "failed", "read", or an error's sentence


class Audit(Protocol):
    """Writes and finds entries."""

    async def write(self, entry: Entry) -> None:
        """Append an entry durably. Raises AuditUnwritable."""

    async def find(self, text: str, start: int, count: int) -> tuple[list[Entry], int]:
        """Return entries that contain *text*, the newest first, and the number of all of them."""


class MemoryAudit:
    """An audit log in memory, which keeps the last thousand entries."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def write(self, entry: Entry) -> None:
        """Append an entry."""
        self.entries = [*self.entries[-999:], entry]

    async def find(self, text: str, start: int, count: int) -> tuple[list[Entry], int]:
        """Return entries that contain *text*, the newest first, and the number of all of them."""
        found = [each for each in reversed(self.entries) if _contains(each, text)]
        return found[start : start + count], len(found)


def _contains(entry: Entry, text: str) -> bool:
    values: list[Any] = list(attrs.astuple(entry))
    return any(text.lower() in str(each).lower() for each in values)
