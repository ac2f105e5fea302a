"""Sets of brokers with an elected master: reports of brokers and RocketMQ's controllers, and changing the master.

Brokers of GantryMQ report the election in their answer to 907. For others the leading controller is asked, whose
address is a setting of the brokers. A master is changed by request 65031 at brokers of GantryMQ, because a planned
change needs the master to refuse messages first, and by electMaster (1002) at the controller.

Source: apache/rocketmq tools/.../command/controller/ReElectMasterSubCommand.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, cast

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import BrokerSet, ElectionState, HaStatus, RequestNotServed
from gantrymq.errors import BrokerRefused, ClientError, GantryError
from gantrymq.plugin.client import BrokerAddresses
from gantrymq.plugin.headers import Header, Int64, header_of
from gantrymq.plugin.model import split_addresses
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.asking import read

__all__ = [
    "ChangedMaster",
    "ElectedBroker",
    "ElectedSet",
    "ask_set",
    "change_master",
    "forget_broker",
    "leading_controller",
]

CHANGE_MASTER: Final = cast(RequestCode, 65031)
MASTER_ID: Final = 0
ETCD: Final = "etcd"  # an engine
CHANGE_S: Final = 20.0  # for an answer to 65031


@attrs.frozen(kw_only=True)
class ElectedBroker:
    """One broker of a set."""

    id: int | None  # in the set; None: it is not known
    address: str
    registered: bool = True  # with the name servers
    silent: str = ""  # why it did not answer; empty if it did
    alive: bool | None = None  # as the controller says; None: it does not say
    end: int | None = None  # of its log
    election: ElectionState | None = None  # None: a broker of RocketMQ, or it did not answer
    ha: HaStatus | None = None


@attrs.frozen(kw_only=True)
class ElectedSet:
    """The brokers of one name."""

    cluster: str
    broker: str
    brokers: tuple[ElectedBroker, ...]
    controllers: tuple[str, ...] = ()  # addresses; empty with etcd
    leader: str = ""  # address of the leading controller
    engine_problem: str = ""  # why no controller leads or knows the set
    known: BrokerSet | None = None  # to the controller

    @property
    def told(self) -> ElectionState | None:
        """The newest value of all brokers: the master's, if it answers."""
        states = [each.election for each in self.brokers if each.election is not None and each.election.own_id]
        return max(states, key=lambda each: (each.epoch, each.master == each.own_id), default=None)

    @property
    def epoch(self) -> int:
        """The newest epoch."""
        return max(self.told.epoch if self.told else 0, self.known.epoch if self.known else 0)

    @property
    def data_lost(self) -> str:
        """The sentence of a broker that says that the engine has lost its data; empty if none says so."""
        return next((each.election.data_lost for each in self.brokers if each.election and each.election.data_lost), "")

    @property
    def master_id(self) -> int | None:
        """Id of the master; None: there is none, or it is not known."""
        if self.told is not None and (self.known is None or self.told.epoch >= self.known.epoch):
            return self.told.master
        return self.known.master if self.known else None

    @property
    def master(self) -> ElectedBroker | None:
        """The master, if there is one whose address is known."""
        return self.by_id(self.master_id) if self.master_id is not None else None

    @property
    def in_sync(self) -> tuple[int, ...]:
        """Ids of the in-sync set."""
        if self.known is not None and (self.told is None or self.known.epoch >= self.told.epoch):
            return tuple(sorted(each.broker_id for each in self.known.in_sync))
        return self.told.in_sync if self.told else ()

    def by_id(self, broker_id: int) -> ElectedBroker | None:
        """Return the broker with an id in the set."""
        return next((each for each in self.brokers if each.id == broker_id), None)


@attrs.frozen
class ChangedMaster:
    """The result of a change."""

    broker_id: int
    epoch: int
    refused_ms: int | None  # for how long the old master refused messages; None: it does not say


@header_of()
class ChangeMasterRequest(Header):
    """Request 65031."""

    act: str
    broker_id: Int64 | None = None
    unclean: bool = False
    epoch: Int64 | None = None
    host: str | None = None


async def change_master(
    admin: Admin,
    address: str,
    act: str,
    broker_id: int | None = None,
    *,
    unclean: bool = False,
    epoch: int | None = None,
    host: str | None = None,
) -> ChangedMaster:
    """Change the master at a broker of GantryMQ: handover or demote at the master, promote at the one to promote.

    Or make a master forget a slave that is gone for good: *broker_id*, or with fixed roles the slave at *host*. *epoch*
    is the newest epoch that a broker knows: the next one is later, even if the engine has lost its data.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-replication.
        BrokerRefused: code 1, with a sentence.
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    header = ChangeMasterRequest(act=act, broker_id=broker_id, unclean=unclean, epoch=epoch, host=host)
    what = f"the change at {address}"
    return await admin.request_parsed(address, CHANGE_MASTER, _changed, header, what=what, timeout_s=CHANGE_S)


def _changed(members: dict[Any, Any]) -> ChangedMaster:
    found = {"broker_id": members["brokerId"], "refused_ms": members.get("refusedMillis"), "epoch": members["epoch"]}
    return read(ChangedMaster, found)


async def forget_broker(admin: Admin, found: ElectedSet, broker_id: int) -> None:
    """Make the engine and the master of a set forget a broker that is gone for good.

    Raises:
        ClientError: there is no master that answers.
        BrokerRefused: the broker is alive, in the in-sync set, or unknown; the sentence says which.
        RequestNotServed, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    master = found.master
    if master is None or master.silent:
        why = f"does not answer: {master.silent}" if master is not None else "is not there"
        raise ClientError(f"only the master of {found.broker} can forget a broker, and it {why}")
    if master.election is not None:
        await change_master(admin, master.address, "forget", broker_id)
    elif not found.leader:
        raise ClientError(found.engine_problem)
    elif broker_id in found.in_sync:
        raise ClientError(f"broker id {broker_id} is in the in-sync set of {found.broker}: it must leave that first")
    else:  # RocketMQ's master remembers none
        await admin.clean_broker_metadata(found.leader, found.cluster, found.broker, [broker_id])


