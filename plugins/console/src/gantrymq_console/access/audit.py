"""The audit log: one line of JSON for every change, and for every page that showed bodies of messages.

A change is written before it is attempted and again with its result. If the first line cannot be written, the change is
refused.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Protocol

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

    def contains(self, text: str) -> bool:
        """Return whether a value contains *text*, in any case."""
        return any(text.lower() in str(each).lower() for each in attrs.astuple(self))

    def line(self) -> bytes:
        """Return the entry as a line of JSON."""
        return json.dumps(attrs.asdict(self), ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


class Audit(Protocol):
    """Writes and finds entries."""

    async def write(self, entry: Entry) -> None:
        """Append an entry durably. Raises AuditUnwritable."""

    async def find(self, text: str, start: int, count: int) -> tuple[list[Entry], int]:
        """Return entries that contain *text*, the newest first, and their total number.

        A change is one entry: its attempt is left out if its result is known.
        """

    def lines(self) -> AsyncIterator[bytes]:
        """Return the whole log as lines of JSON, the oldest first, several at once."""


class MemoryAudit:
    """An audit log in memory, for tests."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def write(self, entry: Entry) -> None:
        """Append an entry."""
        self.entries = [*self.entries[-999:], entry]

    async def find(self, text: str, start: int, count: int) -> tuple[list[Entry], int]:
        """Return entries that contain *text*, the newest first, and their total number."""
        ended = {each.request_id for each in self.entries if each.result}
        known = [each for each in self.entries if each.result or each.request_id not in ended]
        found = [each for each in reversed(known) if each.contains(text)]
        return found[start : start + count], len(found)

    async def lines(self) -> AsyncIterator[bytes]:
        """Return all entries as lines of JSON, the oldest first."""
        for entry in self.entries:
            yield entry.line()
