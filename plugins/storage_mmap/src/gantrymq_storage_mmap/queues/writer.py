"""Writing what waits in the tails: every second (a tick) what came `AGE_TICKS` ago or earlier, a few rows at a time.

Ten thousand rows at once would hold up the event loop. Nothing is synced here; that is the checkpoint's.
"""

from __future__ import annotations

from typing import Final

from gantrymq.world import Clock, Timer
from gantrymq_storage_mmap.queues.tails import QueueTails

__all__ = ["AGE_TICKS", "TailWriter"]

AGE_TICKS: Final = 5  # an entry is in its file some 5 s after it became visible
SLICE_ROWS: Final = 64  # written without a pause: 1 ms, or 3 ms when each file has to be opened
PAUSE_S: Final = 0.01  # between slices


class TailWriter:
    """The background writing of tails. All methods belong to the event loop."""

    def __init__(self, tails: QueueTails, clock: Clock, interval_ms: int) -> None:
        """Nothing runs before `start`; *interval_ms*: between ticks (``flushIntervalConsumeQueue``)."""
        self._tails = tails
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._timer: Timer | None = None
        self._slice_timer: Timer | None = None  # set while rows are being written slice by slice
        self._due = -1  # ticks up to this one are to be written

    def start(self) -> None:
        """Begin."""
        self._timer = self._clock.call_later(self._interval_s, self._tick)

    def halt(self) -> None:
        """End it and leave everything as it is."""
        for timer in (self._timer, self._slice_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._slice_timer = None

    def _tick(self) -> None:
        self._tails.retry()
        self._due = self._tails.tick() - AGE_TICKS
        if self._slice_timer is None:
            self._write_slice()
        self.start()

    def _write_slice(self) -> None:
        self._slice_timer = None
        rows = self._tails.due(self._due, SLICE_ROWS)
        for row in rows:
            self._tails.write(row)
        if len(rows) == SLICE_ROWS:
            self._slice_timer = self._clock.call_later(PAUSE_S, self._write_slice)
