"""Statistics of elections on one broker since its start, for metrics and for status."""

from __future__ import annotations

from collections.abc import Iterable

from gantrymq_replication.election.engine import NO_BROKER_IDS
from gantrymq_replication.election.machine import Machine


class ElectionCounts:
    """Counts elections, the time without a master, and answers of the engine. Times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        self.elections = 0  # new masters, and new epochs of the same one
        self.without_master_s = 0.0
        self.unreachable = 0  # calls of the engine without an answer
        self.refused = 0  # calls that the engine refused, such as an election without a candidate
        self._answered_at = self._looked_at = now
        self._epoch: int | None = None  # of the last known master

    def answered(self, now: float) -> None:
        """Note that the engine answered."""
        self._answered_at = now

    def failed(self, now: float, *, refused: bool) -> None:
        """Note that a call of the engine failed; one that is *refused* has an answer."""
        if refused:
            self.refused += 1
            self._answered_at = now
        else:
            self.unreachable += 1

    def silent_s(self, now: float) -> float:
        """Return how long ago the engine answered; since the start if it has not yet."""
        return now - self._answered_at

    def look(self, machine: Machine | None, now: float) -> None:
        """Look at the state; called every 0.1 s or so, and after each answer of the engine."""
        passed, self._looked_at = now - self._looked_at, now
        if not _has_master(machine, now):
            self.without_master_s += passed
        if machine is None or not machine.known:
            return
        if self._epoch is None:  # elections before this broker's start do not count
            self._epoch = machine.epoch
        elif machine.master is not None and machine.epoch > self._epoch:
            self._epoch = machine.epoch
            self.elections += 1


class Away:
    """The brokers that a master could have as slaves, and that are not connected.

    They have been slaves, or were the master before, or in the in-sync set at the election. One that announced
    its stop does not count.
    """

    def __init__(self) -> None:
        self.since_ms: dict[int, int] = {}  # wall time, by broker id
        self._stopping = set[int]()  # ids of brokers that said so, and may still be connected

    def begin(self, others: Iterable[int], now_ms: int) -> None:
        """Begin as the master; none of the *others* is connected yet. Ids that are of no broker are left out."""
        away = {each for each in others if each < NO_BROKER_IDS} - self._stopping
        self.since_ms = dict.fromkeys(away, now_ms)
        self._stopping.clear()

    def came(self, broker_id: int) -> None:
        """Note that a slave is connected."""
        self._stopping.discard(broker_id)
        self.since_ms.pop(broker_id, None)

    def stops(self, broker_id: int) -> None:
        """Note that a slave, or the last master, is stopped by its operator."""
        self._stopping.add(broker_id)
        self.since_ms.pop(broker_id, None)

    def forget(self, broker_id: int) -> None:
        """Stop reporting a slave as away."""
        self.since_ms.pop(broker_id, None)

    def gone(self, broker_id: int, now_ms: int) -> None:
        """Note that a slave is not connected any more."""
        if broker_id in self._stopping:
            self._stopping.discard(broker_id)
        else:
            self.since_ms[broker_id] = now_ms


def _has_master(machine: Machine | None, now: float) -> bool:
    """Return whether there is a master, as far as this broker knows; itself only while it may accept messages."""
    if machine is None or machine.master is None:
        return False
    return machine.leased(now) if machine.own else True
