"""``gantrymq status``: name servers, brokers, and their message rates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.client.admin import AnswerUnreadable, NotANameServer
from gantrymq.errors import BrokerRefused, ConnectFailed, GantryError, HandshakeFailed
from gantrymq.plugin.client import BrokerAddresses, ClusterInfo
from gantrymq.plugin.commands import print_json, print_table, say
from gantrymq_admin.brokers import runtime_figures
from gantrymq_admin.commands.lists import BROKER_COLUMNS, Columns, print_records, unless_silent
from gantrymq_admin.commands.options import admin_command
from gantrymq_admin.copies import NO_MASTER, TWO_MASTERS
from gantrymq_admin.figures import plugin_figures

_SERVER_COLUMNS: Final[Columns] = (
    ("Name server", "address"),
    ("Answers", lambda server: "yes" if server["reachable"] else f"no: {server['problem']}"),
    "topics",
)
_FIGURES: Final = ("version", "active", "in_per_s", "out_per_s", "in_today", "out_today")
_BROKER_COLUMNS: Final[Columns] = (
    *BROKER_COLUMNS,
    *(("In today", unless_silent("in_today")), ("Out today", unless_silent("out_today"))),
)


@click.command()
@admin_command
async def status(admin: Admin, output: str) -> None:
    """Show the clusters and their brokers.

    IN and OUT are messages per second over the last ten seconds, IN TODAY and OUT TODAY since midnight, as the brokers
    count them. The lines below show pending and undecided messages from plugins of our brokers (delayed messages,
    transactions, conflicts within groups, suspended filters with the reason), and write errors of our brokers, of
    messages or tables. Exits with 1 when no name server answers, or none of the registered brokers.
    """
    found = await _look(admin)
    if output == "json":
        print_json(found)
    else:
        _show(found)
    if found["brokers"] and not any(broker["reachable"] for broker in found["brokers"]):
        raise click.exceptions.Exit(1)


def _show(found: dict[str, Any]) -> None:
    print_records(found["name_servers"], _SERVER_COLUMNS)
    if not found["brokers"]:
        say("no broker is registered; start one with: gantrymq broker -c broker.conf")
        return
    print_records(found["brokers"], _BROKER_COLUMNS)
    for name in found["without_master"]:
        say(f"{name}: {NO_MASTER}; 'gantrymq cluster status' shows its copies")
    for each in found["rivals"]:
        say(f"{each['broker']}: {TWO_MASTERS} ({each['master']} and {each['rival']}); stop one of them")
    _show_figures(found["brokers"])
    for broker in found["brokers"]:
        for each in broker.get("figures", {}).values():
            for sentence in each.get("sentences", ()):
                say(f"{_title(broker)}: {sentence}")
    for broker in found["brokers"]:
        for problem in broker.get("problems", ()):
            say(f"{_title(broker)} at {broker['address']}: {problem}")


def _show_figures(brokers: Sequence[dict[str, Any]]) -> None:
    """Print what waits at the brokers, with one explanation for all of them."""
    found: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for broker in brokers:
        for name, each in broker.get("figures", {}).items():
            if each["value"] and not each["counts"]:
                found.setdefault(name, []).append((broker, each))
    rows = [
        (name if first else "", _title(broker), round(each["value"], 3), each["help"] if first else "")
        for name, of_brokers in sorted(found.items())
        for first, (broker, each) in zip(chain([True], repeat(False)), of_brokers, strict=False)
    ]
    if rows:
        print_table(["Figure", "Broker", "Now", "What it is"], rows)


def _title(broker: dict[str, Any]) -> str:
    """Return the name of a broker, with the id of a slave."""
    return f"{broker['broker']}:{broker['id']}" if broker["id"] else str(broker["broker"])


async def _look(admin: Admin) -> dict[str, Any]:
    looked = await asyncio.gather(*(_look_at_server(admin, server) for server in admin.name_servers))
    servers = [shown for shown, _ in looked]
    infos = [info for _, info in looked if info is not None]
    if not infos:
        problems = "; ".join(str(server["problem"]) for server in servers)
        raise ConnectFailed(
            f"no name server answers ({problems}); start one with 'gantrymq start', or name another with -n"
        )
    addresses: dict[str, tuple[BrokerAddresses, int]] = {}
    for info in infos:
        for broker in info.brokers:
            for broker_id, address in broker.addresses.items():
                addresses.setdefault(address, (broker, broker_id))
    brokers = await asyncio.gather(*(_look_at_broker(admin, a, b, i) for a, (b, i) in addresses.items()))
    return {
        "name_servers": servers,
        "clusters": sorted({name for info in infos for name in info.clusters}),
        "brokers": sorted(brokers, key=lambda b: (b["cluster"], b["broker"], b["id"])),
        "without_master": sorted({each["broker"] for each in brokers} - {b["broker"] for b in brokers if not b["id"]}),
        "rivals": _rivals(infos),
        "topics": max(int(server["topics"] or 0) for server in servers),
    }


def _rivals(infos: Sequence[ClusterInfo]) -> list[dict[str, str | None]]:
    """Return pairs of brokers that register as masters of one name, and those on which name servers differ."""
    found: dict[tuple[str, frozenset[str | None]], dict[str, str | None]] = {}
    masters: dict[str, str] = {}
    for info in infos:
        for broker in info.brokers:
            one = masters.setdefault(broker.name, broker.master) if broker.master is not None else None
            for other in {broker.master or "", *broker.rivals} - {one or "", ""}:
                pair = {"broker": broker.name, "master": one, "rival": other}
                found.setdefault((broker.name, frozenset((one, other))), pair)
    return [found[key] for key in sorted(found, key=lambda key: key[0])]


async def _look_at_server(admin: Admin, server: str) -> tuple[dict[str, Any], ClusterInfo | None]:
    try:
        info, topics = await admin.clusters(server), await admin.topics(server)
    except GantryError as problem:
        if isinstance(problem, NotANameServer | HandshakeFailed) and len(admin.name_servers) == 1:
            raise
        return {"address": server, "reachable": False, "topics": None, "problem": str(problem)}, None
    return {"address": server, "reachable": True, "topics": len(topics), "problem": None}, info


async def _look_at_broker(admin: Admin, address: str, broker: BrokerAddresses, broker_id: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"cluster": broker.cluster, "broker": broker.name, "id": broker_id, "address": address}
    try:
        info, of_plugins = await admin.runtime_info(address), await _figures(admin, address)
    except GantryError as problem:
        return {**shown, "reachable": False, "problem": str(problem)}
    figures = runtime_figures(info)
    return {
        **shown,
        "reachable": True,
        "problem": None,
        **{name: getattr(figures, name) for name in _FIGURES},
        "figures": of_plugins,
        "problems": [info[name] for name in ("storeRefusal", "unwrittenFiles") if name in info],
    }


async def _figures(admin: Admin, address: str) -> dict[str, Any]:
    """Query metrics of plugins of one of our brokers: name to value and description; empty if the broker does not
    report them."""
    try:
        found = await plugin_figures(admin, address)
    except (BrokerRefused, AnswerUnreadable):
        return {}
    return {each.name: attrs.asdict(each, filter=lambda field, _value: field.name != "name") for each in found}
