"""The brokers of the cluster: whether they answer, their rates, disk and problems."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

import attrs

from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import ClientError, FormatError
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.model import PERM_WRITE
from gantrymq_admin.asking import Asking, Missing
from gantrymq_admin.brokers import rate, runtime_figures
from gantrymq_admin.copies import Copy, ask_copies
from gantrymq_admin.elected import ElectedSet, ask_set
from gantrymq_admin.figures import Figure, plugin_figures
from gantrymq_console.data.cluster import Aged, BrokerAddress, Cluster
from gantrymq_console.values import Long, optional_long, record_of

AGE_S: Final = 5.0
DEADLINE_S: Final = 2.0  # shorter than the deadline of a page, so that an overview with a silent broker is still shown
NAMES_S: Final = 1.4  # before the brokers known so far are asked, because no name server answers
_DISK_WARNING: Final = 0.75  # diskMaxUsedSpaceRatio: brokers delete old messages from here on
_DISK_FULL: Final = 0.9  # brokers refuse messages at about this

_DISK_CAUSES: Final = frozenset({"disk_ratio", "queue_disk_ratio", "free_bytes", "store_quota", "no_room"})

_CAPACITY: Final = re.compile(r"Total : ([\d.]+) (\w+), Free : ([\d.]+) (\w+)")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_WHOLE_PERCENT: Final = 0.01  # by which Java's used share may be rounded up


@attrs.frozen
class BrokerState:
    """One broker, as it was when it was last asked; None: it did not answer, or does not say."""

    cluster: str
    name: str
    broker_id: int  # 0: a master
    address: str
    registered: bool  # false: it was, and vanished from the name servers
    answers: bool
    problem: str = ""  # why it does not answer
    silent_since_ms: int | None = None  # when it last answered; None: not since the console has known it
    version: str = ""
    active: bool | None = None
    started_ms: int | None = None
    in_per_s: float | None = None  # messages, over the last ten seconds
    out_per_s: float | None = None
    in_today: Long | None = attrs.field(default=None, converter=optional_long)
    out_today: Long | None = attrs.field(default=None, converter=optional_long)
    disk_used: float | None = None  # of the file system of the log, 0 to 1
    disk_free: str = ""  # with its unit
    disk_free_about: bool = False  # whether it was computed, because the broker's figure has blocks reserved for root
    log_min: Long | None = attrs.field(default=None, converter=optional_long)  # offsets in bytes
    log_max: Long | None = attrs.field(default=None, converter=optional_long)
    # Bytes of the log without queue entries yet.
    undispatched: Long | None = attrs.field(default=None, converter=optional_long)
    refusal: str = ""  # why the store refuses messages
    refusal_cause: str = ""
    refusal_values: Mapping[str, str | int] = attrs.field(factory=dict)  # in the sentence; none from older brokers
    unwritten: str = ""  # which tables cannot be saved
    writable: bool | None = None  # whether name servers let producers send to it; None: not known, or a slave

    @property
    def title(self) -> str:
        """The name, with the id of a slave."""
        return f"{self.name}:{self.broker_id}" if self.broker_id else self.name

    @property
    def log_bytes(self) -> Long | None:
        """Size of the log."""
        if self.log_min is None or self.log_max is None:
            return None
        return Long(self.log_max - max(0, self.log_min))  # -1 in an empty store of Java

    @property
    def disk_word(self) -> str:
        """State of the disk: good, warn, bad, unknown; bad while the store refuses messages for lack of space."""
        return "bad" if self.refusal_cause in _DISK_CAUSES else self.fill_word

    @property
    def fill_word(self) -> str:
        """How full the disk is: good, warn, bad, unknown."""
        if self.disk_used is None:
            return "unknown"
        return "bad" if self.disk_used >= _DISK_FULL else "warn" if self.disk_used >= _DISK_WARNING else "good"


@attrs.frozen
class Overview:
    """All brokers that are registered, or were within `KNOWN_S`."""

    brokers: tuple[BrokerState, ...]
    missing: tuple[Missing, ...] = ()

    def total(self, name: str) -> float | None:
        """Return the sum of a rate over the masters that answer."""
        found = [getattr(each, name) for each in self.brokers if each.broker_id == 0]
        known = [each for each in found if each is not None]
        return sum(known) if known else None

    @property
    def silent(self) -> dict[str, str]:
        """Why registered brokers do not answer, by address."""
        return {each.address: each.problem for each in self.brokers if each.registered and not each.answers}

    @property
    def partial(self) -> bool:
        """Whether a master does not answer, so that totals are too small."""
        return any(not each.answers for each in self.brokers if each.broker_id == 0)


async def overview(cluster: Cluster) -> Aged[Overview]:
    """Return the state of all brokers, at most 5 s old.

    Raises ClientError: no name server answers, and none has since the console has run.
    """
    return await cluster.shared("overview", AGE_S, lambda: _overview(cluster))


async def runtime_info(cluster: Cluster, address: str) -> Aged[dict[str, str]]:
    """Return the runtime info of one broker, at most 5 s old."""
    return await cluster.shared(("runtime", address), AGE_S, lambda: cluster.admin.runtime_info(address))


async def figures_of(cluster: Cluster, address: str) -> tuple[Figure, ...] | None:
    """Return the figures of a broker's plugins; None if it is no broker of GantryMQ, or lacks the plugin for them."""

    async def ask() -> tuple[Figure, ...] | None:
        try:
            return await plugin_figures(cluster.admin, address)
        except RequestNotServed:
            return None

    return (await cluster.shared(("figures", address), AGE_S, ask)).value


