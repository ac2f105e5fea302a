"""``gantrymq config``: show the effective settings of a server, or explain one setting."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from gantrymq.cli.servers import settings_options
from gantrymq.commands.output import output_option, print_json, print_table, warn
from gantrymq.config import Setting, Settings, Value
from gantrymq.errors import ConfigError, PluginError
from gantrymq.settings_load import BROKER_DEFAULTS, NAME_SERVER_DEFAULTS, NOT_BUILT, is_rocketmq_key, nearest

Document = dict[str, Value | list[str] | None]


@click.command()
@settings_options("broker.conf or namesrv.conf")
@click.option("--server", type=click.Choice(["broker", "nameserver"]), default="broker", show_default=True)
@click.option("--explain", metavar="KEY", help="Explain one setting: type, values, source of its value.")
@output_option
def config(file: Path | None, pairs: tuple[str, ...], server: str, explain: str | None, output: str) -> None:
    """Show the effective settings with the given file, environment and flags, or explain one."""
    by_server = {server: _settings(server, file, pairs)}
    if explain is None:
        _show(by_server[server], output)
        return
    other = "nameserver" if server == "broker" else "broker"
    if explain not in by_server[server].schema and file is None and not pairs:
        with suppress(PluginError):  # no name server plugin is installed
            by_server[other] = _settings(other, None, ())
    document = _unused(by_server, explain) or _explained(by_server, explain)
    if output == "json":
        print_json(document)
    else:
        for name, text in document.items():
            if text not in (None, ""):
                click.echo(f"{name.replace('_', ' '):17} {_text(text)}")


def _settings(server: str, file: Path | None, pairs: tuple[str, ...]) -> Settings:
    from gantrymq.cli.server_settings import ServerArguments, broker_settings, name_server_settings
    from gantrymq.world.real import real_world

    arguments = ServerArguments("built-in", file, pairs)
    if server == "nameserver":
        settings, _, notes, _ = name_server_settings(real_world(), arguments)
    else:
        settings, plugins, notes = broker_settings(real_world(), arguments, strict=False)
        notes = (*plugins.problems, *notes)
    for note in notes:
        warn(note)
    return settings


def _show(settings: Settings, output: str) -> None:
    values = settings.as_dict()
    if output == "json":
        print_json({key: {"value": value, "source": settings.source(key)} for key, value in values.items()})
    else:
        print_table(("key", "value", "from"), ((k, _text(v), settings.source(k)) for k, v in values.items()))


def _unused(by_server: dict[str, Settings], key: str) -> Document | None:
    """Describe a key of RocketMQ that is not declared here; None for any other key."""
    if not is_rocketmq_key(key) or any(key in settings.schema for settings in by_server.values()):
        return None
    of_name_server = key in NAME_SERVER_DEFAULTS and key not in BROKER_DEFAULTS
    server, defaults = ("nameserver", NAME_SERVER_DEFAULTS) if of_name_server else ("broker", BROKER_DEFAULTS)
    meaning = "known to RocketMQ, no effect in this version; a file may contain it"
    if key in NOT_BUILT:
        meaning = f"known to RocketMQ, for a feature that is not implemented here: {NOT_BUILT[key][1]}"
    return {"key": key, "server": server, "meaning": meaning, "rocketmq_default": defaults.get(key) or None}


def _explained(by_server: dict[str, Settings], key: str) -> Document:
    """Describe the declaration of *key* and its server.

    Raises:
        ConfigError: the key is not declared.
    """
    for server, settings in by_server.items():
        if key in settings.schema:
            return _document(server, settings, settings.schema[key])
    known = [name for settings in by_server.values() for name in settings.schema]
    raise ConfigError(f"there is no setting {key}{nearest(key, known)}; gantrymq config lists them")


def _document(server: str, settings: Settings, setting: Setting) -> Document:
    rocketmq = (BROKER_DEFAULTS if server == "broker" else NAME_SERVER_DEFAULTS).get(setting.key)
    return {
        "key": setting.key,
        "server": server,
        "meaning": setting.help,
        "type": {"number": "whole number", "flag": "true or false", "text": "text"}[setting.kind],
        "choices": list(setting.choices) or None,
        "at_least": setting.at_least,
        "at_most": setting.at_most,
        "default": setting.default,
        "rocketmq_default": rocketmq if rocketmq and rocketmq != _text(setting.default) else None,
        "value": settings.as_dict()[setting.key],
        "from": settings.source(setting.key),
        "runtime": "can be changed while the server runs" if setting.runtime else None,
    }


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
