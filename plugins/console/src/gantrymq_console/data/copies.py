"""Masters and slaves of one broker name, for the page of a broker."""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq_admin.copies import Copy, ask_copies
from gantrymq_admin.elected import ElectedSet, ask_set
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.web.values import Long

__all__ = ["CopyRow", "copies_of_name", "elected_set"]

AGE_S: Final = 5.0


@attrs.frozen
class CopyRow:
    """One copy of a log, as `gantrymq_admin.copies.Copy` has it; None: not known, or of the other role."""

    role: str  # master, slave
    broker_id: int | None  # None: not registered with the name servers
    address: str
    end: Long | None
    lag_bytes: Long | None
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


async def copies_of_name(cluster: Cluster, name: str) -> tuple[CopyRow, ...]:
    """Return master and slaves, at most 5 s old; empty if nothing is replicated, or wanted to be."""
    addresses = {each.broker_id: each.address for each in await cluster.brokers() if each.name == name}
    now_ms, rivals = cluster.world.clock.now_ms, cluster.rivals.get(name, ())
    found = (
        await cluster.shared(("copies", name), AGE_S, lambda: ask_copies(cluster.admin, addresses, now_ms(), rivals))
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
    return CopyRow(
        copy.role,
        copy.id,
        copy.address,
        None if copy.end is None else Long(copy.end),
        None if copy.lag_bytes is None else Long(copy.lag_bytes),
        copy.lag_s,
        copy.in_sync,
        copy.following,
        copy.in_sync_copies,
        copy.wanted_copies,
        copy.problem or "",
        copy.lacking,
        copy.epoch,
        copy.in_sync_set,
        copy.elected_id,
    )
