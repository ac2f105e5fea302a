"""Durations of syncs, which decide whether the event loop may sync itself.

Handing a sync to a thread and back takes as long as a quick sync, and several times as long while the loop is busy: the
thread waits for the interpreter's lock, twice. If the loop syncs itself, it serves nothing else meanwhile. Therefore it
does so only

- while the disk is quick on average;
- for at most `MOST_SHARE` of the time, except for a client that is alone;
- after a slow sync not for a hundred times as long as it took, so these take 1 % of the loop's time at most. If it was
  longer than a step of the loop may be, not for a minute: a stalled disk stops the loop once a minute at most.
"""

from __future__ import annotations

from typing import Final

MOST_MEAN_S: Final = 0.0005  # average of recent syncs up to which the loop syncs itself
SLOW_S: Final = 0.002  # a sync on the loop that takes longer is slow
MOST_SHARE: Final = 0.2  # of the loop's time, for syncs beside other requests
STALL_S: Final = 0.02  # the longest step of the loop
STALL_PAUSE_S: Final = 60.0
PAUSE_FACTOR: Final = 100
_WEIGHT: Final = 1 / 8  # of the newest sync in the average
_FIRST_MEAN_S: Final = 2 * MOST_MEAN_S  # before the first sync: some quick ones in the thread are needed


class SyncTimes:
    """Moving average of the durations, and the times until which the loop must not sync."""

    def __init__(self) -> None:
        self.mean_s = _FIRST_MEAN_S
        self._thread_until = 0.0  # monotonic seconds
        self._share_until = 0.0  # the same, if the loop has other requests to serve

    def took(self, seconds: float) -> None:
        """Note the duration of a sync in the thread."""
        self.mean_s += (seconds - self.mean_s) * _WEIGHT

    def took_on_loop(self, seconds: float, now: float) -> None:
        """Note the duration of a sync on the loop, which ended at *now*."""
        self.took(seconds)
        self._share_until = now + seconds * (1 / MOST_SHARE - 1)
        if seconds > SLOW_S:
            self._thread_until = now + (STALL_PAUSE_S if seconds > STALL_S else PAUSE_FACTOR * seconds)

    def loop_may_sync(self, now: float, *, alone: bool) -> bool:
        """Return whether the event loop may do the next sync; *alone*: it has nothing else to do."""
        return self.mean_s <= MOST_MEAN_S and now >= self._thread_until and (alone or now >= self._share_until)
