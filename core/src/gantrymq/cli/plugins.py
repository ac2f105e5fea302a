"""``gantrymq plugins``: list installed plugins, the objects they register, and their problems."""

from __future__ import annotations

import attrs
import click

from gantrymq.commands.output import output_option, print_json, print_table, say
from gantrymq.plugins import PluginInfo, PluginState, load_plugins


@click.command()
@output_option
@click.pass_context
def plugins(ctx: click.Context, output: str) -> None:
    """List the installed plugins and what they register; exit code 1 if one is broken."""
    from gantrymq.broker.settings import SCHEMA

    loaded = load_plugins(strict=False, reserved=SCHEMA)
    if output == "json":
        print_json({"plugins": [_document(info) for info in loaded.infos], "problems": list(loaded.problems)})
    elif loaded.infos:
        print_table(("plugin", "distribution", "version", "state", "registers"), map(_row, loaded.infos))
    else:
        click.echo("No plugin is installed.")
    for problem in loaded.problems:
        say(f"gantrymq: {problem}")
    ctx.exit(1 if loaded.problems else 0)


def _document(info: PluginInfo) -> dict[str, object]:
    return attrs.asdict(info) | {"state": info.state.value, "problem": info.problem or None}


def _row(info: PluginInfo) -> tuple[str, ...]:
    settings = sum(1 for words in info.registers if words.startswith("setting "))
    words = [words for words in info.registers if not words.startswith("setting ")]
    words += [f"{settings} settings"] if settings else []
    registers = "see below" if info.state is PluginState.BROKEN else ", ".join(words)
    return info.name, info.distribution, info.version, info.state.value, registers
