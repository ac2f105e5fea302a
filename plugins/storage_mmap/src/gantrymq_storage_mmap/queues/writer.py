"""Writing what waits in the tails: every second (a tick) what came `AGE_TICKS` ago or earlier, a few rows at a time.

Ten thousand rows at once would hold up the event loop. Nothing is synced here; that is the checkpoint's.
"""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.world import Clock, Timer
from gantrymq.world.time_slices import LONGEST_S
from gantrymq_storage_mmap.queues.tails import QueueTails

__all__ = ["AGE_TICKS", "TailWriter"]

AGE_TICKS: Final = 5  # an entry is in its file some 5 s after it became visible
SLICE_ROWS: Final = 64  # written without a pause, if they do not take longer than `LONGEST_S`
PAUSE_S: Final = 0.01  # between slices


@attrs.define(eq=False)
class TailWriter:
    """The background writing of tails. All methods belong to the event loop; nothing runs before `start`."""

    _tails: QueueTails
    _clock: Clock
    _interval_ms: int  # between ticks (``flushIntervalConsumeQueue``)
    _timer: Timer | None = None
    _slice_timer: Timer | None = None  # set while rows are being written slice by slice
    _due: int = -1  # ticks up to this one are to be written

    def start(self) -> None:
        """Begin."""
        self._timer = self._clock.call_later(self._interval_ms / 1000, self._tick)

    def halt(self) -> None:
        """End it and leave everything as it is."""
        for timer in (self._timer, self._slice_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._slice_timer = None

    def _tick(self) -> None:
        self.start()
        self._tails.retry()
        self._due = self._tails.tick() - AGE_TICKS
        if self._slice_timer is None:
            self._write_slice()

    def _write_slice(self) -> None:
        self._slice_timer = None
        rows, until = self._tails.due(self._due, SLICE_ROWS), self._clock.monotonic() + LONGEST_S
        written = 0
        while written < len(rows) and self._clock.monotonic() <= until:
            self._tails.write(rows[written])
            written += 1
        if written < len(rows) or written == SLICE_ROWS:
            self._slice_timer = self._clock.call_later(PAUSE_S, self._write_slice)
