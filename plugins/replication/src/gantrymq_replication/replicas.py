"""The slaves of a master: the end of each log, which are in sync, and which messages may be acknowledged.

Pure: offsets and times in, decisions out. A slave is in sync while it is less than haMaxGapNotInSync behind, was heard
of within haMaxTimeSlaveNotCatchup, and had, at some moment within that time, all that the master had then. With
allAckInSyncStateSet it must also have all that was confirmed without it.

The first report of a slave is the length of its log, not a proof that it is a copy of this one. So a report confirms
nothing until it is greater: then the slave has received, and a slave of GantryMQ also compared, bytes that this
connection sent.

After a power cut of a slave its old connection may last for a while beside the new one. So of the connections of one
host only the newest counts as a copy, and an older one only with records that were appended after that began: then both
are alive, and two slaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from gantrymq_replication.settings import SYNC_MASTER, HaSettings
from gantrymq_replication.traffic import Departures, Traffic


@attrs.define(eq=False)
class Replica:
    """A connected slave that has reported."""

    address: str
    acked: int
    heard_at: float  # monotonic seconds
    next_offset: int = 0  # of the next transfer
    unproven: int = -1  # reports up to this log offset confirm nothing
    replaced_end: int = -1  # the master's end when a newer connection of the host began, at `replaced_at`
    replaced_at: float = float("-inf")
    connected_at: float = attrs.field(default=attrs.Factory(lambda self: self.heard_at, takes_self=True))
    traffic: Traffic = attrs.field(factory=Traffic)
    caught_up_at: float = float("-inf")  # it had everything that the master had at this time
    _mark: int = -1  # the master's end at `_marked_at`
    _marked_at: float = 0.0

    def acknowledge(self, acked: int, end: int, now: float) -> None:
        """Record a report; *end*: of the master's log."""
        self.acked, self.heard_at = max(self.acked, acked), now
        if self._mark < 0 or self.acked >= self._mark:
            if self._mark >= 0:
                self.caught_up_at = self._marked_at
            self._mark, self._marked_at = end, now
        if self.acked >= end:
            self.caught_up_at = now

    @property
    def host(self) -> str:
        """The host of its connection."""
        return self.address.rpartition(":")[0]

    @property
    def proven(self) -> int:
        """The log offset up to which it surely has this log."""
        return self.acked if self.acked > self.unproven else 0

    @property
    def counted(self) -> int:
        """The log offset up to which it is surely a copy beside newer connections."""
        return self.acked if self.acked > self.unproven and self.acked > self.replaced_end else 0

    def replaced(self) -> bool:
        """Return whether it may be the old connection of a slave that has connected again."""
        return self.acked <= self.replaced_end and self.heard_at <= self.replaced_at

    def late_s(self, end: int, now: float) -> float:
        """Return how long ago it had everything, or else connected; 0 if it has everything."""
        return 0.0 if self.acked >= end else now - max(self.caught_up_at, self.connected_at)

    def in_sync(self, end: int, now: float, rules: HaSettings) -> bool:
        """Return whether it belongs to the in-sync set."""
        caught_up = self.acked >= end or now - self.caught_up_at <= rules.max_late_s
        return caught_up and end - self.acked < rules.max_gap and now - self.heard_at <= rules.max_late_s


class Replicas:
    """The connected slaves."""

    def __init__(self, rules: HaSettings, alive: Callable[[], int] = lambda: 1) -> None:
        """*alive*: the registered brokers of the group, with enableSlaveActingMaster."""
        self._rules, self._alive = rules, alive
        self._all: dict[Replica, None] = {}
        self._confirmed = 0  # with allAckInSyncStateSet: the greatest offset that `confirmed` has returned
        self.departures = Departures()

    @property
    def all(self) -> Collection[Replica]:
        """Every connected slave."""
        return self._all.keys()

    def add(self, replica: Replica, end: int) -> None:
        """Count *replica* from now on; *end*: of the master's log."""
        for each in self._all:
            if each.host == replica.host:
                each.replaced_end, each.replaced_at = end, replica.connected_at
        self._all[replica] = None

    def remove(self, replica: Replica) -> None:
        """Forget *replica*."""
        self._all.pop(replica, None)

    def stops(self, host: str) -> None:
        """Note that a slave at *host* stops; hosts without a slave are ignored."""
        if any(each.host == host for each in self._all):
            self.departures.stops(host)

    @property
    def wanted(self) -> int:
        """How many copies in sync the settings ask for, the master's included."""
        rules = self._rules
        return max(rules.copies if rules.role == SYNC_MASTER else 1, rules.least_copies)

    @property
    def _gates_by_group(self) -> bool:
        return self._rules.acting and self._rules.role == SYNC_MASTER

    def _usable(self, end: int) -> int:
        """Return how many copies may be waited for in a group with acting masters, the master's included."""
        near = sum(end - each.acked < self._rules.max_gap and not each.replaced() for each in self._all)
        return min(self._alive(), 1 + near)

    def needed(self, end: int) -> int:
        """Return for how many copies an acknowledgement waits, the master's included."""
        rules = self._rules
        if self._gates_by_group and rules.fewer_copies:
            return max(min(rules.copies, self._usable(end)), rules.least_copies)
        return rules.copies

    def in_sync(self, end: int, now: float) -> list[Replica]:
        """Return the slaves of the in-sync set; *end*: of the master's log."""
        return [each for each in self._caught_up(end, now) if not each.replaced()]

    def _caught_up(self, end: int, now: float) -> list[Replica]:
        confirmed = min(self._confirmed, end)  # the log may have been truncated
        return [each for each in self._all if each.acked >= confirmed and each.in_sync(end, now, self._rules)]

    def available(self, end: int) -> bool:
        """Return whether as many slaves as needed are connected and less than haSlaveFallbehindMax behind."""
        near = sum(end - each.acked < self._rules.fall_behind_max for each in self._all)
        return near >= self.needed(end) - 1

    def confirmed(self, end: int, now: float) -> int:
        """Return the log offset up to which enough slaves have the log; *end* if none is waited for."""
        needed = self.needed(end) - 1
        acks = sorted((each.counted for each in self._all), reverse=True)
        if len(acks) < needed:
            return 0
        confirmed = acks[needed - 1] if needed else end
        if self._rules.all_in_sync:
            confirmed = min([confirmed, *(each.proven for each in self._caught_up(end, now))])
            self._confirmed = max(self._confirmed, confirmed)
        return confirmed

    def shortage(self, end: int, now: float) -> str:
        """Return why no message may be stored, because of minInSyncReplicas; empty if it may."""
        if self._gates_by_group and (usable := self._usable(end)) < (needed := self.needed(end)):
            return f"in-sync replicas not enough: {usable} in this group, needed {needed}"
        least = self._rules.least_copies
        if least > 1 and (count := 1 + len(self.in_sync(end, now))) < least:
            return f"in-sync replicas not enough: {count} in sync, minInSyncReplicas={least}"
        return ""
