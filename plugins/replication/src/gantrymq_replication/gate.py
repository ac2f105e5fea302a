"""The gate of a SYNC_MASTER: an acknowledgement waits until enough slaves have the message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from gantrymq.config import Settings
from gantrymq.errors import Unconfirmed
from gantrymq.world import Clock
from gantrymq_replication.replicas import Replicas
from gantrymq_replication.settings import SYNC_MASTER

__all__ = ["ReplicaGate"]

START_S: Final = 10.0  # after the master's start; RocketMQ's slaves connect again after 5 s, ours within a second
NOT_AVAILABLE: Final = "stored, but fewer slaves are connected than inSyncReplicas needs, or they are too far behind"
LATE: Final = "stored, but the slaves did not confirm it in time (slaveTimeout)"


class ReplicaGate:
    """Waits for `Replicas.confirmed`. While no master serves slaves, at its start and stop, there are too few of them.

    In the first seconds of a master, its slaves may be about to connect again, so they are waited for like slaves that
    are late. Waits end in the order of the log, and a slave that is late delays only what needs it.
    """

    name = "replicas"
    late_code = Unconfirmed.FLUSH_SLAVE_TIMEOUT

    def __init__(self) -> None:
        self.late_s: float | None = None
        self._replicas: Replicas | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap: offset, order of the call, wait
        self._calls = count()

    def applies(self, settings: Settings) -> bool:
        """Return whether acknowledgements wait for slaves."""
        copies, every = settings.number("inSyncReplicas"), settings.flag("allAckInSyncStateSet")
        elected = settings.flag("enableControllerMode")
        return settings.text("brokerRole") == SYNC_MASTER and (copies > 1 or every) and not elected

    def open(self, replicas: Replicas, late_s: float, end: Callable[[], int], clock: Clock) -> None:
        """Begin to wait for *replicas*, *late_s* seconds at most; *end* is the end of the log."""
        self._replicas, self.late_s, self._end, self._clock = replicas, late_s, end, clock
        self._starts_until = clock.monotonic() + START_S

    @property
    def starts(self) -> bool:
        """Whether slaves may be about to connect again after the master's start."""
        return self._replicas is not None and self._clock.monotonic() < self._starts_until

    def close(self) -> None:
        """End all waits: there are no slaves any more."""
        self._replicas = self.late_s = None
        for *_, future in self._waiting:
            if not future.done():
                future.set_exception(_not_available())

    async def passed(self, log_offset: int) -> None:
        """Wait until enough slaves have the log up to *log_offset*.

        Raises:
            Unconfirmed: not in time (12), or there are not enough slaves to wait for (11).
        """
        replicas = self._replicas
        if replicas is None or self.late_s is None:
            raise _not_available()
        if replicas.confirmed(self._end(), self._clock.monotonic()) >= log_offset:
            return
        if not self.starts and not replicas.available(self._end()):
            raise _not_available()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(self.late_s, _expire, future)
        heappush(self._waiting, (log_offset, next(self._calls), future))
        try:
            await future
        finally:
            timer.cancel()
            while self._waiting and self._waiting[0][2].done():
                heappop(self._waiting)

    def acknowledged(self) -> None:
        """Let pass what enough slaves have now."""
        if not self._waiting or self._replicas is None:
            return
        confirmed = self._replicas.confirmed(self._end(), self._clock.monotonic())
        while self._waiting and self._waiting[0][0] <= confirmed:
            *_, future = heappop(self._waiting)
            if not future.done():
                future.set_result(None)


def _not_available() -> Unconfirmed:
    return Unconfirmed(NOT_AVAILABLE, Unconfirmed.SLAVE_NOT_AVAILABLE)


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(Unconfirmed(LATE, Unconfirmed.FLUSH_SLAVE_TIMEOUT))
