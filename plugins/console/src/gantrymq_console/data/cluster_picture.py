"""The brokers of a cluster as a picture: the copies of each broker name, who follows whom, and who elects.

The values are laid out by `gantrymq_console.web.drawing`. What a broker does not report is None, and drawn as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from gantrymq.errors import ClientError
from gantrymq_admin.asking import UNKNOWN_ADDRESS, Asking
from gantrymq_admin.elected import ElectedSet, ask_set
from gantrymq_console.data.brokers import BrokerState, CopyRow
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.values import Long, optional_long

_ENGINE_AGE_S: Final = 30.0
_DEADLINE_S: Final = 1.5  # for the engines, without which the page is shown
_WORST: Final = ("bad", "warn", "unknown", "good")


@attrs.frozen
class PicturedCopy:
    """One broker of a broker name; None: unknown."""

    role: str  # master, slave, acting
    broker_id: int | None  # 0 of a master; None: never registered
    address: str  # empty: not known
    state: str  # good, warn, bad, unknown
    gone: bool  # whether it is not registered at the name servers
    silent: bool  # whether it is registered and does not answer
    rival: bool  # whether it is one of several masters of the name
    elected_id: int | None  # in an elected set
    in_set: bool | None  # whether it is in the in-sync set of an elected master
    follows: bool | None
    in_sync: bool | None
    lag_bytes: Long | None = attrs.field(converter=optional_long)
    lag_s: float | None
    problem: str  # in the broker's words


@attrs.frozen
class PicturedName:
    """The copies of one broker name, its masters first."""

    cluster: str
    name: str
    copies: tuple[PicturedCopy, ...]
    known: bool  # whether a broker reported who follows whom
    epoch: int | None
    in_sync_set: tuple[int, ...] | None
    engine: str  # controller, etcd; empty: roles are fixed, or it is not known
    leader: str  # address of the leading controller
    engine_problem: str

    @property
    def masters(self) -> tuple[PicturedCopy, ...]:
        """One, or several that register with one name."""
        return tuple(each for each in self.copies if each.role == "master")

    @property
    def followers(self) -> tuple[PicturedCopy, ...]:
        """All other copies."""
        return tuple(each for each in self.copies if each.role != "master")

    @property
    def state(self) -> str:
        """The worst state of a copy."""
        return min((each.state for each in self.copies), key=_WORST.index, default="unknown")


async def engines_of(cluster: Cluster, names: Sequence[str]) -> dict[str, ElectedSet]:
    """Return the elected sets among broker names, at most 30 s old; without those of brokers that do not answer."""
    asking = Asking(cluster.world.clock, _DEADLINE_S)
    found = await asking.all(
        {name: cluster.shared(("engine", name), _ENGINE_AGE_S, partial(_engine, cluster, name)) for name in names}
    )
    return {name: each.value for name, each in found.items() if each.value is not None}


async def _engine(cluster: Cluster, name: str) -> ElectedSet | None:
    addresses = next((each for each in await cluster.addresses() if each.name == name), None)
    if addresses is None:
        return None
    try:
        return await ask_set(cluster.admin, attrs.evolve(addresses, rivals=cluster.rivals.get(name, ())))
    except ClientError:
        return None


def picture_of(
    states: Sequence[BrokerState], copies: Mapping[str, Sequence[CopyRow]], engines: Mapping[str, ElectedSet]
) -> tuple[PicturedName, ...]:
    """Return the picture of all broker names.

    Args:
        states: of all brokers that are registered, or were lately.
        copies: the reports on replication by broker name; a name is left out if no broker reported it.
        engines: what is known of elected sets, by broker name.
    """
    found: dict[tuple[str, str], list[BrokerState]] = {}
    for each in states:
        found.setdefault((each.cluster, each.name), []).append(each)
    return tuple(
        _name(*key, of_name, copies.get(key[1]), engines.get(key[1])) for key, of_name in sorted(found.items())
    )


def _name(
    cluster: str, name: str, states: Sequence[BrokerState], rows: Sequence[CopyRow] | None, engine: ElectedSet | None
) -> PicturedName:
    rows = rows or ()
    by_address = {each.address: each for each in states}
    told = next((each for each in rows if each.in_sync_set is not None), None)
    epoch = told.epoch if told is not None else engine.epoch or None if engine is not None else None
    in_set = told.in_sync_set if told is not None else engine.in_sync or None if engine is not None else None
    ids = {each.address: each.id for each in engine.brokers} if engine is not None else {}
    shown = [_of_row(each, by_address.pop(each.address, None), ids, in_set) for each in rows if each.address]
    missing = next((each for each in rows if each.role == "master" and not each.address), None)
    shown += [_of_state(each, ids, in_set, missing.problem if missing else "") for each in by_address.values()]
    has_master = any(each.role == "master" for each in shown)
    if missing is not None and not has_master:
        shown.append(_missing_master(missing))
    rivals = [each for each in shown if each.role == "master" and not each.gone]
    if len(rivals) > 1:
        shown = [attrs.evolve(each, rival=True, state="bad") if each in rivals else each for each in shown]
    shown.sort(
        key=lambda each: (each.role != "master", each.gone, each.broker_id is None, each.broker_id, each.address)
    )
    return PicturedName(
        cluster,
        name,
        tuple(shown),
        bool(rows) or len(shown) == 1,
        epoch,
        in_set,
        _engine_word(engine),
        engine.leader if engine is not None else "",
        engine.engine_problem if engine is not None else "",
    )


def _engine_word(engine: ElectedSet | None) -> str:
    if engine is None:
        return ""
    told = next((each.election for each in engine.brokers if each.election is not None), None)
    return told.engine if told is not None else "controller" if engine.controllers else ""


def _of_row(
    row: CopyRow, state: BrokerState | None, ids: Mapping[str, int | None], in_set: tuple[int, ...] | None
) -> PicturedCopy:
    elected_id = row.elected_id if row.elected_id is not None else ids.get(row.address)
    gone = row.broker_id is None or (state is not None and not state.registered)
    return PicturedCopy(
        row.role,
        row.broker_id,
        row.address,
        "bad" if gone and row.role == "master" else _worse(_word(row), _word_of_state(state)),
        gone,
        state is not None and state.registered and not state.answers,
        False,
        elected_id,
        None if in_set is None or elected_id is None else elected_id in in_set,
        row.following,
        row.in_sync,
        row.lag_bytes,
        row.lag_s,
        row.problem,
    )


def _of_state(
    state: BrokerState, ids: Mapping[str, int | None], in_set: tuple[int, ...] | None, problem: str
) -> PicturedCopy:
    """Return a broker of which no report on replication tells."""
    elected_id, is_master = ids.get(state.address), state.broker_id == 0
    return PicturedCopy(
        "master" if is_master else "slave",
        state.broker_id,
        "" if state.address.startswith(UNKNOWN_ADDRESS) else state.address,
        _word_of_state(state),
        not state.registered,
        state.registered and not state.answers,
        False,
        elected_id,
        None if in_set is None or elected_id is None else elected_id in in_set,
        None if state.registered else False,
        None,
        None,
        None,
        state.problem or (problem if is_master else ""),
    )


def _missing_master(row: CopyRow) -> PicturedCopy:
    return PicturedCopy("master", 0, "", "bad", True, False, False, None, None, None, None, None, None, row.problem)


def _word(row: CopyRow) -> str:
    if row.role == "master":
        return "bad" if row.lacking and row.in_sync_copies is None else "warn" if row.lacking else "good"
    if row.role == "acting":
        return "warn"
    if row.following is False:
        return "bad"
    return "warn" if row.lacking or row.in_sync is False else "good" if row.following else "unknown"


def _word_of_state(state: BrokerState | None) -> str:
    if state is None:
        return "good"
    if not state.registered or not state.answers or state.refusal:
        return "bad"
    return "warn" if state.writable is False or state.unwritten or state.disk_word in ("warn", "bad") else "good"


def _worse(*words: str) -> str:
    return min(words, key=_WORST.index)
