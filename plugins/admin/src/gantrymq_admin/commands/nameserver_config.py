"""``gantrymq nameserver config get|set``: the settings of running name servers."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gantrymq.client import Admin
from gantrymq.plugin.commands import CommandGroup, print_json
from gantrymq_admin.commands.broker import pairs_argument, settings_of, show_settings
from gantrymq_admin.commands.options import admin_command


@click.group(cls=CommandGroup)
def config() -> None:
    """Show and change the settings of running name servers."""


@config.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@admin_command
async def get(admin: Admin, keys: Sequence[str], output: str) -> None:
    """Show all settings of each name server of -n, or the named ones."""
    found = [
        (server, settings_of(server, await admin.name_server_settings(server), keys)) for server in admin.name_servers
    ]
    show_settings(found, output, "name_server")


@config.command("set")
@pairs_argument
@admin_command
async def set_(admin: Admin, pairs: dict[str, str], output: str) -> None:
    """Change settings of each name server of -n until it stops; to keep them, put them in its namesrv.conf."""
    servers = await admin.change_name_server_settings(pairs)
    if output == "json":
        print_json({"name_servers": servers, "settings": pairs})
        return
    until = "it stops" if len(servers) == 1 else "they stop"
    click.echo(f"set {', '.join(pairs)} at {', '.join(servers)} until {until}")
