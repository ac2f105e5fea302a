"""The in-sync set of a master: its members, the confirm offset, and changes to request from the engine.

Pure: offsets and times in, decisions out. The engine keeps the set, because it elects from it. The master asks for a
change and counts the union of every set that the engine may have meanwhile:

    expand     the newcomer counts before the engine is asked
    shrink     a member counts until the engine has agreed
    no answer  both sets count until the engine's set epoch is a newer one; then no older request can succeed any more.
               A newcomer whose outcome is unknown and that has left again is asked for once more, to settle it

So each member of the engine's set has all acknowledged records, whichever of the requests succeeded. The same holds for
the master's topics and groups, whose saves are numbered: a slave enters when it has the newest save, counts from then
on, and leaves when it is late. A slave of RocketMQ does not report that, and is not waited for.

The set does not become smaller than `least_copies`. Nothing is acknowledged without a member that is away, so it keeps
everything that is, and may be elected. RocketMQ's set shrinks to the master alone, and ends with it.

Source: apache/rocketmq store/.../ha/autoswitch/AutoSwitchHAService.java, whose set may shrink earlier (5.5.0), and
whose confirm offset is the end of the log with allAckInSyncStateSet=false.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import attrs

ANY_TABLES = 1 << 62  # of a slave that does not report which tables it has


@attrs.frozen(kw_only=True)
class SyncSetSettings:
    """How a master treats its set."""

    own_id: int
    least_copies: int = 2  # minInSyncReplicas: with fewer members nothing is accepted, nor acknowledged
    all_in_sync: bool = True  # acknowledge and show only records that every member has
    max_late_s: float = 15.0  # a member that did not catch up for this long leaves
    first_s: float = 3.0  # a member that did not connect to a new master within this time leaves
    retry_s: float = 1.0  # between two requests for a change
    doubt_s: float = float("inf")  # a request without an answer has no effect any more after this time


class Alter(NamedTuple):
    """Ask the engine for another set; then call `SyncSet.accepted`, `refused` or `unanswered`."""

    number: int
    set_epoch: int  # that the set replaces
    members: frozenset[int]


@attrs.define(eq=False)
class Follower:
    """A slave that copies the log of this epoch."""

    acked: int
    learner: bool
    connected_at: float  # monotonic seconds
    caught_up_at: float = float("-inf")  # it had everything that the master had at this time
    mark: int = -1  # the master's end at `marked_at`
    marked_at: float = 0.0
    tables: int = ANY_TABLES  # number of the save of topics and groups that it has
    tables_late_since: float = float("inf")
    refusals: int = 0  # by the engine, of its entry

    def report(self, acked: int, end: int, now: float) -> None:
        """Record a report; *end*: of the master's log."""
        self.acked = max(self.acked, acked)
        if self.acked >= self.mark:
            if self.mark >= 0:
                self.caught_up_at = self.marked_at
            self.mark, self.marked_at = end, now
        if self.acked >= end:
            self.caught_up_at = now

    def late_s(self, end: int, now: float) -> float:
        """Return how long ago it had everything, or else connected; 0 if it has everything."""
        return 0.0 if self.acked >= end else now - max(self.caught_up_at, self.connected_at)


