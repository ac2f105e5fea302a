"""Long work on the event loop, in short pieces."""

from __future__ import annotations

from typing import Final

from gantrymq.world.clock import Clock

__all__ = ["MAX_SLICE_S", "TimeSlices"]

MAX_SLICE_S: Final = 0.003  # without a pause; a single item may take longer


class TimeSlices:
    """Gives others their turn when so many items are done, or when they have taken long.

    Time alone would not do: items that wait for a lock, or for a disk, take a thousand times what they take alone, and
    in a simulated world none takes any.
    """

    def __init__(self, clock: Clock, items: int) -> None:
        """*items*: the most of one turn."""
        self._clock = clock
        self._items = self._left = items
        self._until = clock.monotonic() + MAX_SLICE_S

    async def item_done(self) -> None:
        """An item is done."""
        self._left -= 1
        if not self._left or self._clock.monotonic() > self._until:
            await self._clock.sleep(0)
            self._left = self._items
            self._until = self._clock.monotonic() + MAX_SLICE_S
