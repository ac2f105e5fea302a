"""Reads of pulls that wait while a few sends wait for the disk.

A consumer at full speed keeps the event loop busy, and with its own process the second processor too. The sync of a
send then waits three times: the thread for the interpreter's lock before and after it, and both for a processor. While
at most `MOST_SENDS` sends wait for their sync, pulls are therefore read after it. More sends keep the loop busy anyway,
and share a sync.

Pulls wait for at most `MOST_S`, and for at most one part in `1 + PAUSE_FACTOR` of the time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gantrymq.world import Clock, Timer

log = logging.getLogger(__name__)

MOST_SENDS: Final = 4
MOST_S: Final = 0.002
MOST_READS: Final = 1000
PAUSE_FACTOR: Final = 2


class DeferredReads:
    """The waiting reads. All methods belong to the event loop."""

    def __init__(self, clock: Clock) -> None:
        """Nothing waits before `sends_wait` is set."""
        self.sends_wait: Callable[[], bool] = lambda: False
        self._clock = clock
        self._waiting: list[Callable[[], object]] = []
        self._since_s = 0.0  # the first one waits
        self._next_s = 0.0  # earliest time at which reads wait again
        self._timer: Timer | None = None
        self._scheduled = False  # whether a call of `_run` is scheduled

    def defer(self, read: Callable[[], object]) -> bool:
        """Call *read* later and return True; call it if `sends_wait`. False if reads have waited enough."""
        if not self._waiting:
            now = self._clock.monotonic()
            if now < self._next_s:
                return False
            self._since_s = now
            self._timer = self._clock.call_later(MOST_S, self._run)
        elif len(self._waiting) >= MOST_READS:
            return False
        self._waiting.append(read)
        return True

    def release(self) -> None:
        """Do the waiting reads in the next iteration of the loop: no send waits for the disk any more."""
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        if waiting:
            now = self._clock.monotonic()
            self._next_s = now + (now - self._since_s) * PAUSE_FACTOR
        for read in waiting:
            try:
                read()
            except Exception:  # the others must still be done
                log.exception("a pull that waited for a sync could not be answered")
