"""``gantrymq broker write-perm wipe|add``: disable and enable sends to a broker, at the name servers."""

from __future__ import annotations

import click

from gantrymq.client import Client
from gantrymq.commands.groups import CommandGroup
from gantrymq.commands.output import namesrv_option, output_option, print_json
from gantrymq.commands.run import run

broker_argument = click.argument("name", metavar="BROKER_NAME")


@click.group("write-perm", cls=CommandGroup)
def write_perm() -> None:
    """Remove the write permission of a broker's topics at the name servers, and restore it."""


@write_perm.command()
@broker_argument
@namesrv_option
@output_option
def wipe(name: str, namesrv: str, output: str) -> None:
    """Make producers send to other brokers than BROKER_NAME; consumers continue to read from it.

    The routes stay so until write-perm add, or until the broker registers changed topics.
    """
    _change(namesrv, name, output, wiped=True)


@write_perm.command()
@broker_argument
@namesrv_option
@output_option
def add(name: str, namesrv: str, output: str) -> None:
    """Make producers send to BROKER_NAME again. Every topic of the broker becomes readable and writable."""
    _change(namesrv, name, output, wiped=False)


def _change(namesrv: str, name: str, output: str, *, wiped: bool) -> None:
    async def work() -> dict[str, int]:
        async with Client(namesrv) as client, client.admin as admin:
            return await (admin.wipe_write_permission(name) if wiped else admin.add_write_permission(name))

    changed = run(work())
    if output == "json":
        print_json(
            {
                "broker": name,
                "writable": not wiped,
                "name_servers": [{"name_server": server, "topics": count} for server, count in changed.items()],
            }
        )
        return
    for server, count in changed.items():
        click.echo(f"{server}: {count} topics of {name} may {'not be' if wiped else 'be'} written")