class SyncSet:
    """The set of a master in one epoch."""

    def __init__(
        self,
        rules: SyncSetSettings,
        members: Iterable[int],
        set_epoch: int,
        *,
        confirmed: int,
        end: int,
        now: float,
    ) -> None:
        """*confirmed*: by earlier masters, as far as it is known; *end*: of the log."""
        self._rules, self.members, self.set_epoch = rules, frozenset(members), set_epoch
        self.confirmed = confirmed  # every member has the log up to here; consumers see no more
        self.followers: dict[int, Follower] = {}
        self._possible: dict[int, frozenset[int]] = {}  # by number: requests that may have succeeded
        self._unanswered: dict[int, float] = {}  # by number: since when the outcome is unknown
        self._number = 0
        self._open = -1  # the request that is being made
        self._end, self._since = end, now
        self._tables = 0  # number of the newest save of topics and groups
        self._retry_at = now
        self._others: tuple[int, ...] = ()
        self.present = 1  # members that are connected, with this broker
        self.enough = False  # enough members are connected to accept and acknowledge
        self.followed = False  # every other member is connected, and there is one
        self._recount()

    @property
    def counted(self) -> frozenset[int]:
        """Every id that may be in the engine's set."""
        return self.members.union(*self._possible.values())

    # --- the log and its copies --------------------------------------------------------------------------------------

    def appended(self, end: int) -> None:
        """Record the new end of the master's log (the end on its disk, if acknowledgements wait for that)."""
        self._end = end
        self._confirm()

    def connected(self, broker_id: int, acked: int, learner: bool, now: float, tables: int = ANY_TABLES) -> None:
        """Count a slave that follows this epoch now; its log is equal to the master's up to *acked*."""
        follower = self.followers[broker_id] = Follower(acked, learner, now)
        follower.report(acked, self._end, now)
        self._has_tables(follower, tables, now)
        self._recount()

    def reported(self, broker_id: int, acked: int, now: float) -> None:
        """Record a slave's report."""
        if (follower := self.followers.get(broker_id)) is not None:
            follower.report(acked, self._end, now)
            self._confirm()

    def gone(self, broker_id: int) -> None:
        """Forget a slave's connection; as a member it counts until it has left the set."""
        self.followers.pop(broker_id, None)
        self._recount()

    def tables_saved(self, number: int, now: float) -> None:
        """Record the number of the newest save of topics and groups."""
        self._tables = number
        for each in self.followers.values():
            self._has_tables(each, each.tables, now)

    def tables_copied(self, broker_id: int, number: int, now: float) -> None:
        """Record that a slave has the topics and groups of save *number*."""
        follower = self.followers.get(broker_id)
        if follower is not None and follower.tables != ANY_TABLES:
            self._has_tables(follower, number, now)

    def _has_tables(self, follower: Follower, number: int, now: float) -> None:
        follower.tables = number
        follower.tables_late_since = float("inf") if number >= self._tables else min(follower.tables_late_since, now)

    @property
    def tables_everywhere(self) -> int:
        """The newest save of topics and groups that every member has; -1 while one is not connected, or a learner."""
        if not self._rules.all_in_sync:
            return ANY_TABLES
        found = [self.followers.get(each) for each in self._others]
        return min((-1 if each is None or each.learner else each.tables for each in found), default=ANY_TABLES)

    def _recount(self) -> None:
        """Note which copies count, after a change of the set."""
        self._others = tuple(self.counted - {self._rules.own_id})
        self.present = sum(each in self.followers or each == self._rules.own_id for each in self.members)
        self.enough = self.present >= self._rules.least_copies
        self.followed = bool(self._others) and all(each in self.followers for each in self._others)
        self._confirm()

    def _confirm(self) -> None:
        """Advance the confirm offset; it does not advance while a member is not connected."""
        if not self._rules.all_in_sync:
            self.confirmed = max(self.confirmed, self._end)
            return
        least = self._end
        for each in self._others:
            follower = self.followers.get(each)
            if follower is None:
                return
            least = min(least, follower.acked)
        self.confirmed = max(self.confirmed, least)

    # --- changes -----------------------------------------------------------------------------------------------------

    def review(self, now: float) -> Alter | None:
        """Return the change to ask for now, if any."""
        if self._open >= 0 or now < self._retry_at:
            return None
        wanted = self._wanted(now)
        if wanted == self.members:
            wanted = self.counted
        if wanted == self.members:
            return None
        self._number += 1
        self._open = self._number
        self._possible[self._number] = wanted
        self._recount()
        return Alter(self._number, self.set_epoch, wanted)

    def _wanted(self, now: float) -> frozenset[int]:
        rules = self._rules
        kept = {rules.own_id, *(each for each in self.members if self._stays(each, now))}
        new = {each for each, follower in self.followers.items() if each not in kept and self._enters(follower, now)}
        if any(self.followers[each].refusals for each in new - self.members):
            # The engine may not know one of the brokers, which must not keep others out: one at a time.
            new = {min(new - self.members, key=lambda each: (self.followers[each].refusals, each))} | new & self.members
        wanted = frozenset(kept | new)
        return wanted if len(wanted) >= rules.least_copies else self.members | new

    def _stays(self, member: int, now: float) -> bool:
        follower = self.followers.get(member)
        if follower is None:  # it had a while to connect to a new master; a lost connection ends its membership
            return now - self._since < self._rules.first_s
        late = now - max(follower.caught_up_at, follower.connected_at)
        if now - follower.tables_late_since > self._rules.max_late_s:
            return False
        return not follower.learner and (follower.acked >= self._end or late <= self._rules.max_late_s)

    def _enters(self, follower: Follower, now: float) -> bool:
        # A follower that caught up with an end of this epoch has its start, which RocketMQ's master asks for.
        caught_up = follower.acked >= self._end or now - follower.caught_up_at <= self._rules.max_late_s
        if follower.tables < self._tables:
            return False
        return caught_up and not follower.learner and follower.acked >= self.confirmed

    def accepted(self, members: Iterable[int], set_epoch: int) -> None:
        """Record the set of the engine, from an answer."""
        if set_epoch > self.set_epoch:
            self.members, self.set_epoch = frozenset(members), set_epoch
            self._possible.clear()
            self._unanswered.clear()
            self._open = -1
            self._recount()

    def read(self, members: Iterable[int], set_epoch: int, asked_at: float) -> None:
        """Record the set that the engine had after *asked_at*."""
        self.accepted(members, set_epoch)
        for number in [each for each, since in self._unanswered.items() if asked_at - since > self._rules.doubt_s]:
            del self._unanswered[number], self._possible[number]
            self._recount()

    def refused(self, number: int, now: float) -> None:
        """Handle the engine's refusal of a request; it had no effect, and is made again later if it is still wanted."""
        for each in self._possible.pop(number, frozenset()) - self.members:
            if (follower := self.followers.get(each)) is not None:
                follower.refusals += 1
        self._ended(number, now)
        self._recount()

    def unanswered(self, number: int, now: float) -> None:
        """Note that a request may have an effect, now or later; its set counts until the engine's is newer."""
        if number in self._possible:
            self._unanswered[number] = now
        self._ended(number, now)

    def _ended(self, number: int, now: float) -> None:
        if number == self._open:
            self._open, self._retry_at = -1, now + self._rules.retry_s
