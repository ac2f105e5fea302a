"""Gates: an acknowledgement waits until enough slaves of a SYNC_MASTER, or the in-sync set, have the message.

Consumers of an elected master read up to a bound, `RawLog.limit_visibility`, because a new master has records that
are not confirmed yet.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Protocol

from gantrymq.errors import FlushSlaveTimeout, SlaveNotAvailable, Unconfirmed
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import Clock, Timer
from gantrymq_replication.replicas import Replicas
from gantrymq_replication.settings import SYNC_MASTER

_Answer = Callable[[Exception | None], object]

START_S: Final = 10.0  # after the master's start; RocketMQ's slaves connect again after 5 s, ours within a second
_NOT_AVAILABLE: Final = "stored, but fewer slaves are connected than inSyncReplicas needs, or they are too far behind"
_LATE: Final = "stored, but the slaves did not confirm it in time (slaveTimeout)"


class _OffsetGate:
    """A gate (`gantrymq.interfaces.Gate`) that passes messages before a log offset."""

    late_error = FlushSlaveTimeout

    def __init__(self) -> None:
        self.late_s: float | None = None
        self._waiting: list[tuple[int, int, float, _Answer]] = []  # a heap: offset, order of the call, time limit
        self._calls = count()

    @abstractmethod
    def ask(self, log_offset: int, answer: _Answer) -> None:
        """Call *answer* once, now or later; see `gantrymq.interfaces.Gate`."""

    async def passed(self, log_offset: int) -> None:
        """Wait for the answer of `ask`, and raise it if it is an error."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer(error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.ask(log_offset, answer)
        await future

    def _wait(self, log_offset: int, answer: _Answer, until: float = float("inf")) -> None:
        heappush(self._waiting, (log_offset, next(self._calls), until, answer))

    def _pass(self, log_offset: int) -> None:
        """Answer the waits for *log_offset* or less."""
        while self._waiting and self._waiting[0][0] <= log_offset:
            heappop(self._waiting)[-1](None)

    def _fail(self, error: Callable[[], Exception], now: float = float("inf")) -> None:
        """End the waits whose time is up at *now* with an error."""
        ended = [each for each in self._waiting if each[2] <= now]
        self._waiting = [each for each in self._waiting if each[2] > now]
        heapify(self._waiting)
        for *_, answer in ended:
            answer(error())


class ReplicaGate(_OffsetGate):
    """Waits for `Replicas.confirmed`. While no master serves slaves, at its start and stop, there are too few slaves.

    In the first seconds of a master, its slaves may be about to connect again, so they are waited for like slaves that
    are late. Waits end in the order of the log, and a slave that is late delays only messages that need it.
    """

    name = "replicas"

    def __init__(self) -> None:
        super().__init__()
        self._replicas: Replicas | None = None
        self._timer: Timer | None = None  # due at the earliest time limit, or before

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fail(_not_available)

    def ask(self, log_offset: int, answer: _Answer) -> None:
        """Answer when enough slaves have the log up to *log_offset*.

        The answer is `Unconfirmed` if they do not in time (12), or if there are not enough slaves to wait for (11).
        """
        replicas = self._replicas
        if replicas is None or self.late_s is None:
            answer(_not_available())
            return
        now = self._clock.monotonic()
        if replicas.confirmed(self._end(), now) >= log_offset:
            answer(None)
        elif not self.starts and not replicas.available(self._end()):
            answer(_not_available())
        else:
            self._wait(log_offset, answer, now + self.late_s)
            if self._timer is None:
                self._timer = self._clock.call_later(self.late_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        self._fail(_late, now)
        if self._waiting and self._timer is None:
            first = min(until for _, _, until, _ in self._waiting)
            self._timer = self._clock.call_later(first - now, self._expire)

    def acknowledged(self) -> None:
        """Answer the waits for messages that enough slaves have now."""
        if not self._waiting or self._replicas is None:
            return
        self._pass(self._replicas.confirmed(self._end(), self._clock.monotonic()))


def _not_available() -> Unconfirmed:
    return SlaveNotAvailable(_NOT_AVAILABLE)


def _late() -> Unconfirmed:
    return FlushSlaveTimeout(_LATE)


class Confirming(Protocol):
    """A broker with an elected role, as its gate asks it."""

    @property
    def leads(self) -> bool:
        """Whether this broker is the master, or about to be."""

    @property
    def confirmed(self) -> int:
        """The log offset up to which every member of the in-sync set has the log, as far as this broker knows."""

    def stored(self, log_offset: int) -> None:
        """Record that the log is appended up to *log_offset*, and on the disk if acknowledgements wait for that."""

    def unconfirmed(self, log_offset: int) -> str:
        """Return why a message that ends at *log_offset* may not be acknowledged now; empty if it may."""


class ElectedGate(_OffsetGate):
    """Waits for the confirm offset while this broker is the master. `last_look` decides how senders are answered."""

    name = "elected"

    def __init__(self) -> None:
        super().__init__()
        self._broker: Confirming | None = None

    def applies(self, settings: Settings) -> bool:
        """Return whether roles are elected."""
        return settings.flag("enableControllerMode")

    def open(self, broker: Confirming, late_s: float) -> None:
        """Begin; senders wait for *late_s* seconds at most."""
        self._broker, self.late_s = broker, late_s

    def ask(self, log_offset: int, answer: _Answer) -> None:
        """Answer when the in-sync set has the log up to *log_offset*."""
        if self._broker is None or not self._broker.leads:
            answer(None)
            return
        self._broker.stored(log_offset)
        if self._broker.confirmed >= log_offset:
            answer(None)
        else:
            self._wait(log_offset, answer)

    def last_look(self, log_offset: int) -> Unconfirmed | None:
        """Check the lease once more, right before senders are answered."""
        problem = self._broker.unconfirmed(log_offset) if self._broker is not None else ""
        return FlushSlaveTimeout(f"stored, but {problem}") if problem else None

    def look(self) -> None:
        """Answer the waits for confirmed messages."""
        if self._waiting and self._broker is not None:
            self._pass(self._broker.confirmed)

    def release(self) -> None:
        """End all waits, because this broker is not the master any more."""
        self._pass(1 << 63)
