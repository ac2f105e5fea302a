"""``gantrymq broker write-perm wipe|add``: disable and enable sends to a broker, at the name servers."""

from __future__ import annotations

import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError
from gantrymq.plugin.commands import CommandGroup, print_json
from gantrymq_admin.commands.options import admin_command

broker_argument = click.argument("name", metavar="BROKER_NAME")


@click.group("write-perm", cls=CommandGroup)
def write_perm() -> None:
    """Remove the write permission of a broker's topics at the name servers, and restore it."""


@write_perm.command()
@broker_argument
@admin_command
async def wipe(admin: Admin, name: str, output: str) -> None:
    """Make producers send to other brokers than BROKER_NAME; consumers continue to read from it.

    The routes stay so until write-perm add, or until the broker registers changed topics.
    """
    _show(name, await _known(admin, name, await admin.wipe_write_permission(name)), output, writable=False)


@write_perm.command()
@broker_argument
@admin_command
async def add(admin: Admin, name: str, output: str) -> None:
    """Make producers send to BROKER_NAME again. Every topic of the broker becomes readable and writable."""
    _show(name, await _known(admin, name, await admin.add_write_permission(name)), output, writable=True)


async def _known(admin: Admin, name: str, changed: dict[str, int]) -> dict[str, int]:
    """Return *changed*, or raise ClientError if there is no such broker: every broker has topics."""
    if not any(changed.values()):
        names = sorted({each.name for each in (await admin.clusters()).brokers})
        raise ClientError(f"no name server knows a broker {name}; brokers known: {', '.join(names) or 'none'}")
    return changed


def _show(name: str, changed: dict[str, int], output: str, *, writable: bool) -> None:
    if output == "json":
        print_json(
            {
                "broker": name,
                "writable": writable,
                "name_servers": [{"name_server": server, "topics": count} for server, count in changed.items()],
            }
        )
        return
    for server, count in changed.items():
        click.echo(f"{server}: {count} topics of {name} may {'be' if writable else 'not be'} written")
