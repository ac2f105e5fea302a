"""``gantrymq broker clean``, ``config`` and ``write-perm``: running brokers."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import click

from gantrymq.client import Admin
from gantrymq.client.admin import CLEANINGS
from gantrymq.errors import ClientError, ConfigError
from gantrymq.plugin.commands import CommandGroup, print_json, say
from gantrymq.plugin.settings import nearest
from gantrymq_admin.commands.lists import Columns, print_records
from gantrymq_admin.commands.options import admin_command, brokers_of, where_options


@click.command()
@click.argument("what", nargs=-1, required=True, type=click.Choice(list(CLEANINGS)), metavar="WHAT...")
@where_options
@admin_command
async def clean(admin: Admin, what: Sequence[str], cluster: str | None, broker: str | None, output: str) -> None:
    """Delete expired data: log, queues, topics, or several of them.

    \b
    log      log files older than fileReservedTime, at any hour; in the background
    queues   queues without messages in the log; they start at 0 again
    topics   queues of deleted topics
    """
    found = [
        (address, each, await admin.clean(address, each))
        for address in await brokers_of(admin, cluster, broker)
        for each in what
    ]
    if output == "json":
        print_json({"cleaned": [{"broker": address, "what": each, "said": said} for address, each, said in found]})
        return
    for address, each, said in found:
        click.echo(f"{address}: {each}: {said or 'done'}")


_SETTING_COLUMNS: Final[Columns] = (("Setting", itemgetter(0)), ("Value", itemgetter(1)))
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
        print_records(settings.items(), _SETTING_COLUMNS)


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