async def ask_set(admin: Admin, name: BrokerAddresses, controllers: Iterable[str] = ()) -> ElectedSet | None:
    """Ask the brokers of one name, and the leading controller if they have one; None if their roles are fixed.

    Args:
        admin: started.
        name: the brokers, as the name servers know them.
        controllers: addresses, instead of those that the brokers' settings have.

    Raises:
        ClientError: *controllers* are given, and etcd elects.
    """
    at = {address: broker_id for broker_id, address in name.addresses.items()}
    at |= dict.fromkeys(set(name.rivals) - at.keys(), MASTER_ID)
    brokers = _named(await asyncio.gather(*(_ask(admin, *each) for each in at.items())))
    addresses = tuple(controllers)
    if addresses and any(each.election is not None and each.election.engine == ETCD for each in brokers):
        raise ClientError(
            f"the master of {name.name} is elected by etcd, not by the controller {addresses[0]}: leave --controller "
            "out"
        )
    addresses = addresses or await _controllers(admin, brokers)
    found = ElectedSet(cluster=name.cluster, broker=name.name, brokers=tuple(brokers), controllers=addresses)
    if not addresses:
        unknown = all(each.silent for each in brokers)
        return found if unknown or any(each.election for each in brokers) else None
    leader, problem = await leading_controller(admin, addresses)
    known = None
    if leader:
        try:
            known = (await admin.broker_sets(leader, [name.name])).get(name.name)
        except GantryError as error:
            problem = str(error)
        else:
            problem = "" if known else f"the controller {leader} does not know {name.name}"
    return attrs.evolve(found, leader=leader, engine_problem=problem, known=known, brokers=_merged(brokers, known))


async def leading_controller(admin: Admin, addresses: Iterable[str]) -> tuple[str, str]:
    """Return the address of the controller that leads, or why there is none."""
    problems = []
    for address in addresses:
        try:
            found = await admin.controller_metadata(address)
        except GantryError as error:
            problems.append(str(error))
            continue
        if found.leader:
            return found.leader, ""
        problems.append(f"{address} knows no leader")
    return "", f"no controller leads: {'; '.join(problems)}"


async def _ask(admin: Admin, address: str, registered_id: int) -> ElectedBroker:
    own_id = registered_id or None
    try:
        ha = await _ha(admin, address)
        figures = await admin.runtime_info(address)
    except GantryError as problem:
        return ElectedBroker(id=own_id, address=address, silent=str(problem))
    election = ha.election if ha is not None else None
    if election is not None:
        own_id = election.own_id or own_id
    end = figures.get("commitLogMaxOffset", "")
    return ElectedBroker(
        id=own_id, address=address, end=int(end) if end.isdecimal() else None, election=election, ha=ha
    )


async def _ha(admin: Admin, address: str) -> HaStatus | None:
    try:
        return await admin.ha_status(address)
    except RequestNotServed:
        return None


async def _controllers(admin: Admin, brokers: Iterable[ElectedBroker]) -> tuple[str, ...]:
    """Return the controllers' addresses, from the settings of the first broker that has some."""
    for each in brokers:
        if each.silent or (each.election is not None and each.election.engine == ETCD):
            continue
        try:
            settings = await admin.broker_settings(each.address)
        except (BrokerRefused, ClientError):
            continue
        if settings.get("enableControllerMode") == "true" and settings.get("electionEngine") in (None, "controller"):
            return tuple(split_addresses(settings.get("controllerAddr", "")))
    return ()


def _named(brokers: Iterable[ElectedBroker]) -> list[ElectedBroker]:
    """Add the id of a silent master, which is registered as 0, as others know it by its address."""
    brokers = list(brokers)
    told = [each.election for each in brokers if each.election is not None]
    masters = {each.master_address: each.master for each in sorted(told, key=lambda each: each.epoch)}
    named = [attrs.evolve(each, id=masters.get(each.address)) if each.id is None else each for each in brokers]
    return sorted(named, key=_by_id)


def _merged(brokers: Iterable[ElectedBroker], known: BrokerSet | None) -> tuple[ElectedBroker, ...]:
    """Add the facts of the controller: ids of brokers that do not report them, heartbeats, and further brokers."""
    members = {each.broker_id: each for each in known.members} if known is not None else {}
    at = {each.address: each for each in sorted(members.values(), key=lambda each: each.alive)}  # a living one, if any
    found = []
    for each in brokers:
        told = each.election is not None and each.id is not None
        member = members.get(each.id or 0) if told else at.get(each.address)
        if member is not None:
            members.pop(member.broker_id, None)
            each = attrs.evolve(each, id=member.broker_id, alive=member.alive)
        found.append(each)
    found += [
        ElectedBroker(id=each.broker_id, address=each.address, registered=False, alive=each.alive)
        for each in members.values()
    ]
    return tuple(sorted(found, key=_by_id))


def _by_id(broker: ElectedBroker) -> tuple[int, str]:
    return 1 << 63 if broker.id is None else broker.id, broker.address
