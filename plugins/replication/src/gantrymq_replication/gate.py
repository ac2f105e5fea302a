"""The gate of a SYNC_MASTER: an acknowledgement waits until enough slaves have the message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.config import Settings
from gantrymq.errors import Unconfirmed
from gantrymq.world import Clock, Timer
from gantrymq_replication.replicas import Replicas
from gantrymq_replication.settings import SYNC_MASTER
from gantrymq_replication.waits import Answer, OffsetGate

__all__ = ["ReplicaGate"]

START_S: Final = 10.0  # after the master's start; RocketMQ's slaves connect again after 5 s, ours within a second
NOT_AVAILABLE: Final = "stored, but fewer slaves are connected than inSyncReplicas needs, or they are too far behind"
LATE: Final = "stored, but the slaves did not confirm it in time (slaveTimeout)"


class ReplicaGate(OffsetGate):
    """Waits for `Replicas.confirmed`. While no master serves slaves, at its start and stop, there are too few of them.

    In the first seconds of a master, its slaves may be about to connect again, so they are waited for like slaves that
    are late. Waits end in the order of the log, and a slave that is late delays only what needs it.
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

    def ask(self, log_offset: int, answer: Answer) -> None:
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
        """Let pass what enough slaves have now."""
        if not self._waiting or self._replicas is None:
            return
        self._pass(self._replicas.confirmed(self._end(), self._clock.monotonic()))


def _not_available() -> Unconfirmed:
    return Unconfirmed(NOT_AVAILABLE, Unconfirmed.SLAVE_NOT_AVAILABLE)


def _late() -> Unconfirmed:
    return Unconfirmed(LATE, Unconfirmed.FLUSH_SLAVE_TIMEOUT)
