"""A queue of those who want to write on one connection while too much is unwritten.

The first of the line waits for the peer, the others for the first: they write in the order in which they came. Whoever
meets a peer that takes nothing for as long as he would wait gives up, and so do those behind him, each for his own time
at most: what was tried in vain is not tried again before something has moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gantrymq.errors import CallTimeout, format_seconds
from gantrymq.world import Clock

__all__ = ["WriteQueue"]


class WriteQueue:
    """Belongs to one connection."""

    def __init__(self, clock: Clock, peer: Callable[[], str], unwritten: Callable[[], int], most: int) -> None:
        """*unwritten* says how many bytes wait, 0 once the connection is closed; above *most* the line stands."""
        self._clock = clock
        self._peer = peer
        self._unwritten = unwritten
        self._most = most
        self._turn = asyncio.Lock()
        self._length = 0
        self._woken: asyncio.Event = asyncio.Event()
        self._stuck: int | None = None  # unwritten bytes when somebody gave up

    def __len__(self) -> int:
        return self._length

    async def room(self, timeout_s: float) -> None:
        """Wait until at most *most* bytes are unwritten and those before have had their turn.

        Write without another await, or somebody else does.

        Raises:
            CallTimeout: the peer takes nothing for *timeout_s* seconds.
        """
        self._length += 1
        try:
            async with self._turn:
                while (unwritten := self._unwritten()) > self._most:
                    await self._wait(unwritten, timeout_s)
        finally:
            self._length -= 1

    def look(self, *, moved: bool) -> None:
        """Bytes were handed to the socket; *moved*: most of them were taken, or the connection is gone."""
        if moved:
            self._stuck = None
        self._woken.set()

    async def _wait(self, before: int, timeout_s: float) -> None:
        """Until somebody calls `look`; raises CallTimeout when *before* bytes did not become less for too long."""
        if self._stuck is None or before < self._stuck:
            self._stuck = None
            self._woken.clear()
            timer = self._clock.call_later(timeout_s, self._woken.set)
            began = self._clock.monotonic()
            try:
                await self._woken.wait()
            finally:
                timer.cancel()
            if self._unwritten() < before or self._clock.monotonic() - began < timeout_s:
                return
            self._stuck = before
        raise CallTimeout(
            f"{self._peer()}: nothing could be written for {format_seconds(timeout_s)}, {before} bytes wait"
        )
