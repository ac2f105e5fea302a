"""Detects pauses of this process: a frozen process, a suspended machine, an event loop that was blocked.

A slave may have acted for a master that was paused. The timer is due again every `_STEP_S`, so that of all timers that
expired meanwhile it is one of the first to be called, before services deliver what became due. Monotonic time stops
while a machine is suspended, wall time does not; so a step of the wall clock counts as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.world import Clock
from gantrymq.world.clock import Timer

_STEP_S: Final = 0.1


class PauseWatch:
    """Calls back after a pause of the process."""

    def __init__(self, clock: Clock, longest_s: float, noticed: Callable[[float], object]) -> None:
        """*noticed* is called in the first turn of the event loop, with the seconds, if they exceed *longest_s*."""
        self._clock, self._longest_s, self._noticed = clock, longest_s, noticed
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._began = self._clock.monotonic(), self._clock.now_ms()
        self._timer = self._clock.call_later(_STEP_S, self._step)

    def stop(self) -> None:
        """End the watch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _step(self) -> None:
        monotonic, now_ms = self._began
        self.start()
        took_s = max(self._began[0] - monotonic, (self._began[1] - now_ms) / 1000)
        if took_s > self._longest_s:
            self._noticed(took_s)
