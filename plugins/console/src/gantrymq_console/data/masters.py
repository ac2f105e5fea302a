"""Elected masters: the set of brokers of one name, and a planned change of its master."""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.errors import ClientError, GantryError
from gantrymq_admin.elected import ElectedBroker, ElectedSet
from gantrymq_admin.elected_sentences import accepting, explained, why_out
from gantrymq_admin.master_changes import candidates, change_to, member_of, new_master, problem_of, refused_before
from gantrymq_console.data.brokers import elected_set
from gantrymq_console.data.cluster import Aged, Cluster
from gantrymq_console.values import Long, optional_long

AGE_S: Final = 3.0
DEADLINE_S: Final = 7.0  # longer than the time of one request: a set is looked at when one of its brokers is silent
_PAUSE_S: Final = 0.2  # between two looks at a set that changes
_REGISTERED_S: Final = 30.0  # for the name servers to know the new master


@attrs.frozen
class MemberRow:
    """One broker of a set; None: not known."""

    id: int | None  # in the set
    address: str
    master: bool
    in_sync: bool
    registered: bool
    epoch: int | None  # the newest that it knows
    end: Long | None = attrs.field(converter=optional_long)  # of its log
    lag_bytes: Long | None = attrs.field(converter=optional_long)  # as the master reports, else by the ends of the logs
    may_take_over: bool
    problem: str  # why it does not answer, or is not in the in-sync set


@attrs.frozen
class MasterSet:
    """The brokers of one name whose master is elected."""

    cluster: str
    broker: str
    engine: str  # controller, etcd
    leader: str  # address of the leading controller
    epoch: int
    master: int | None
    in_sync: tuple[int, ...]
    accepts: bool | None  # whether the master accepts messages; None: it does not say
    hands_over: bool | None  # false: the master is RocketMQ's, which its controller replaces; None: no usable master
    problem: str  # why there is none
    members: tuple[MemberRow, ...]
    sentences: tuple[str, ...]  # in English, as of ``gantrymq cluster explain``

    def member(self, broker_id: int | None) -> MemberRow | None:
        """Return the member with an id."""
        return next((each for each in self.members if broker_id is not None and each.id == broker_id), None)

    @property
    def candidates(self) -> tuple[MemberRow, ...]:
        """The members that may take over."""
        return tuple(each for each in self.members if each.may_take_over)


async def master_set(cluster: Cluster, name: str) -> Aged[MasterSet | None]:
    """Return the set of a broker name, at most `AGE_S` old; None if the master is not elected.

    Raises ClientError: no name server answers.
    """

    async def ask() -> MasterSet | None:
        found = await elected_set(cluster, name)
        return None if found is None else of_set(found)

    return await cluster.shared(("elected", name), AGE_S, ask)


def of_set(found: ElectedSet) -> MasterSet:
    """Return a set for a page."""
    master, able = found.master, candidates(found)
    problem, hands_over = "", None
    if found.data_lost:
        problem = found.data_lost
    elif master is None or master.silent:
        problem = master.silent if master is not None else ""
    else:
        hands_over = master.election is not None
        problem = "" if hands_over or found.leader else found.engine_problem
    return MasterSet(
        found.cluster,
        found.broker,
        "controller" if found.controllers else "etcd",
        found.leader,
        found.epoch,
        found.master_id,
        found.in_sync,
        accepting(found),
        None if problem else hands_over,
        problem or found.engine_problem,
        tuple(_row(found, each, able) for each in found.brokers),
        tuple(explained(found)),
    )


def _row(found: ElectedSet, each: ElectedBroker, able: tuple[int, ...]) -> MemberRow:
    master = found.master
    slaves = master.ha.slaves if master is not None and master.ha is not None else ()
    lag = next((slave.lag_bytes for slave in slaves if each.id is not None and slave.broker_id == each.id), None)
    ends = (master.end, each.end) if master is not None and each is not master else (None, None)
    if lag is None and ends[0] is not None and ends[1] is not None:
        lag = max(0, ends[0] - ends[1])  # masters of RocketMQ report slaves without their ids
    in_sync = each.id in found.in_sync
    if in_sync or each is master:
        problem = each.silent or (each.election.unelectable if each.election is not None else "")
    else:
        problem = why_out(found, each)
    return MemberRow(
        each.id,
        each.address,
        each.id is not None and each.id == found.master_id,
        in_sync,
        each.registered,
        each.election.epoch if each.election is not None else None,
        each.end,
        lag,
        each.id in able,
        problem,
    )


@attrs.define(kw_only=True)
class Change:
    """A planned change of a master and its progress."""

    broker: str
    old: int | None  # id of the master before
    old_epoch: int
    to: int
    hands_over: bool
    step: str = "asked"  # asked, elected, accepts, registered: the last one that was reached
    new: int | None = None
    new_address: str = ""
    epoch: int | None = None
    refused_ms: int | None = None  # for how long the old master refused messages; None: it does not say
    accepts: bool | None = None
    problem: str = ""  # why the change failed, or why the new master does not accept messages

    @property
    def is_made(self) -> bool:
        """Whether the wanted broker is the master."""
        return self.new == self.to


async def change(cluster: Cluster, found: ElectedSet, progress: Change) -> None:
    """Change the master and wait until the new one accepts messages and is registered; update *progress*.

    An error of a request is reported in *progress*, with the master that the set has then: the master may have been
    lost during the change, and another one elected.
    """
    name, clock = progress.broker, cluster.world.clock
    refused = refused_before(found)

    async def look() -> ElectedSet:
        now = await elected_set(cluster, name)
        if now is None:
            raise ClientError(f"the master of {name} is not elected any more")
        _note(progress, now)
        return now

    try:
        changed = await change_to(cluster.admin, found, member_of(found, str(progress.to)))
        progress.refused_ms = changed.refused_ms if changed is not None else None
    except GantryError as problem:
        _note(progress, await look())
        if not progress.is_made:
            progress.problem = str(problem)
            return
    now = await new_master(clock, look, found, progress.to, refused, _PAUSE_S)
    cluster.forget()
    progress.problem = problem_of(now)
    if not progress.is_made or progress.accepts is False:
        return
    began = clock.monotonic()
    while clock.monotonic() - began < _REGISTERED_S:
        known = (await cluster.admin.clusters()).brokers
        if any(each.name == name and each.master == progress.new_address for each in known):
            progress.step = "registered"
            break
        await clock.sleep(_PAUSE_S)
    cluster.forget()


def _note(progress: Change, now: ElectedSet) -> None:
    master = now.master
    progress.new, progress.epoch, progress.accepts = now.master_id, now.epoch, accepting(now)
    progress.new_address = master.address if master is not None else ""
    if progress.is_made and progress.step == "asked":
        progress.step = "elected"
    if progress.is_made and progress.accepts is not False and progress.step == "elected":
        progress.step = "accepts"
