"""Records that come one by one, each after the report of the one before, because their sender waits for each.

Master and slave count them alike, each for its own side, and sync them on the event loop while the disk is quick.
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.interfaces import LoopSync

_LEAST: Final = 8  # until the sender seems to wait for each


def is_one_record(data: bytes) -> bool:
    """Return whether *data*, a piece of a log, is a single whole record: they begin with their size."""
    return int.from_bytes(data[:4], "big") == len(data)


class SingleRecordSync:
    """Syncs the log in the step of the event loop in which the newest of several single records was appended."""

    def __init__(self, loop_sync: LoopSync | None) -> None:
        """*loop_sync*: of the store; None if it cannot sync on the event loop."""
        self._loop_sync = loop_sync
        self._count = 0  # consecutive single records

    def sync_now(self, end: int, *, single: bool) -> bool:
        """Sync the log up to *end*, and return whether it is durable; if not, `MessageStore.flushed` waits for that.

        Args:
            end: log offset after the newest record.
            single: one record was appended, and the one before had been reported.
        """
        self._count = self._count + 1 if single else 0
        if self._loop_sync is None or self._count < _LEAST:
            return False
        return self._loop_sync.sync_now(end, alone=True)
