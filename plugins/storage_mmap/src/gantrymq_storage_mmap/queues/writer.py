"""Background writing of pending queue entries.

Every second (a tick) the entries that arrived `AGE_TICKS` ago or earlier are written, a few files at a time: writing
ten thousand files at once would block the event loop. Nothing is synced here; the checkpoint does that.
"""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.plugin.world import MAX_SLICE_S, Clock, Timer
from gantrymq_storage_mmap.queues.pending_entries import PendingEntries

__all__ = ["AGE_TICKS", "EntryWriter"]

AGE_TICKS: Final = 5  # an entry is in its file about 5 s after it became visible
SLICE_FILES: Final = 64  # written without a pause, unless they take longer than `MAX_SLICE_S`
PAUSE_S: Final = 0.01  # between slices


@attrs.define(eq=False)
class EntryWriter:
    """Background writer of pending entries. All methods belong to the event loop; nothing runs before `start`."""

    _pending: PendingEntries
    _clock: Clock
    _interval_ms: int  # between ticks (``flushIntervalConsumeQueue``)
    _timer: Timer | None = None
    _slice_timer: Timer | None = None  # set while files are being written slice by slice
    _due: int = -1  # ticks up to this one are to be written

    def start(self) -> None:
        """Start the ticks."""
        self._timer = self._clock.call_later(self._interval_ms / 1000, self._tick)

    def halt(self) -> None:
        """Stop without writing what is pending."""
        for timer in (self._timer, self._slice_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._slice_timer = None

    def _tick(self) -> None:
        self.start()
        self._pending.retry()
        self._due = self._pending.tick() - AGE_TICKS
        if self._slice_timer is None:
            self._write_slice()

    def _write_slice(self) -> None:
        self._slice_timer = None
        segmented_files, until = self._pending.due(self._due, SLICE_FILES), self._clock.monotonic() + MAX_SLICE_S
        written = 0
        while written < len(segmented_files) and self._clock.monotonic() <= until:
            self._pending.write(segmented_files[written])
            written += 1
        if written < len(segmented_files) or written == SLICE_FILES:
            self._slice_timer = self._clock.call_later(PAUSE_S, self._write_slice)
