"""The ``gantrymq`` command. A command's module is imported when the command is used, not before.

Exit codes: 0 done, 1 the broker or the data said no (one sentence on stderr), 2 wrong usage, 3 a store that a broker
has open.
"""

from __future__ import annotations

import time

import click

from gantrymq import __version__, speedups
from gantrymq.commands.imported import ImportedCommand
from gantrymq.errors import GantryError, PluginError

LOADED_AT = time.perf_counter()  # start times are measured from here

_VERSION = f"%(prog)s, version %(version)s; {speedups.said.replace('%', '%%')}"
_HOOKS = ("gantry_register_commands",)

COMMANDS: dict[str, ImportedCommand] = {
    "quickstart": ImportedCommand(
        "gantrymq.cli.quickstart:quickstart", "Start on free ports and show what a broker does."
    ),
    "start": ImportedCommand("gantrymq.cli.servers:start", "Run a name server and a broker in one process."),
    "nameserver": ImportedCommand("gantrymq.cli.servers:nameserver", "Run a name server."),
    "broker": ImportedCommand("gantrymq.cli.broker:broker", "Run a broker, or look after one that runs."),
    "status": ImportedCommand("gantrymq.cli.status:status", "Show the clusters and their brokers."),
    "cluster": ImportedCommand("gantrymq.cli.cluster:cluster", "Show the brokers of each cluster with their load."),
    "topic": ImportedCommand("gantrymq.cli.topic:topic", "List, create, delete and look at topics."),
    "group": ImportedCommand("gantrymq.cli.group:group", "List, create, delete and look at consumer groups."),
    "message": ImportedCommand("gantrymq.cli.message:message", "Send, pull, follow and find messages."),
    "plugins": ImportedCommand("gantrymq.cli.plugins:plugins", "List the installed plugins and what they register."),
    "config": ImportedCommand("gantrymq.cli.config:config", "Show settings, and explain one."),
}
"""Core's commands by name."""

TO_INSTALL = {"store": "gantrymq-store-tools"}
"""Commands of plugins that a user may miss: command name to the distribution that brings it."""


class MainGroup(click.Group):
    """Core's commands by the table above, then those of plugins; every GantryError ends in one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Core's commands in the order of the table, then the plugins' by name."""
        return [*COMMANDS, *(name for name in sorted(self._of_plugins()) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; plugins are only loaded for a name that core does not have.

        Raises:
            PluginError: a plugin that is not installed or broken has it; says which.
        """
        if cmd_name in COMMANDS:
            return COMMANDS[cmd_name].load()
        found = self._of_standard_plugin(cmd_name) or self._of_plugins().get(cmd_name)
        if found is None and cmd_name in TO_INSTALL:
            raise PluginError(
                f"{cmd_name} is a command of a plugin that is not installed; install it with: "
                f"pip install {TO_INSTALL[cmd_name]}"
            )
        if not isinstance(found, ImportedCommand):
            return found
        try:
            return found.load()
        except ImportError as problem:
            raise PluginError(
                f"the command {cmd_name} does not import: {problem}; reinstall the plugin that offers it (gantrymq "
                "plugins says which)"
            ) from problem

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands and import none of them."""
        rows = [(name, command.purpose) for name, command in COMMANDS.items()]
        for name, command in sorted(self._of_plugins().items()):
            if name in COMMANDS:
                continue
            if isinstance(command, ImportedCommand):
                rows.append((name, command.purpose))
            elif not command.hidden:
                rows.append((name, command.get_short_help_str()))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an error raised on purpose becomes a sentence and exit code 1."""
        try:
            return super().invoke(ctx)
        except GantryError as problem:
            click.echo(f"gantrymq: {problem}", err=True)
            ctx.exit(1)

    def _of_standard_plugin(self, name: str) -> click.Command | ImportedCommand | None:
        """The command *name*, with no other plugin loaded than that of the table; None where it is not installed.

        Raises:
            PluginError: it is broken.
        """
        if name not in TO_INSTALL:
            return None
        from gantrymq.plugins import PluginState, load_plugins

        loaded = load_plugins(strict=False, only_hooks=_HOOKS, only_distribution=TO_INSTALL[name])
        for info in loaded.infos:
            if info.state is PluginState.BROKEN:
                raise PluginError(info.problem)
        return loaded.commands.get(name)

    def _of_plugins(self) -> dict[str, click.Command | ImportedCommand]:
        from gantrymq.plugins import load_plugins

        loaded = load_plugins(strict=False, only_hooks=_HOOKS)
        for problem in loaded.problems:
            click.echo(f"gantrymq: warning: {problem}", err=True)
        return dict(loaded.commands)


@click.group(cls=MainGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gantrymq", message=_VERSION)
def main() -> None:
    """A message broker with Apache RocketMQ's semantics, wire protocol and files.

    Begin with: gantrymq quickstart
    """
