"""``gantrymq broker config get|set``: the settings of running brokers."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gantrymq.client import Admin
from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import CommandGroup, print_json, print_table, say
from gantrymq.plugin.settings import nearest
from gantrymq_admin.commands.options import admin_command, brokers_of, where_options

SettingsOf = Sequence[tuple[str, dict[str, str]]]
"""Addresses of servers, with the settings of each."""


def _pairs(_context: click.Context, _argument: click.Parameter, pairs: Sequence[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, mark, value = pair.partition("=")
        if not mark or not key.strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings


pairs_argument = click.argument("pairs", nargs=-1, required=True, callback=_pairs, metavar="KEY=VALUE...")


def settings_of(address: str, settings: dict[str, str], keys: Sequence[str]) -> dict[str, str]:
    """Return the settings named by *keys*, or all of them. Raises ConfigError: the server has no such setting."""
    missing = [key for key in keys if key not in settings]
    if missing:
        raise ConfigError(f"{address} has no setting {missing[0]}{nearest(missing[0], settings)}")
    return {key: settings[key] for key in keys} if keys else settings


def show_settings(found: SettingsOf, output: str, kind: str) -> None:
    """Print the settings of servers; *kind* is the name of a server in JSON, "broker" or "name_server"."""
    if output == "json":
        print_json({f"{kind}s": [{kind: address, "settings": settings} for address, settings in found]})
        return
    for address, settings in found:
        say(address)
        print_table(["Setting", "Value"], settings.items())


@click.group(cls=CommandGroup)
def config() -> None:
    """Show and change the settings of running brokers."""


@config.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@where_options
@admin_command
async def get(admin: Admin, keys: Sequence[str], cluster: str | None, broker: str | None, output: str) -> None:
    """Show all settings, or the named ones."""
    found = [
        (address, settings_of(address, await admin.broker_settings(address), keys))
        for address in await brokers_of(admin, cluster, broker)
    ]
    show_settings(found, output, "broker")


@config.command("set")
@pairs_argument
@where_options
@admin_command
async def set_(admin: Admin, pairs: dict[str, str], cluster: str | None, broker: str | None, output: str) -> None:
    """Change settings until the broker stops; to keep them, put them in its broker.conf."""
    brokers = await brokers_of(admin, cluster, broker)
    for address in brokers:
        await admin.change_broker_settings(address, pairs)
    if output == "json":
        print_json({"brokers": brokers, "settings": pairs})
        return
    until = "it stops" if len(brokers) == 1 else "they stop"
    click.echo(f"set {', '.join(pairs)} at {', '.join(brokers)} until {until}")