@attrs.define
class _Known:
    """Values of a broker that the console remembers."""

    broker: BrokerAddress
    answered_ms: int | None = None


async def _overview(cluster: Cluster) -> Overview:
    known: dict[str, _Known] = cluster.kept.setdefault("brokers", {})
    asking = Asking(cluster.world.clock, DEADLINE_S)
    try:
        found = await Asking(cluster.world.clock, NAMES_S).needed(cluster.brokers())
    except ClientError:
        if not known:
            raise
        found = tuple(each.broker for each in known.values())
    registered = {each.address for each in found}
    present = {each.address: each for each in cluster.known.values()}
    for address, broker in present.items():
        known.setdefault(address, _Known(broker)).broker = broker
    for address in known.keys() - present.keys():
        del known[address]  # it has another address now, or has been gone for long
    masters = {each.broker.name for each in known.values() if each.broker.broker_id == 0}
    got, sends = await asyncio.gather(
        asking.all({address: runtime_info(cluster, address) for address in known}),
        Asking(cluster.world.clock, DEADLINE_S).all({name: accepts_sends(cluster, name) for name in masters}),
    )
    problems = {each.what: each.sentence for each in asking.missing}
    states = []
    for address, each in known.items():
        info = got.get(address)
        if info is not None:
            each.answered_ms = info.as_of_ms
            state = state_of(each.broker, info.value)
        else:
            state = _silent(each, problems.get(address, ""))
        writable = sends.get(each.broker.name) if each.broker.broker_id == 0 else None
        states.append(attrs.evolve(state, registered=address in registered, writable=writable))
    return Overview(tuple(sorted(states, key=lambda each: (each.cluster, each.name, each.broker_id))))


def _silent(known: _Known, problem: str) -> BrokerState:
    return record_of(
        BrokerState, known.broker, registered=True, answers=False, problem=problem, silent_since_ms=known.answered_ms
    )


def state_of(at: BrokerAddress, info: Mapping[str, str]) -> BrokerState:
    """Return the state of a broker from its runtime info, of any version."""
    used = rate(info.get("commitLogDiskRatio"))
    free, about = free_of(info.get("commitLogDirCapacity", ""), used)
    figures = runtime_figures(info)
    return record_of(
        BrokerState,
        figures,
        **attrs.asdict(at),
        registered=True,
        answers=True,
        version=figures.version or "",
        disk_used=used,
        disk_free=free,
        disk_free_about=about,
        log_min=figures.log_min_offset,
        log_max=figures.log_max_offset,
        undispatched=figures.dispatch_behind_bytes,
        refusal=info.get("storeRefusal", ""),
        refusal_cause=info.get("storeRefusalCause", ""),
        refusal_values=_values(info.get("storeRefusalValues", "")),
        unwritten=info.get("unwrittenFiles", ""),
    )


