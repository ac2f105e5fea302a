"""Queue of the writers that wait while too much is unwritten on one connection.

The first writer waits for the peer, the others for the first, so they write in order of arrival. If the peer reads
nothing within a writer's timeout, that writer fails; the next ones then fail at once, until the peer reads again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gantrymq.errors import CallTimeout, format_seconds
from gantrymq.world import Clock
from gantrymq.world.clock import wait_set

__all__ = ["WriteQueue"]


class WriteQueue:
    """Write queue of one connection."""

    def __init__(self, clock: Clock, peer: Callable[[], str], unwritten: Callable[[], int], most: int) -> None:
        """*unwritten* returns the unwritten bytes, 0 on a closed connection; above *most* writers wait."""
        self._clock = clock
        self._peer = peer
        self._unwritten = unwritten
        self._most = most
        self._turn = asyncio.Lock()
        self._length = 0
        self._woken: asyncio.Event = asyncio.Event()
        self._stuck: int | None = None  # unwritten bytes at the last timeout

    def __len__(self) -> int:
        return self._length

    async def room(self, timeout_s: float) -> None:
        """Wait until at most *most* bytes are unwritten and all earlier writers have proceeded.

        Write before the next await, else another writer may come first.

        Raises:
            CallTimeout: the peer reads nothing for *timeout_s* seconds.
        """
        self._length += 1
        try:
            async with self._turn:
                while (unwritten := self._unwritten()) > self._most:
                    await self._wait(unwritten, timeout_s)
        finally:
            self._length -= 1

    def wake(self, *, moved: bool) -> None:
        """Wake the first writer. *moved*: the peer has read most of the data, or the connection is closed."""
        if moved:
            self._stuck = None
        self._woken.set()

    async def _wait(self, before: int, timeout_s: float) -> None:
        """Wait for a call of `wake`. Raises CallTimeout if the *before* bytes did not decrease in time."""
        if self._stuck is None or before < self._stuck:
            self._stuck = None
            self._woken.clear()
            began = self._clock.monotonic()
            await wait_set(self._clock, self._woken, timeout_s)
            if self._unwritten() < before or self._clock.monotonic() - began < timeout_s:
                return
            self._stuck = before
        raise CallTimeout(
            f"{self._peer()}: nothing could be written for {format_seconds(timeout_s)}, {before} bytes wait"
        )
