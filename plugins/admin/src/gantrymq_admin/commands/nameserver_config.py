"""``gantrymq nameserver config get|set``: the settings of running name servers."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gantrymq.client import Client
from gantrymq.commands.groups import CommandGroup
from gantrymq.commands.output import namesrv_option, output_option, print_json
from gantrymq.commands.run import run
from gantrymq_admin.commands.broker_config import SettingsOf, pairs_argument, settings_of, show_settings


@click.group(cls=CommandGroup)
def config() -> None:
    """Show and change the settings of running name servers."""


@config.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@namesrv_option
@output_option
def get(keys: Sequence[str], namesrv: str, output: str) -> None:
    """Show all settings of each name server of -n, or the named ones."""

    async def work() -> SettingsOf:
        async with Client(namesrv) as client, client.admin as admin:
            return [
                (server, settings_of(server, await admin.name_server_settings(server), keys))
                for server in admin.name_servers
            ]

    show_settings(run(work()), output, "name_server")


@config.command("set")
@pairs_argument
@namesrv_option
@output_option
def set_(pairs: dict[str, str], namesrv: str, output: str) -> None:
    """Change settings of each name server of -n until it stops; to keep them, put them in its namesrv.conf."""

    async def work() -> list[str]:
        async with Client(namesrv) as client, client.admin as admin:
            return list(await admin.change_name_server_settings(pairs))

    servers = run(work())
    if output == "json":
        print_json({"name_servers": servers, "settings": pairs})
        return
    until = "it stops" if len(servers) == 1 else "they stop"
    click.echo(f"set {', '.join(pairs)} at {', '.join(servers)} until {until}")
