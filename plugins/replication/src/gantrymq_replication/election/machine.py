"""The role of a broker whose master is elected by an engine. Pure: events and times in, decisions out.

An engine (`engine.Engine`) says which master the set has in which epoch. This machine decides on the consequences here:

    standing          this broker                 decision
    ----------------------------------------------------------------------------------------------
    newer epoch       is its master               become the master, serve after `ready`
                      is not its master           follow the master; a master is fenced first
                      has no master               a master is fenced; try to be elected
    same epoch        is its master already       the lease is renewed, the set is read
                      has no master               a master is fenced; try to be elected
    older epoch                                   nothing

Fencing. With `Fencing.STRICT` a master accepts and acknowledges only before a deadline: the time *before* the last
request whose answer confirmed its epoch, plus the time for which the engine elects no other one, minus a margin for
clocks of different speed. The deadline is compared when a message is accepted and again before it is acknowledged, with
the clock at that moment, so that a process that was suspended finds it has passed. An engine that elects as soon as a
connection to it breaks (RocketMQ's controller) sets `fences_on_loss`: then a break fences at once, until a later
request is answered.

With `Fencing.FAILSAFE` a master also goes on after its deadline while every other member of its set, at least one, is
connected and so follows its epoch. Nothing is lost by that, because each of them must have all acknowledged records,
and ends the connection before it is a master itself; but a master that was replaced may serve reads and take offsets
for a moment. With `Fencing.ROCKETMQ` a master stays the master until it learns of another one, as in RocketMQ, whose
master acknowledges messages that are lost in such cases.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeAlias

import attrs

from gantrymq.errors import ConfigError
from gantrymq_replication.election.fencing import Fencing
from gantrymq_replication.election.sync_set import ANY_TABLES, Alter, SyncSet, SyncSetSettings


class Standing(NamedTuple):
    """The state of a set of brokers at an engine."""

    master: int | None
    epoch: int  # of the master, or the last one if there is none
    members: frozenset[int]  # the in-sync set
    set_epoch: int
    address: str = ""  # of the master, host:port
    ha_address: str = ""  # of the master's HA port; empty if the engine does not know it


@attrs.frozen(kw_only=True)
class RoleSettings:
    """How a broker treats its role."""

    own_id: int
    fencing: Fencing = Fencing.STRICT
    lease_s: float = 9.0  # after a confirmed request the engine elects no other master for this long
    margin_s: float = 2.0
    renew_s: float = 3.0  # between two renewals
    elect_s: float = 1.0  # between two attempts to be elected
    fences_on_loss: bool = False


# --- decisions --------------------------------------------------------------------------------------------------------


@attrs.frozen
class BecomeMaster:
    """Make the log the master's of *epoch*, then call `Machine.ready`.

    Connections of slaves and to another master end. The master of an earlier epoch may be named again.
    """

    epoch: int


@attrs.frozen
class Follow:
    """Copy the log of *master*; acknowledge nothing to an earlier one from now on."""

    master: int
    epoch: int
    address: str
    ha_address: str


@attrs.frozen
class StandDown:
    """There is no master: serve reads only, and wait for one."""

    reason: str


@attrs.frozen
class Fence:
    """Accept and acknowledge nothing, waiting messages included; the role stays."""

    reason: str


@attrs.frozen
class Unfence:
    """Accept and acknowledge again."""


@attrs.frozen
class Renew:
    """Report progress to the engine and read the standing; then call `learned` or `failed`."""


@attrs.frozen
class Elect:
    """Try to be elected; then call `learned` or `failed`."""


Decision: TypeAlias = BecomeMaster | Follow | StandDown | Fence | Unfence | Renew | Elect | Alter


class _Role(enum.Enum):
    NONE = "none"
    BECOMING = "becoming the master"
    MASTER = "master"
    SLAVE = "slave"


_NEVER = float("-inf")
NOT_CONFIRMED = "no engine has confirmed in time that it is still the master"
NO_MASTER = "there is no master, and no member of the in-sync set was elected yet"


class Machine:
    """One broker. Methods return decisions; the caller passes the results back."""

    def __init__(self, rules: RoleSettings, set_rules: SyncSetSettings, now: float, epoch: int = 0) -> None:
        """*epoch*: the last one of the log; an engine that knows only older ones is refused.

        Raises:
            ConfigError: the rules contradict each other.
        """
        if rules.fencing is Fencing.FAILSAFE and not set_rules.all_in_sync:
            raise ConfigError(
                "fencing=failsafe needs allAckInSyncStateSet=true, so that every member has what is acknowledged"
            )
        self._rules, self._set_rules = rules, set_rules
        self._role = _Role.NONE
        self.epoch = max(epoch, 0)  # the newest known one
        self.master: int | None = None
        self.set: SyncSet | None = None  # while this broker is the master
        self.held = ""  # why this broker accepts nothing for a moment, in a sentence; it acknowledges stored messages
        self.unelectable = ""  # why this broker must not be the master, in a sentence; empty if it may
        self.data_lost = ""  # the engine answers with older epochs than this broker knows; why, in a sentence
        self._standing = Standing(None, 0, frozenset(), 0)
        self._known = False  # whether a standing was learned
        self._served = -1  # the last epoch that this broker was named for
        self._left = -1  # an epoch that this broker was the master of and is not any more
        self._deadline = _NEVER
        self._lost_at = _NEVER
        self._epoch_at = _NEVER  # when `epoch` was learned; earlier requests may have an older answer
        self._fenced = True  # whether the last decision was to fence
        self._busy: type[Renew | Elect] | None = None  # the request under way
        self._renew_at = self._elect_at = self._hint_at = now
        self._problem = "no engine has answered yet"
        self._no_master = NO_MASTER

    # --- queries -----------------------------------------------------------------------------------------------------

    @property
    def is_master(self) -> bool:
        """Whether this broker is the master and ready; it may be fenced."""
        return self._role is _Role.MASTER

    @property
    def standing(self) -> Standing:
        """The newest standing."""
        return self._standing

    @property
    def known(self) -> bool:
        """Whether the engine has reported a standing."""
        return self._known

    @property
    def own_id(self) -> int:
        """The id of this broker."""
        return self._rules.own_id

    @property
    def own(self) -> bool:
        """Whether this broker is named as the master; it may not be ready."""
        return self.master == self._rules.own_id

    def lease_left(self, now: float) -> float:
        """Return the seconds until this master fences itself; 0 for others."""
        return max(0.0, self._deadline - now) if self._role is _Role.MASTER else 0.0

    def leased(self, now: float) -> bool:
        """Return whether this broker may act as the master at *now*."""
        if self._role is not _Role.MASTER:
            return False
        if now < self._deadline or self._rules.fencing is Fencing.ROCKETMQ:
            return True
        return self._rules.fencing is Fencing.FAILSAFE and self.set is not None and self.set.followed

    def may_accept(self, now: float) -> bool:
        """Return whether a message may be stored."""
        return not self.held and self.leased(now) and self.set is not None and self.set.enough

    def may_acknowledge(self, log_offset: int, now: float) -> bool:
        """Return whether a message that ends at *log_offset* may be acknowledged. Call it last before the answer."""
        return self.leased(now) and self.set is not None and self.set.enough and log_offset <= self.set.confirmed

    def problem(self, now: float) -> str:
        """Return why this broker accepts nothing, in a sentence; empty if it does."""
        if self.data_lost and self._role is not _Role.MASTER:
            return self.data_lost
        if self._role is _Role.SLAVE:
            if self.master is None:
                return self._no_master
            at = f" at {self._standing.address}" if self._standing.address else ""
            return f"this broker is a slave; the master of epoch {self.epoch} is broker id {self.master}{at}"
        if self._role is not _Role.MASTER:
            if self.unelectable:
                return self.unelectable
            return self._no_master if self._known and self.master is None else self._problem
        if not self.leased(now):
            return f"this master is fenced: {self.data_lost or self._problem}"
        if self.held:
            return self.held
        if self.set is not None and not self.set.enough:
            least = self._set_rules.least_copies
            return f"in-sync replicas not enough: {self.set.present} in sync, minInSyncReplicas={least}"
        return ""

    # --- the engine --------------------------------------------------------------------------------------------------

    def learned(self, standing: Standing, asked_at: float | None, now: float) -> list[Decision]:
        """Handle a standing.

        Args:
            standing: from an answer or a notification.
            asked_at: the time before the request was sent; None for a notification, which may be old.
            now: the present time.
        """
        if asked_at is not None:
            if self._busy is Elect and standing.master is None:
                self._no_master = NO_MASTER
            self._busy = None
            self._renew_at = asked_at + self._rules.renew_s if asked_at >= self._hint_at else now
        own = standing.master == self._rules.own_id
        if standing.epoch < self.epoch or (own and standing.epoch <= self._left):
            if standing.epoch < self.epoch and asked_at is not None and asked_at >= self._epoch_at:
                self._without_data(standing.epoch, now)
            return self._look(now)
        self.data_lost = ""
        before = self._standing
        if standing.epoch == before.epoch and standing.set_epoch < before.set_epoch:  # set epochs never decrease
            standing = standing._replace(members=before.members, set_epoch=before.set_epoch)
        self._standing, self.master, self._known = standing, standing.master, True
        if before.master is not None and standing.master is None:
            self._elect_at = now
        if standing.epoch > self.epoch or (self._role is _Role.NONE and standing.master is not None):
            self.epoch, self._epoch_at = standing.epoch, now
            decisions = self._changed(standing)
        elif standing.master is None:
            decisions = self._without_master()
        elif own:
            decisions = []
            if self.set is not None and self._role is _Role.MASTER:
                self.set.read(standing.members, standing.set_epoch, _NEVER if asked_at is None else asked_at)
        elif self._role is not _Role.SLAVE:
            decisions = self._changed(standing)  # another broker is the master of this epoch
        elif (standing.address, standing.ha_address) != (before.address, before.ha_address):
            decisions = [_follow(standing)]
        else:
            decisions = []
        if own and asked_at is not None and asked_at >= self._lost_at:
            self._deadline = max(self._deadline, asked_at + self._rules.lease_s - self._rules.margin_s)
            if self._role is _Role.MASTER and now < self._deadline:
                self._problem = NOT_CONFIRMED  # an earlier one is over
        elif own and self._deadline == _NEVER:
            self._renew_at = min(self._renew_at, now)  # the lease of a notification is not known
        return decisions + self._look(now)

    def _without_data(self, epoch: int, now: float) -> None:
        """Note that the engine knows epochs up to *epoch* only, so its promise that there is no other master is void.

        A new set of brokers would get the epochs of this one again.
        """
        self.data_lost = self._problem = (
            f"the engine has lost its data: it knows epochs up to {epoch}, and this broker knows epoch {self.epoch} "
            "(or this broker belongs to another set). 'gantrymq cluster explain' names the command that ends that, see "
            "'When the engine has lost its data' in the documentation of elected masters"
        )
        self._deadline, self._lost_at = _NEVER, now

    def _changed(self, standing: Standing) -> list[Decision]:
        told = self._role is _Role.NONE and self._problem == self.unelectable
        decisions = self._stop_serving(f"epoch {standing.epoch} has begun")
        self._deadline = _NEVER
        if standing.master is None:
            return decisions + self._without_master()
        self._no_master = NO_MASTER
        if standing.master == self._rules.own_id:
            if self.unelectable:
                self._role, self.set, self._problem = _Role.NONE, None, self.unelectable
                return decisions if told else [*decisions, StandDown(self.unelectable)]
            self._role, self.set = _Role.BECOMING, None
            self._served = standing.epoch
            self._problem = f"this broker is becoming the master of epoch {standing.epoch}"
            return [*decisions, BecomeMaster(standing.epoch)]
        self._leave()
        self._role = _Role.SLAVE
        return [*decisions, _follow(standing)]

    def _without_master(self) -> list[Decision]:
        if self._role in (_Role.MASTER, _Role.BECOMING):
            decisions = self._stop_serving("this broker is not the master any more")
            self._leave()
            return [*decisions, StandDown(self._problem)]
        if self._role is _Role.NONE:
            self._problem = self._no_master
        return []

    def _leave(self) -> None:
        """End a role; an epoch that this broker leaves as its master is not taken up again."""
        if self._role in (_Role.MASTER, _Role.BECOMING):
            self._left = max(self._left, self._served)
        self._role, self.set, self._deadline = _Role.NONE, None, _NEVER

    def _stop_serving(self, reason: str) -> list[Decision]:
        self._problem = reason
        if self._fenced:
            return []
        self._fenced = True
        return [Fence(reason)]

    def failed(self, problem: str, now: float) -> list[Decision]:
        """Note that a renewal or election had no answer, or was refused for the reason *problem*."""
        if self._busy is Elect:
            self._no_master = problem
        self._busy, self._problem = None, problem
        self._renew_at = min(self._renew_at, now + self._rules.elect_s)
        self._elect_at = max(self._elect_at, now + self._rules.elect_s)
        return self._look(now)

    def lost(self, problem: str, now: float) -> list[Decision]:
        """Note that the connection to the engine broke. Answers to requests made before do not count any more."""
        self._problem = problem
        self._renew_at = self._hint_at = now
        if self._rules.fences_on_loss:
            self._deadline, self._lost_at = _NEVER, now
        return self._look(now)

    def handed_over(self, now: float) -> list[Decision]:
        """Handle a resignation that the engine accepted: stop serving, and read the standing."""
        decisions = self._stop_serving("this master has handed over")
        self._leave()
        self.master, self._elect_at = None, now + self._rules.elect_s
        return [*decisions, StandDown("this master has handed over"), *self.hinted(now)]

    def doubted(self, problem: str, now: float) -> list[Decision]:
        """Fence a master that may have handed over, until a request made from now on says that it is still one."""
        self._problem, self._deadline, self._lost_at = problem, _NEVER, now
        return self.hinted(now)

    def hinted(self, now: float) -> list[Decision]:
        """Read the standing now, because the engine is said to have a new one."""
        self._renew_at = self._hint_at = now
        return self._look(now)

    # --- the broker --------------------------------------------------------------------------------------------------

    def ready(self, epoch: int, *, confirmed: int, end: int, now: float) -> list[Decision]:
        """Serve as the master of *epoch* with a log up to *end*, *confirmed* by earlier masters.

        Ignored if there is a newer epoch.
        """
        if self._role is not _Role.BECOMING or epoch != self.epoch:
            return []
        standing = self._standing
        self._role, self._problem = _Role.MASTER, NOT_CONFIRMED
        self.set = SyncSet(
            self._set_rules,
            standing.members,
            standing.set_epoch,
            confirmed=confirmed,
            end=end,
            now=now,
        )
        return self._look(now)

    def tick(self, now: float) -> list[Decision]:
        """Look at the time; call it every 0.1 s or so."""
        return self._look(now)

    def _look(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        leased = self.leased(now)
        if leased and self._fenced:
            self._fenced = False
            decisions.append(Unfence())
        elif not leased and not self._fenced:
            decisions += self._stop_serving(self._problem)
        if self.set is not None and self._role is _Role.MASTER and (alter := self.set.review(now)) is not None:
            decisions.append(alter)
        if self._busy:
            return decisions
        if self._known and self.master is None and not self.unelectable and now >= self._elect_at:
            self._busy, self._elect_at = Elect, now + self._rules.elect_s
            decisions.append(Elect())
        elif now >= self._renew_at:
            self._busy, self._renew_at = Renew, now + self._rules.renew_s
            decisions.append(Renew())
        return decisions

    # --- the set -----------------------------------------------------------------------------------------------------

    def appended(self, end: int) -> None:
        """Record the new end of the log, as `SyncSet.appended`."""
        if self.set is not None:
            self.set.appended(end)

    def connected(
        self, broker_id: int, acked: int, learner: bool, now: float, tables: int = ANY_TABLES
    ) -> list[Decision]:
        """Count a slave that follows the epoch of this master; *tables*: as `SyncSet.connected`."""
        if self.set is not None:
            self.set.connected(broker_id, acked, learner, now, tables)
        return self._look(now)

    def tables_copied(self, broker_id: int, number: int, now: float) -> list[Decision]:
        """Record that a slave has the topics and groups of save *number*."""
        if self.set is not None:
            self.set.tables_copied(broker_id, number, now)
        return self._look(now)

    def reported(self, broker_id: int, acked: int, now: float) -> list[Decision]:
        """Record a slave's report. A report of a member changes only the confirm offset, so it is cheap."""
        if self.set is None:
            return []
        self.set.reported(broker_id, acked, now)
        return [] if broker_id in self.set.members else self._look(now)

    def gone(self, broker_id: int, now: float) -> list[Decision]:
        """Handle the end of a slave's connection."""
        if self.set is not None:
            self.set.gone(broker_id)
        return self._look(now)

    def altered(self, epoch: int, members: frozenset[int], set_epoch: int, now: float) -> list[Decision]:
        """Record the set that the engine accepted, requested in *epoch*."""
        if self.set is not None and epoch == self.epoch:
            self.set.accepted(members, set_epoch)
        return self._look(now)

    def not_altered(self, epoch: int, number: int, known: bool, now: float) -> list[Decision]:
        """Handle a failed request for a set: refused if *known*, with an unknown outcome otherwise."""
        self._renew_at = self._hint_at = now  # the engine's set may be another one than was thought
        if self.set is not None and epoch == self.epoch:
            (self.set.refused if known else self.set.unanswered)(number, now)
        return self._look(now)


def _follow(standing: Standing) -> Follow:
    assert standing.master is not None
    return Follow(standing.master, standing.epoch, standing.address, standing.ha_address)
