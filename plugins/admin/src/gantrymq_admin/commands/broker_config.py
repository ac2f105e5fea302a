"""``gantrymq broker config get|set``: the settings of a broker that runs."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gantrymq.client import Admin
from gantrymq.commands.groups import CommandGroup
from gantrymq.commands.output import namesrv_option, output_option, print_json, print_table, say
from gantrymq.commands.run import run
from gantrymq.errors import ConfigError
from gantrymq_admin.commands.group_admin import brokers_of, where_options


@click.group(cls=CommandGroup)
def config() -> None:
    """Show and change the settings of brokers that run."""


@config.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@where_options
@namesrv_option
@output_option
def get(keys: Sequence[str], cluster: str | None, broker: str | None, namesrv: str, output: str) -> None:
    """Show every setting, or those named."""
    found = run(_get(namesrv, keys, cluster, broker))
    if output == "json":
        print_json({"brokers": [{"broker": address, "settings": settings} for address, settings in found]})
        return
    for address, settings in found:
        say(address)
        print_table(["Setting", "Value"], settings.items())


@config.command("set")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@where_options
@namesrv_option
@output_option
def set_(pairs: Sequence[str], cluster: str | None, broker: str | None, namesrv: str, output: str) -> None:
    """Change settings until the broker stops; to keep them, put them in its broker.conf."""
    settings = {}
    for pair in pairs:
        key, mark, value = pair.partition("=")
        if not mark or not key.strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
        settings[key.strip()] = value.strip()
    brokers = run(_set(namesrv, settings, cluster, broker))
    if output == "json":
        print_json({"brokers": brokers, "settings": settings})
        return
    click.echo(f"set {', '.join(settings)} at {', '.join(brokers)} until they stop")


async def _get(
    namesrv: str, keys: Sequence[str], cluster: str | None, broker: str | None
) -> list[tuple[str, dict[str, str]]]:
    found = []
    async with Admin(namesrv) as admin:
        for address in await brokers_of(admin, cluster, broker):
            settings = await admin.broker_settings(address)
            missing = [key for key in keys if key not in settings]
            if missing:
                raise ConfigError(f"{address} has no setting {', '.join(missing)}")
            found.append((address, {key: settings[key] for key in keys} if keys else settings))
    return found


async def _set(namesrv: str, settings: dict[str, str], cluster: str | None, broker: str | None) -> list[str]:
    async with Admin(namesrv) as admin:
        addresses = list(await brokers_of(admin, cluster, broker))
        for address in addresses:
            await admin.change_broker_settings(address, settings)
        return addresses
