"""``gantrymq cluster status``: masters and slaves of each broker name, and how far the copies are."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import click

from gantrymq.client import Admin
from gantrymq.commands.output import print_json, print_table
from gantrymq.errors import ClientError
from gantrymq.world.real import RealClock
from gantrymq_admin.commands.options import admin_command
from gantrymq_admin.copies import Copy, ask_copies, healthy

__all__ = ["status"]

COLUMNS = ["Cluster", "Broker", "Role", "Id", "Address", "Log end", "Lag bytes", "Lag s", "In sync", "State"]


@click.command()
@click.option("-c", "--cluster", "name", metavar="NAME", help="This cluster only.")
@admin_command
async def status(admin: Admin, name: str | None, output: str) -> None:
    """Show masters and slaves: ends of their logs, lag, in-sync copies, and why a slave does not follow.

    Exits with 1 if no broker is registered, a slave does not follow or is not in sync, or a master does not answer or
    has fewer copies in sync than its settings ask for.
    """
    info = await admin.clusters()
    if name is not None and name not in info.clusters:
        raise ClientError(f"no cluster is named {name}; clusters known: {', '.join(info.clusters) or 'none'}")
    if not info.brokers:
        raise ClientError("no broker is registered with the name servers")
    found = sorted(
        (each for each in info.brokers if name is None or each.name in info.clusters[name]),
        key=lambda each: (each.cluster, each.name),
    )
    now_ms = RealClock().now_ms()
    copies = await asyncio.gather(*(ask_copies(admin, each.addresses, now_ms, each.rivals) for each in found))
    sets = [(each.cluster, each.name, shown) for each, shown in zip(found, copies, strict=True)]
    if output == "json":
        print_json({"sets": [_document(*each) for each in sets]})
    else:
        print_table(COLUMNS, [(cluster, broker, *_row(copy)) for cluster, broker, shown in sets for copy in shown])
    if not all(healthy(shown) for _, _, shown in sets):
        raise click.exceptions.Exit(1)


def _document(cluster: str, broker: str, copies: list[Copy]) -> dict[str, Any]:
    shown = [attrs.asdict(each) for each in copies]
    return {"cluster": cluster, "broker": broker, "healthy": healthy(copies), "copies": shown}


def _row(copy: Copy) -> tuple[object, ...]:
    state = copy.problem or {None: "", True: "follows", False: "does not follow"}[copy.following]
    if copy.in_sync_set is not None:
        ids = ", ".join(map(str, copy.in_sync_set))
        elected = f"broker id {copy.elected_id}, elected for epoch {copy.epoch}; in-sync set {ids}"
        state = f"{elected}: {copy.problem}" if copy.problem else elected
    if copy.in_sync_copies is not None:
        wanted = copy.wanted_copies
        in_sync = f"{copy.in_sync_copies}" if wanted is None else f"{copy.in_sync_copies}, wanted {wanted}"
    else:
        in_sync = {None: "-", True: "yes", False: "no"}[copy.in_sync]
    numbers = (copy.end, copy.lag_bytes, None if copy.lag_s is None else round(copy.lag_s, 1))
    return (
        copy.role,
        "-" if copy.id is None else copy.id,
        copy.address or "-",
        *("-" if each is None else each for each in numbers),
        in_sync,
        state,
    )
