"""The ``gantrymq`` command. A command's module is imported when the command is used, not before.

Exit codes: 0 done, 1 the broker or the data said no (one sentence on stderr), 2 wrong usage, 3 a store that a broker
has open.
"""

from __future__ import annotations

import time
from importlib import import_module

import click

from gantrymq import __version__, speedups
from gantrymq.errors import GantryError

LOADED_AT = time.perf_counter()  # start times are measured from here

_VERSION = f"%(prog)s, version %(version)s; {speedups.said.replace('%', '%%')}"

COMMANDS = {
    "quickstart": ("gantrymq.cli.quickstart:quickstart", "Start on free ports and show what a broker does."),
    "start": ("gantrymq.cli.servers:start", "Run a name server and a broker in one process."),
    "nameserver": ("gantrymq.cli.servers:nameserver", "Run a name server."),
    "broker": ("gantrymq.cli.broker:broker", "Run a broker, or look after one that runs."),
    "status": ("gantrymq.cli.status:status", "Show the clusters and their brokers."),
    "cluster": ("gantrymq.cli.cluster:cluster", "Show the brokers of each cluster with their load."),
    "topic": ("gantrymq.cli.topic:topic", "List, create, delete and look at topics."),
    "group": ("gantrymq.cli.group:group", "List, create, delete and look at consumer groups."),
    "message": ("gantrymq.cli.message:message", "Send, pull, follow and find messages."),
    "store": ("gantrymq.cli.store:store", "Check, repair and read the files of a store, without a broker."),
    "plugins": ("gantrymq.cli.plugins:plugins", "List the installed plugins and what they register."),
    "config": ("gantrymq.cli.config:config", "Show settings, and explain one."),
}
"""Command name to where it is and what it is for."""


class MainGroup(click.Group):
    """Core's commands by the table above, then those of plugins; every GantryError ends in one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Core's commands in the order of the table, then the plugins' by name."""
        return [*COMMANDS, *(name for name in sorted(self._of_plugins()) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; plugins are only loaded for a name that core does not have."""
        if cmd_name not in COMMANDS:
            return self._of_plugins().get(cmd_name)
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing core's."""
        rows = [(name, purpose) for name, (_, purpose) in COMMANDS.items()]
        rows += [
            (name, command.get_short_help_str())
            for name, command in sorted(self._of_plugins().items())
            if name not in COMMANDS and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an error raised on purpose becomes a sentence and exit code 1."""
        try:
            return super().invoke(ctx)
        except GantryError as problem:
            click.echo(f"gantrymq: {problem}", err=True)
            ctx.exit(1)

    def _of_plugins(self) -> dict[str, click.Command]:
        from gantrymq.plugins import load_plugins

        loaded = load_plugins(strict=False, only_hooks=("gantry_register_commands",))
        for problem in loaded.problems:
            click.echo(f"gantrymq: warning: {problem}", err=True)
        return dict(loaded.commands)


@click.group(cls=MainGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gantrymq", message=_VERSION)
def main() -> None:
    """A message broker with Apache RocketMQ's semantics, wire protocol and files.

    Begin with: gantrymq quickstart
    """
