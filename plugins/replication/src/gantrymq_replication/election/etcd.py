"""The engine on etcd. Keys of one broker name, below ``/gantry/<cluster>/<broker>/``:

    ids/next       the next id
    members/<id>   {"address", "haAddress", "epoch", "end", "priority", "confirmed", "electable", "whole"}, with the
                   member's lease
    state          {"master", "epoch", "set", "setEpoch", "clean", "successor"}
    master         {"id", "epoch"}, with the master's lease

The master is the broker that wrote `master` under a lease that lives. Every change of `state` is one transaction that
compares its last revision and, except in an election, that `master` has the writer's lease:

    election   `master` is absent: epoch + 1, and the set stays, with the new master in it, and without a master whose
               lease ended if enough others are alive. Only a member of the set may be elected; one with a longer log
               (epoch, end), and the successor that a master named, tries 0.5 s earlier. Every member of the set has all
               that was acknowledged, so that it does not matter which one is faster.
    alter      the set, setEpoch + 1

So at most one broker writes in an epoch, and another one can be elected only after the master's lease has ended.
After an unclean stop without SYNC_FLUSH a member's log is not whole: it waits for minInSyncReplicas members of the set,
and for each of them with a longer log, because one may have acknowledged messages that it has lost.

`clean` is false while the only member of the set has acknowledged messages that are perhaps not on its disk: then it is
not elected after a crash, before a person says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.errors import StoreDamaged
from gantrymq.plugin.world import World, wait_set
from gantrymq_replication.election.broker_id import IdentityFiles, in_use
from gantrymq_replication.election.engine import (
    NOTHING,
    Answer,
    EngineError,
    EngineRefused,
    EngineUnreachable,
    OnLost,
    OnNews,
    Progress,
    Terms,
    listed,
    longer,
    not_clean,
    waits_for,
)
from gantrymq_replication.election.etcd_client import Etcd, KeyValue, Txn
from gantrymq_replication.election.machine import Standing
from gantrymq_replication.election.sync_set import Alter

log = logging.getLogger("gantrymq.replication")

_IDS: Final = 5  # attempts to take an id that others take as well
_OLDEST: Final = (3, 4)
_LATE_S: Final = 0.5  # etcd looks for ended leases at such intervals
_RANK_S: Final = 0.5  # a member waits for each one with a longer log


@attrs.frozen(kw_only=True)
class EtcdEngineSettings:
    """Settings of the engine."""

    cluster: str
    broker: str
    address: str  # of this broker for clients
    ha_address: str
    identity: Path  # storePathBrokerIdentity
    durable: bool = True  # acknowledgements wait for the disk
    priority: int = 0x7FFFFFFF  # the lowest is elected first among equal logs
    least_copies: int = 1  # minInSyncReplicas
    lease_s: int = 9
    member_s: int = 10
    prefix: str = "/gantry"


@attrs.frozen
class _State:
    """The keys of a broker name in etcd."""

    value: dict[str, Any]  # of `state`
    revision: int  # 0: there is none yet
    epoch: int
    set_epoch: int
    in_sync: frozenset[int]
    master: KeyValue | None
    master_id: int  # that `master` names; 0 without it
    members: dict[int, dict[str, Any]]


def _state_of(base: str, found: Mapping[str, KeyValue]) -> _State:
    """Return the content of the keys.

    Raises:
        ValueError: a value is damaged.
    """
    state, master = found.get(base + "state"), found.get(base + "master")
    value = {} if state is None else _object(base + "state", state, epoch=int, set=list, setEpoch=int)
    in_sync = frozenset(value.get("set", ()))
    if not all(isinstance(each, int) for each in in_sync):
        raise ValueError(f"{base}state: its set has something else than numbers")
    members = {}
    for key, each in found.items():
        if key.startswith(base + "members/"):
            record = _object(key, each, address=str, haAddress=str, epoch=int, end=int, priority=int)
            members[int(key.rpartition("/")[2])] = record
    return _State(
        value,
        0 if state is None else state.revision,
        value.get("epoch", 0),
        value.get("setEpoch", 0),
        in_sync,
        master,
        0 if master is None else _object(base + "master", master, id=int)["id"],
        members,
    )


def _part(name: str) -> str:
    """Return a name as a part of a key: two names with slashes must not make the same key."""
    return name.replace("%", "%25").replace("/", "%2F")


def _object(key: str, found: KeyValue, **needed: type) -> dict[str, Any]:
    value = json.loads(found.value)
    if not isinstance(value, dict):
        raise ValueError(f"{key} is no JSON object")
    for name, kind in needed.items():
        if not isinstance(value.get(name), kind):
            raise ValueError(f"{key}: {name} is {value.get(name)!r}")
    return value


class EtcdEngine:
    """One broker's access to etcd."""

    def __init__(self, world: World, etcd: Etcd, rules: EtcdEngineSettings) -> None:
        self.terms = Terms(float(rules.lease_s), rules.lease_s / 3, fences_on_loss=False)
        self._clock, self._workers, self._etcd, self._rules = world.clock, world.workers, etcd, rules
        self._base = f"{rules.prefix}/{_part(rules.cluster)}/{_part(rules.broker)}/"
        self._files = IdentityFiles(world.files, rules.identity, rules.cluster, rules.broker)
        self._id = 0
        self._lease = 0  # of the master: perhaps ours
        self._member_lease = 0
        self._opened_at = 0.0  # monotonic; when this process began to take part
        self._seen: _State | None = None  # the state that was read last
        self._doubted = -1  # number of the set that a request without an answer may have replaced
        self._told = b""  # the member's record as it was written last
        self._watching: asyncio.Task[None] | None = None
        self._on_news: OnNews | None = None
        self._news = asyncio.Event()

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def open(self, on_news: OnNews, on_lost: OnLost, progress: Progress = NOTHING) -> int:
        """Take an id if this broker has none, and watch the keys. See `Engine.open`."""
        self._on_news = on_news
        if not self._id:
            await self._check_version()
            try:
                granted = await self._workers.run(self._files.granted)
            except StoreDamaged as error:
                raise EngineRefused(str(error)) from error
            self._id = await self._new_id() if granted is None else await self._taken(granted.broker_id)
        if self._watching is None:
            self._opened_at = self._clock.monotonic()
            await self._tell(progress)  # so that no other process uses the id from now on
            keys = [self._base + "master", self._base + "state"]
            self._watching = asyncio.ensure_future(self._etcd.watch(keys, self._changed))
        return self._id

    async def _check_version(self) -> None:
        version = await self._etcd.version()
        numbers = version.split(".")
        if len(numbers) > 1 and all(each.isdigit() for each in numbers[:2]) and tuple(map(int, numbers[:2])) < _OLDEST:
            raise EngineRefused(
                f"etcd is version {version}, and elections need {'.'.join(map(str, _OLDEST))} or newer: upgrade etcd"
            )

    async def _new_id(self) -> int:
        number = await self._take_id(1)
        await self._workers.run(self._files.grant, number)
        return number

    async def _taken(self, number: int) -> int:
        """Prevent that another broker gets the id of this one, if etcd has lost its data."""
        while (await self._next_id())[0] <= number:
            await self._take_id(number)
        return number

    async def _take_id(self, least: int) -> int:
        key = self._base + "ids/next"
        for _ in range(_IDS):
            following, compared = await self._next_id()
            number = max(following, least)
            if await self._etcd.commit(Txn(**compared, puts={key: (b"%d" % (number + 1), 0)})):
                return number
        raise EngineUnreachable(f"{_IDS} attempts to take an id failed, because other brokers took one")

    async def _next_id(self) -> tuple[int, Any]:
        """Return the next id, and the comparison of a transaction that ensures that it is still the next one."""
        key = self._base + "ids/next"
        found = (await self._etcd.read([key])).get(key)
        if found is None:
            return 1, {"absent": (key,)}
        if not found.value.isdigit():
            raise EngineRefused(f"{key} in etcd is {found.value!r}, which is no number")
        return int(found.value), {"revisions": {key: found.revision}}

    async def has(self, broker_id: int) -> bool:
        """Return whether *broker_id* was given to a broker of this set. See `Engine.has`."""
        return 0 < broker_id < (await self._next_id())[0] or broker_id in (await self._read()).members

    async def forget(self, broker_id: int) -> None:
        """Check that etcd keeps nothing of *broker_id*, whose record ends with its lease. See `Engine.forget`."""
        if broker_id in (await self._read()).members:
            after = f"and try again {self._rules.member_s} s later"
            raise EngineRefused(f"broker id {broker_id} is alive in etcd: stop it, {after}")

    async def hand_over(self, epoch: int, broker_id: int, *, leaves: bool = False) -> None:
        """Delete `master`, and name the broker that others wait for. See `Engine.hand_over`."""
        state = await self._read()
        if broker_id not in state.in_sync or broker_id not in state.members:
            living = listed(state.in_sync & state.members.keys() - {self._id})
            raise EngineRefused(f"broker id {broker_id} cannot be the master; members of the in-sync set are {living}")
        change = {"successor": broker_id, **(self._leaving(state) if leaves else {})}
        if not self._mine(state) or state.epoch != epoch or not await self._end(state, **change):
            raise EngineRefused(f"broker id {self._id} is not the master of epoch {epoch} in etcd any more")

    async def resign(self) -> None:
        """Delete `master`, and record that everything is on the disk. See `Engine.resign`.

        This broker leaves the set if enough other members are alive, so that the next master need not wait for it.
        """
        if not self._lease:
            return
        state = await self._read()
        if self._mine(state):
            await self._end(state, clean=True, **self._leaving(state))
        lease, self._lease = self._lease, 0
        await self._etcd.revoke(lease)

    def _leaving(self, state: _State) -> dict[str, Any]:
        """Return the set without this broker, if enough other members are alive."""
        others = state.in_sync - {self._id}
        leaves = others <= state.members.keys() and len(others) >= self._rules.least_copies
        return {"set": sorted(others if leaves else state.in_sync), "setEpoch": state.set_epoch + leaves}

    async def _end(self, state: _State, **more: Any) -> int:
        """End this broker's mastership with a change of `state`; return 0 if it has ended already."""
        key = self._base + "master"
        return await self._etcd.commit(
            Txn(
                revisions={self._base + "state": state.revision},
                leases={key: self._lease},
                puts={self._base + "state": (json.dumps({**state.value, **more}).encode(), 0)},
                deletes=(key,),
            )
        )

    async def close(self) -> None:
        """End the leases and the connection."""
        self._on_news = None
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        with suppress(EngineError):
            if self._member_lease:
                lease, self._member_lease = self._member_lease, 0
                await self._etcd.revoke(lease)
        await self._etcd.close()

    # --- the engine's calls ------------------------------------------------------------------------------------------

    async def renew(self, progress: Progress) -> Answer:
        """Renew the leases and read the standing. See `Engine.renew`."""
        asked_at = self._clock.monotonic()
        return Answer(self._standing(await self._renewed(progress)), asked_at)

    async def _renewed(self, progress: Progress) -> _State:
        """Renew the leases, then read: if `master` has the lease, it lives for its whole time from the call on."""
        if self._lease and not await self._etcd.keep_alive(self._lease):
            self._lease = 0
        await self._tell(progress)
        return await self._read()

    async def _tell(self, progress: Progress) -> None:
        """Keep this member's record."""
        rules = self._rules
        record = json.dumps(
            {
                "address": rules.address,
                "haAddress": rules.ha_address,
                "epoch": progress.epoch,
                "end": progress.end,
                "priority": rules.priority,
                "confirmed": progress.confirmed,
                "electable": progress.electable,
                "whole": progress.whole,
            }
        ).encode()
        if not self._member_lease or not await self._etcd.keep_alive(self._member_lease):
            await self._taken(self._id)  # etcd may have lost its data
            self._member_lease, self._told = await self._etcd.grant(rules.member_s), b""
        if record == self._told:
            return
        key = f"{self._base}members/{self._id}"
        put = {key: (record, self._member_lease)}
        if not self._told or not await self._etcd.commit(Txn(leases={key: self._member_lease}, puts=put)):
            self._told = b""
            found = (await self._etcd.read([key])).get(key)
            compared: Any = {"absent": (key,)} if found is None else {"revisions": {key: found.revision}}
            self._check_own(found)
            if not await self._etcd.commit(Txn(**compared, puts=put)):
                raise EngineUnreachable(f"{key} in etcd has changed meanwhile")
        self._told = record

    def _check_own(self, found: KeyValue | None) -> None:
        """Check that this member's record is one of this broker, perhaps of an earlier process.

        Raises:
            EngineRefused: it may be of another broker with the same id, of which slaves would count one copy for two.
        """
        with suppress(ValueError):  # a damaged one is replaced
            address = self._rules.address if found is None else _object("", found, address=str)["address"]
            if address != self._rules.address:
                raise EngineRefused(in_use(self._id, address, self._rules.identity))

    async def elect(self, progress: Progress) -> Answer:
        """Write `master`, if it is absent. See `Engine.elect`."""
        asked_at = self._clock.monotonic()
        state = await self._renewed(progress)  # an earlier attempt without an answer may have succeeded
        if state.master is None:
            until = self._clock.monotonic() + _RANK_S * self._rank(state, progress)
            while state.master is None and (left := until - self._clock.monotonic()) > 0:
                self._news.clear()
                await wait_set(self._clock, self._news, left)
                state = await self._read()
        if state.master is not None:
            return Answer(self._standing(state), asked_at)
        if self._lease:  # of an earlier attempt, whose outcome is unknown
            await self._etcd.revoke(self._lease)
            self._lease = 0
        asked_at = self._clock.monotonic()
        self._lease = await self._etcd.grant(self._rules.lease_s)
        epoch, members = state.epoch + 1, self._without_the_last_master(state) | {self._id}
        won = await self._etcd.commit(
            Txn(
                absent=(self._base + "master", *(() if state.revision else (self._base + "state",))),
                revisions={self._base + "state": state.revision} if state.revision else {},
                puts={
                    self._base + "state": (self._state(self._id, epoch, members, state.set_epoch + 1), 0),
                    self._base + "master": (json.dumps({"id": self._id, "epoch": epoch}).encode(), self._lease),
                },
            )
        )
        if not won:
            await self._etcd.revoke(self._lease)
            self._lease = 0
        return Answer(self._standing(await self._read()), asked_at)

    def _without_the_last_master(self, state: _State) -> frozenset[int]:
        """Return the set without a master that is gone, so that the next one need not wait for it."""
        others = state.in_sync - {state.value.get("master")}
        planned = state.value.get("successor") is not None
        enough = others <= state.members.keys() and len(others) >= self._rules.least_copies
        return others if enough and not planned else state.in_sync

    def _rank(self, state: _State, progress: Progress) -> int:
        """Return how many living members should be elected rather than this broker.

        Raises:
            EngineRefused: this broker may not be elected.
        """
        if not state.revision:
            if (newest := max((each["epoch"] for each in state.members.values()), default=0)) > 0:
                raise EngineRefused(
                    f"etcd has lost its data about {self._rules.broker}: it knows no epoch, and a log has records of "
                    f"epoch {newest}. 'gantrymq cluster explain' names the command that ends that, see 'When the "
                    "engine has lost its data' in the documentation of elected masters"
                )
            return 0
        if problem := self._not_clean(state, self._id) or self._not_whole(state, self._id):
            raise EngineRefused(problem)
        members = state.in_sync

        def order(epoch: int, end: int, priority: int, broker_id: int) -> tuple[int, int, int, int]:
            return -epoch, -end, priority, broker_id

        own = order(progress.epoch, progress.end, self._rules.priority, self._id)
        others = {
            each: order(record["epoch"], record["end"], record["priority"], each)
            for each, record in state.members.items()
            if each in members and each not in (self._id, state.value.get("master"))
        }
        successor = state.value.get("successor")
        return 0 if successor == self._id else sum(each == successor or others[each] < own for each in others)

    def _not_clean(self, state: _State, broker_id: int) -> str:
        """Return why the election of *broker_id* may lose acknowledged messages; empty if it does not."""
        members = state.in_sync
        if broker_id not in members:
            return (
                f"there is no master, and broker id {broker_id} is not in the in-sync set {listed(members)}: one must "
                "come back, or a person elects another with 'gantrymq cluster promote --unclean' and loses messages"
            )
        if members == {broker_id} and not state.value.get("clean", True):
            return (
                f"broker id {broker_id} was alone in its in-sync set and did not stop cleanly, so that messages may be "
                "lost: a person must elect it, with 'gantrymq cluster promote --unclean'"
            )
        return ""

    async def not_whole(self, progress: Progress) -> str:
        """Leave it to `elect`. See `Engine.not_whole`."""
        return ""

    def _not_whole(self, state: _State, broker_id: int) -> str:
        """Return why the log of a member may lack acknowledged messages that others have; empty if it does not."""
        own = state.members[broker_id]
        if own.get("whole", True) or state.value.get("successor") == broker_id:
            return ""
        others = {each: state.members[each] for each in state.in_sync & state.members.keys() - {broker_id}}
        least, end = min(self._rules.least_copies, len(state.in_sync)), own["end"]
        why = not_clean(broker_id)
        if self._clock.monotonic() < self._opened_at + self._rules.member_s + _LATE_S:
            return f"{why}it waits {self._rules.member_s} s, in which etcd forgets the members that are gone"
        if len(others) + 1 < least:
            return why + waits_for(least, state.in_sync - state.members.keys())
        for each, record in sorted(others.items()):
            if (confirmed := record.get("confirmed", 0)) > end:
                return f"{why}it ends at {end}, and broker id {each} has confirmed ones up to {confirmed}"
            if record.get("electable", True) and (record["epoch"], record["end"]) > (own["epoch"], end):
                return why + longer(end, each)
        return ""

    async def alter(self, epoch: int, change: Alter) -> tuple[frozenset[int], int]:
        """Replace the set in `state`. See `Engine.alter`."""
        state = self._seen
        if state is None or state.set_epoch != change.set_epoch or not change.members <= state.members.keys():
            try:
                state = await self._read()
            except EngineUnreachable as error:  # nothing was asked for yet
                raise EngineRefused(str(error)) from error
        if not self._mine(state) or state.epoch != epoch:
            raise EngineRefused(f"broker id {self._id} is not the master of epoch {epoch} in etcd any more")
        if state.set_epoch != change.set_epoch:
            raise EngineRefused(f"the in-sync set in etcd is number {state.set_epoch}, not {change.set_epoch}")
        members = change.members
        if strangers := members - state.in_sync - state.members.keys():
            if self._doubted != change.set_epoch:
                raise EngineRefused(
                    f"broker ids {listed(strangers)} are not connected to etcd as members of {self._rules.broker}: are "
                    "they of another set?"
                )
            members = state.in_sync  # a newer number ends an earlier request whose answer was lost
        key, number = self._base + "state", change.set_epoch + 1
        txn = Txn(
            revisions={key: state.revision},
            leases={self._base + "master": self._lease},
            puts={key: (self._state(self._id, epoch, members, number), 0)},
        )
        try:
            done = await self._etcd.commit(txn)
        except EngineUnreachable:
            self._doubted = change.set_epoch
            raise
        if not done:
            raise EngineRefused("the in-sync set in etcd has changed, or the lease has ended")
        return members, number

    def _state(self, master: int, epoch: int, members: frozenset[int], set_epoch: int) -> bytes:
        clean = self._rules.durable or len(members) > 1
        return json.dumps(
            {"master": master, "epoch": epoch, "set": sorted(members), "setEpoch": set_epoch, "clean": clean}
        ).encode()

    async def admit(self, broker_id: int, *, unclean: bool, epoch: int = 0) -> None:
        """Name the broker in `state`; with *unclean* as the only member of the set. See `Engine.admit`."""
        state = await self._read()
        if state.master is not None:
            raise EngineRefused(
                f"broker id {self._standing(state).master} is the master in etcd, until it stops or its lease ends"
            )
        if broker_id not in state.members:
            alive = listed(state.members)
            raise EngineRefused(f"broker id {broker_id} is not connected to etcd; connected are {alive}")
        value = {**state.value, "successor": broker_id}
        if unclean:
            epoch = max(epoch, state.epoch, *(each["epoch"] for each in state.members.values()))
            value |= {"epoch": epoch, "set": [broker_id], "setEpoch": state.set_epoch + 1, "clean": True}
        elif problem := self._not_clean(state, broker_id) or self._not_whole(state, broker_id):
            raise EngineRefused(problem)
        key = self._base + "state"
        txn = Txn(
            absent=(self._base + "master", *(() if state.revision else (key,))),
            revisions={key: state.revision} if state.revision else {},
            puts={key: (json.dumps(value).encode(), 0)},
        )
        if not await self._etcd.commit(txn):
            raise EngineRefused("the state in etcd has changed meanwhile; try again")

    # --- the keys ----------------------------------------------------------------------------------------------------

    async def _read(self) -> _State:
        base = self._base
        found = await self._etcd.read([base + "state", base + "master", base + "members/"])
        try:
            self._seen = _state_of(base, found)
        except ValueError as error:
            raise EngineRefused(f"the keys below {base} in etcd are damaged: {error}") from error
        return self._seen

    def _mine(self, state: _State) -> bool:
        """Return whether `master` has this process's lease. One of an earlier process of this broker ends by itself."""
        return state.master is not None and self._lease != 0 and state.master.lease == self._lease

    def _standing(self, state: _State) -> Standing:
        master = None
        if state.master is not None:
            named = state.master_id
            master = None if named == self._id and not self._mine(state) else named
        record = state.members.get(master, {}) if master is not None else {}
        return Standing(
            master,
            state.epoch,
            state.in_sync,
            state.set_epoch,
            record.get("address", ""),
            record.get("haAddress", ""),
        )

    async def _changed(self) -> None:
        """Report the present standing."""
        self._news.set()
        try:
            standing = self._standing(await self._read())
            if self._on_news is not None:
                self._on_news(standing)
        except EngineError as error:
            log.warning("the state in etcd could not be read: %s", error)
        except Exception:  # the watch must go on
            log.exception("a change in etcd could not be taken")