def free_of(capacity: str, used: float | None) -> tuple[str, bool]:
    """Return the free space that a broker may use, with its unit, and whether it is about that.

    Java's figure has the blocks that are reserved for root, its used share has not (getDiskPartitionSpaceUsedPercent of
    RocketMQ 5: used / (used + usable)). If the two differ, the share tells what may be used.
    """
    found = _CAPACITY.search(capacity)
    if found is None:
        return "", False
    told = f"{found[3]} {found[4]}"
    if used is None or not _WHOLE_PERCENT < used <= 1 or found[2] not in _UNITS or found[4] not in _UNITS:
        return told, False
    try:
        total, free = (float(found[at]) * 1024 ** _UNITS.index(found[at + 1]) for at in (1, 3))
    except ValueError:
        return told, False
    most = (total - free) * (1 / (used - _WHOLE_PERCENT) - 1)
    if free <= most + total / 100:
        return told, False
    usable = max(0.0, (total - free) * (1 / used - 1))
    power = min(max(0, int(usable).bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{usable / 1024**power:.1f} {_UNITS[power]}", True


def _values(text: str) -> dict[str, str | int]:
    """Return the texts and numbers in a JSON object; none if it is malformed."""
    try:
        found = loads(text.encode())
    except FormatError:
        return {}
    return {key: each for key, each in found.items() if isinstance(each, str | int)} if isinstance(found, dict) else {}


async def accepts_sends(cluster: Cluster, name: str) -> bool | None:
    """Return whether producers may send to a broker, judged by the topic that has its name; None: not known."""
    try:
        route = await cluster.shared(("writable", name), AGE_S, lambda: cluster.admin.route(name))
    except ClientError:
        return None
    found = [each for each in route.value.queues if each.broker_name == name]
    return any(each.perm & PERM_WRITE for each in found) if found else None


async def broker_named(cluster: Cluster, name: str, broker_id: int = 0) -> BrokerAddress | None:
    """Return a broker that is, or was, registered."""
    try:
        registered = await cluster.brokers()
    except ClientError:
        registered = ()
    known: dict[str, _Known] = cluster.kept.get("brokers", {})
    for each in (*registered, *cluster.known.values(), *(each.broker for each in known.values())):
        if (each.name, each.broker_id) == (name, broker_id):
            return each
    return None


@attrs.frozen
class CopyRow:
    """One copy of a log, as `gantrymq_admin.copies.Copy` has it; None: not known, or of the other role."""

    role: str  # master, slave
    broker_id: int | None  # None: not registered with the name servers
    address: str
    end: Long | None = attrs.field(converter=optional_long)
    lag_bytes: Long | None = attrs.field(converter=optional_long)
    lag_s: float | None
    in_sync: bool | None
    following: bool | None
    in_sync_copies: int | None
    wanted_copies: int | None
    problem: str
    lacking: bool  # whether it needs attention
    epoch: int | None  # of an elected master; of its slaves the newest that they know
    in_sync_set: tuple[int, ...] | None  # of an elected master
    elected_id: int | None  # in the set


async def copies_of_name(cluster: Cluster, name: str, silent: Mapping[str, str]) -> tuple[CopyRow, ...]:
    """Return master and slaves, at most 5 s old; empty if nothing is replicated, or wanted to be.

    Args:
        cluster: the cluster.
        name: of the brokers.
        silent: brokers that did not answer just now (`Overview.silent`): waiting for them again would take too long.
    """
    addresses = {each.broker_id: each.address for each in await cluster.brokers() if each.name == name}
    now_ms, rivals = cluster.world.clock.now_ms, cluster.rivals.get(name, ())
    late = {address: problem for address, problem in silent.items() if address in {*addresses.values(), *rivals}}
    key = ("copies", name, *sorted(late))
    found = (
        await cluster.shared(key, AGE_S, lambda: ask_copies(cluster.admin, addresses, now_ms(), rivals, late))
    ).value
    alone = len(found) < 2 and all(
        each.role == "master" and (each.wanted_copies or 1) < 2 and each.epoch is None for each in found
    )
    return () if alone else tuple(_row(each) for each in found)


async def elected_set(cluster: Cluster, name: str) -> ElectedSet | None:
    """Return the set of a broker name as it is now; None if its roles are fixed, or no broker has the name."""
    found = (await cluster.admin.clusters()).brokers
    addresses = next((each for each in found if each.name == name), None)
    return None if addresses is None else await ask_set(cluster.admin, addresses)


def _row(copy: Copy) -> CopyRow:
    return record_of(CopyRow, copy, broker_id=copy.id, problem=copy.problem or "")
