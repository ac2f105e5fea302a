"""``gantrymq cluster status``: masters and slaves of each broker name, and how far the copies are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError
from gantrymq.plugin.commands import print_json
from gantrymq.plugin.real_world import RealClock
from gantrymq_admin.commands.options import admin_command
from gantrymq_admin.commands.records import Columns, print_records
from gantrymq_admin.copies import ask_copies, healthy

__all__ = ["status"]


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
    sets: list[dict[str, Any]] = [
        {
            "cluster": each.cluster,
            "broker": each.name,
            "healthy": healthy(shown),
            "copies": list(map(attrs.asdict, shown)),
        }
        for each, shown in zip(found, copies, strict=True)
    ]
    if output == "json":
        print_json({"sets": sets})
    else:
        print_records([{**copy, **each} for each in sets for copy in each["copies"]], COLUMNS)
    if not all(each["healthy"] for each in sets):
        raise click.exceptions.Exit(1)


def _state(copy: Mapping[str, Any]) -> str:
    problem = copy["problem"] or ""
    if copy["in_sync_set"] is None:
        return problem or {None: "", True: "follows", False: "does not follow"}[copy["following"]]
    ids = ", ".join(map(str, copy["in_sync_set"]))
    elected = f"broker id {copy['elected_id']}, elected for epoch {copy['epoch']}; in-sync set {ids}"
    return f"{elected}: {problem}" if problem else elected


def _in_sync(copy: Mapping[str, Any]) -> str | None:
    count, wanted = copy["in_sync_copies"], copy["wanted_copies"]
    if count is not None:
        return f"{count}" if wanted is None else f"{count}, wanted {wanted}"
    return {None: None, True: "yes", False: "no"}[copy["in_sync"]]


COLUMNS: Final[Columns] = (
    *("cluster", "broker", "role", "id", ("Address", lambda copy: copy["address"] or None)),
    *(("Log end", "end"), "lag_bytes", ("Lag s", lambda copy: copy["lag_s"] and round(copy["lag_s"], 1))),
    *(("In sync", _in_sync), ("State", _state)),
)
