"""The gate of a broker with elected roles: nothing is acknowledged before the in-sync set has it.

What consumers see is bounded by `RawLog.limit_visibility`, because a new master has records that are not confirmed yet.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from gantrymq.config import Settings
from gantrymq.errors import Unconfirmed

__all__ = ["Confirming", "ElectedGate"]


class Confirming(Protocol):
    """The broker, as the gate asks it."""

    @property
    def leads(self) -> bool:
        """Whether this broker is the master, or about to be."""

    @property
    def confirmed(self) -> int:
        """The log offset up to which every member of the in-sync set has the log, as far as this broker knows."""

    def stored(self, log_offset: int) -> None:
        """Take that the log is appended up to *log_offset*, and on the disk if acknowledgements wait for that."""

    def unconfirmed(self, log_offset: int) -> str:
        """Return why what ends at *log_offset* may not be acknowledged at this moment; empty if it may."""


class ElectedGate:
    """Waits for the confirm offset while this broker is the master. `last_look` decides how senders are answered."""

    name = "elected"
    late_code = Unconfirmed.FLUSH_SLAVE_TIMEOUT

    def __init__(self) -> None:
        self.late_s: float | None = None
        self._broker: Confirming | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap: offset, order of the call, wait
        self._calls = count()

    def applies(self, settings: Settings) -> bool:
        """Return whether roles are elected."""
        return settings.flag("enableControllerMode")

    def open(self, broker: Confirming, late_s: float) -> None:
        """Begin; senders wait for *late_s* seconds at most."""
        self._broker, self.late_s = broker, late_s

    async def passed(self, log_offset: int) -> None:
        """Wait until the in-sync set has the log up to *log_offset*."""
        if self._broker is None or not self._broker.leads:
            return
        self._broker.stored(log_offset)
        if self._broker.confirmed >= log_offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (log_offset, next(self._calls), future))
        try:
            await future
        finally:
            while self._waiting and self._waiting[0][2].done():
                heappop(self._waiting)

    def last_look(self, log_offset: int) -> Unconfirmed | None:
        """Compare the time once more, right before senders are answered."""
        problem = self._broker.unconfirmed(log_offset) if self._broker is not None else ""
        return Unconfirmed(f"stored, but {problem}", Unconfirmed.FLUSH_SLAVE_TIMEOUT) if problem else None

    def look(self) -> None:
        """Let pass what is confirmed now."""
        if self._waiting and self._broker is not None:
            self._pass(self._broker.confirmed)

    def release(self) -> None:
        """End all waits, because this broker is not the master any more."""
        self._pass(1 << 63)

    def _pass(self, confirmed: int) -> None:
        while self._waiting and self._waiting[0][0] <= confirmed:
            *_, future = heappop(self._waiting)
            if not future.done():
                future.set_result(None)
