"""``gantrymq plugins``: list installed plugins, the objects they register, and their problems."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import attrs
import click

from gantrymq.commands.output import output_option, print_json, print_table, say
from gantrymq.plugins import PluginInfo, PluginState, load_plugins

REGISTERS_COLUMNS = 72


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
        rows = [row for info in loaded.infos for row in _rows(info)]
        print_table(("plugin", "distribution", "version", "state", "registers"), rows)
    else:
        click.echo("No plugin is installed.")
    for problem in loaded.problems:
        say(f"gantrymq: {problem}")
    ctx.exit(1 if loaded.problems else 0)


def _document(info: PluginInfo) -> dict[str, object]:
    return attrs.asdict(info) | {"state": info.state.value, "problem": info.problem or None}


def _rows(info: PluginInfo) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one plugin; settings and handlers of requests are counted, JSON has their names."""
    counts = [("handler for request code ", "request"), ("setting ", "setting")]
    words = [words for words in info.registers if not words.startswith(tuple(start for start, _ in counts))]
    for start, name in counts:
        if count := sum(1 for each in info.registers if each.startswith(start)):
            words.append(f"{count} {name}{'' if count == 1 else 's'}")
    registers = "see below" if info.state is PluginState.BROKEN else ", ".join(words)
    first, *more = textwrap.wrap(registers, REGISTERS_COLUMNS, break_long_words=False) or [""]
    yield info.name, info.distribution, info.version, info.state.value, first
    for line in more:
        yield "", "", "", "", line
