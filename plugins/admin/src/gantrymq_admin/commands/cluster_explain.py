"""``gantrymq cluster explain``: who is the master of an elected set, who could be, and why messages are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError
from gantrymq.plugin.client import BrokerAddresses
from gantrymq.plugin.commands import check_address, print_json
from gantrymq_admin.commands.options import admin_command, broker_named
from gantrymq_admin.elected import ElectedSet, ask_set
from gantrymq_admin.elected_sentences import accepting, explained, why_out

__all__ = ["controller_option", "explain", "names_of"]

controller_option = click.option(
    "--controller",
    metavar="ADDR",
    callback=check_address,
    help="A controller, host:port; by default from the brokers' settings.",
)


async def names_of(admin: Admin, name: str | None) -> list[BrokerAddresses]:
    """Return the brokers of one name, or of all names.

    Raises:
        ClientError: there are none.
    """
    found = (await admin.clusters()).brokers
    if name is not None:
        known, found = sorted(each.name for each in found), tuple(each for each in found if each.name == name)
        if not found:
            raise ClientError(f"no name server knows a broker {name}; brokers known: {', '.join(known) or 'none'}")
    elif not found:
        raise ClientError("no broker is registered with the name servers")
    return sorted(found, key=lambda each: (each.cluster, each.name))


@click.command()
@broker_named(required=False)
@controller_option
@admin_command
async def explain(admin: Admin, name: str | None, controller: str | None, output: str) -> None:
    """Explain the state of replica sets with elected masters, in sentences.

    Shows the master and its epoch, the members in and outside of the in-sync set with the reasons, the log offset that
    all members have, the effect of a failure of each, and the cause and the remedy if messages are refused.
    """
    names = await names_of(admin, name)
    asked = await asyncio.gather(*(ask_set(admin, each, [controller] if controller else []) for each in names))
    found = [each for each in asked if each is not None]
    fixed = [each.name for each, answer in zip(names, asked, strict=True) if answer is None]
    if output == "json":
        print_json({"sets": [_document(each) for each in found], "fixed": fixed})
        return
    for number, each in enumerate(found):
        click.echo(("\n" if number else "") + "\n".join(explained(each)))
    for broker in fixed:
        click.echo(f"The master of {broker} is fixed by settings; 'gantrymq cluster status' shows its copies.")


def _document(found: ElectedSet) -> dict[str, Any]:
    master, told = found.master, found.told
    return {
        "cluster": found.cluster,
        "broker": found.broker,
        "engine": "controller" if found.controllers else "etcd",
        "leader": found.leader or None,
        "engine_problem": found.engine_problem or None,
        "epoch": found.epoch,
        "master": found.master_id,
        "master_address": master.address if master is not None else None,
        "in_sync": list(found.in_sync),
        "accepting": accepting(found),
        "confirmed": told.confirmed if told is not None else None,
        "brokers": [
            {
                "id": each.id,
                "address": each.address,
                "registered": each.registered,
                "problem": each.silent or None,
                "end": each.end,
                "epoch": each.election.epoch if each.election is not None else None,
                "in_sync": each.id in found.in_sync,
                "why_not": None if each.id in found.in_sync else why_out(found, each),
            }
            for each in found.brokers
        ],
        "sentences": explained(found),
    }
