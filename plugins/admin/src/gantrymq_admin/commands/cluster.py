"""``gantrymq cluster``: the brokers of each cluster with their load, log and replication settings.

The options of this view belong to the group itself, so that ``gantrymq cluster -n ADDR`` works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import attrs
import click
from click.core import ParameterSource

from gantrymq.client import Admin
from gantrymq.errors import ClientError, GantryError
from gantrymq.plugin.commands import CommandGroup, local_time, print_json
from gantrymq.plugin.real_world import RealClock
from gantrymq_admin.brokers import runtime_figures
from gantrymq_admin.commands.cluster_definitions import export, import_
from gantrymq_admin.commands.cluster_masters import demote, explain, forget, handover, promote
from gantrymq_admin.commands.cluster_plan import plan
from gantrymq_admin.commands.lists import BROKER_COLUMNS, Columns, print_records
from gantrymq_admin.commands.options import admin_command
from gantrymq_admin.copies import ask_copies, healthy


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
        print_records([{**copy, **each} for each in sets for copy in each["copies"]], _COLUMNS)
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


_COLUMNS: Final[Columns] = (
    *("cluster", "broker", "role", "id", ("Address", lambda copy: copy["address"] or None)),
    *(("Log end", "end"), "lag_bytes", ("Lag s", lambda copy: copy["lag_s"] and round(copy["lag_s"], 1))),
    *(("In sync", _in_sync), ("State", _state)),
)


_FIGURES: Final = (
    *("version", "in_per_s", "out_per_s", "log_min_offset", "log_max_offset"),
    *("dispatch_behind_bytes", "put_total", "got_total", "started_ms"),
)


def _log_bytes(broker: Mapping[str, Any]) -> object:
    if broker["problem"] is not None:
        return ""
    return (broker["log_max_offset"] or 0) - (broker["log_min_offset"] or 0)


def _started(broker: Mapping[str, Any]) -> object:
    return "" if broker["problem"] is not None else local_time(broker["started_ms"]) if broker["started_ms"] else None


_SHOWN: Final[Columns] = (*BROKER_COLUMNS, ("Log bytes", _log_bytes), ("Started", _started))


@click.command()
@click.option("-c", "--cluster", "name", metavar="NAME", help="This cluster only.")
@admin_command
async def show(admin: Admin, name: str | None, output: str) -> None:
    """Show the brokers of each cluster: role, version, rates, and size of the log; definitions, plans, copies."""
    found = await _look(admin, name)
    if output == "json":
        print_json({"clusters": found})
        return
    print_records(({**broker, "cluster": each["cluster"]} for each in found for broker in each["brokers"]), _SHOWN)


@click.pass_context
def _run(ctx: click.Context, /, **options: Any) -> None:
    """Show the brokers, unless there is a subcommand, which has its own options."""
    if ctx.invoked_subcommand is None:
        assert show.callback is not None
        show.callback(**options)
        return
    for parameter in show.params:
        if ctx.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"write {parameter.opts[0]} after {ctx.invoked_subcommand}", ctx)


cluster = CommandGroup(
    "cluster",
    commands=[demote, explain, export, forget, handover, import_, plan, promote, status],
    params=list(show.params),
    callback=_run,
    invoke_without_command=True,
    help=show.help,
)


async def _look(admin: Admin, name: str | None) -> list[dict[str, Any]]:
    info = await admin.clusters()
    if name is not None and name not in info.clusters:
        raise ClientError(f"no cluster is named {name}; clusters known: {', '.join(info.clusters) or 'none'}")
    found = []
    for cluster_name in sorted(info.clusters) if name is None else [name]:
        brokers = [
            await _broker(admin, broker.name, broker_id, address)
            for broker in info.brokers
            if broker.name in info.clusters[cluster_name]
            for broker_id, address in sorted(broker.addresses.items())
        ]
        found.append({"cluster": cluster_name, "brokers": brokers})
    return found


async def _broker(admin: Admin, name: str, broker_id: int, address: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "broker": name,
        "id": broker_id,
        "role": "master" if broker_id == 0 else "slave",
        "address": address,
        "problem": None,
    }
    try:
        figures = runtime_figures(await admin.runtime_info(address))
    except GantryError as problem:
        return {**shown, "problem": str(problem)}
    return {**shown, **{name: getattr(figures, name) for name in _FIGURES}}
