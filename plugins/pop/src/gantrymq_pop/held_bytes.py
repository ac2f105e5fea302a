"""Bytes of messages that are in memory while something about them is being stored."""

from __future__ import annotations

import asyncio


class HeldBytes:
    """A count of bytes, with a limit above which no more are read."""

    def __init__(self, limit: int) -> None:
        """Start without bytes."""
        self._limit = limit
        self._held = 0
        self._released = asyncio.Event()

    async def room(self) -> None:
        """Wait while there are *limit* bytes or more. The caller adds what it reads before it waits again."""
        while self._held >= self._limit:
            self._released.clear()
            await self._released.wait()

    def add(self, size: int) -> None:
        """Count bytes that were read."""
        self._held += size

    def release(self, size: int) -> None:
        """Count bytes that are no longer needed."""
        self._held -= size
        self._released.set()
