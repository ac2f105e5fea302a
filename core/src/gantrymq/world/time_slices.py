"""Long-running work on the event loop in short slices."""

from __future__ import annotations

from typing import Final

from gantrymq.world.clock import Clock

__all__ = ["MAX_SLICE_S", "TimeSlices"]

MAX_SLICE_S: Final = 0.003  # without yielding; a single item may take longer


class TimeSlices:
    """Yields to the event loop after a number of items or after `MAX_SLICE_S`.

    Time alone is not sufficient: an item may take a thousand times longer when it waits for a lock or a disk, and in a
    simulated world items take no time.
    """

    def __init__(self, clock: Clock, items: int) -> None:
        """*items*: largest number of items per slice."""
        self._clock = clock
        self._items = self._left = items
        self._until = clock.monotonic() + MAX_SLICE_S

    async def item_done(self) -> None:
        """Count an item as done; yield to the event loop if the slice is over."""
        self._left -= 1
        if not self._left or self._clock.monotonic() > self._until:
            await self._clock.sleep(0)
            self._left = self._items
            self._until = self._clock.monotonic() + MAX_SLICE_S
