"""Groups of commands to which plugins add theirs: the command line itself, ``gantrymq broker`` and ``nameserver``.

A plugin's command is registered under the words after ``gantrymq``: "store", or "broker clean" for a subcommand of
core's group. For words of `TO_INSTALL` no other plugin is loaded than the one that brings them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gantrymq.commands.groups import WHOLE, CommandGroup
from gantrymq.commands.imported import ImportedCommand
from gantrymq.errors import PluginError, install_command

__all__ = ["TO_INSTALL", "OpenGroup"]

ADMIN = "gantrymq-admin"
TO_INSTALL = {
    "status": ADMIN,
    "cluster": ADMIN,
    "topic": ADMIN,
    "group": ADMIN,
    "message": ADMIN,
    "bench": ADMIN,
    "mqadmin": ADMIN,
    "broker clean": ADMIN,
    "broker config": ADMIN,
    "broker write-perm": ADMIN,
    "nameserver config": ADMIN,
    "store": "gantrymq-store-tools",
    "transactions": "gantrymq-transaction",
}
"""Commands of plugins that a user may miss: the words to the distribution that brings the command."""

_HOOKS = ("gantry_register_commands",)
Command = click.Command | ImportedCommand


class OpenGroup(CommandGroup):
    """Core's own commands first, then those of plugins. Only the command that is used is imported."""

    def __init__(self, *args: Any, own: Mapping[str, ImportedCommand], words: str = "", **settings: Any) -> None:
        """Take what click's group takes, and:

        Args:
            own: core's commands by name.
            words: of the group itself, with a blank behind each; empty for the command line.
        """
        super().__init__(*args, **settings)
        self._own = own
        self._words = words

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Core's commands in their order, then the plugins' by name."""
        return [*self._own, *self._added()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; plugins are only loaded for a name that core does not have.

        Raises:
            PluginError: a plugin that is not installed, or broken, has it; says which.
        """
        if cmd_name in self._own:
            return self._own[cmd_name].load()
        words = self._words + cmd_name
        found = _of_known_plugin(words) or _of_plugins().get(words) or self._of_mqadmin(ctx, words)
        if found is None and words in TO_INSTALL:
            raise PluginError(
                f"{words} is a command of a plugin that is not installed; install it with: "
                + install_command(TO_INSTALL[words])
            )
        if not isinstance(found, ImportedCommand):
            return found
        try:
            return found.load()
        except ImportError as problem:
            raise PluginError(
                f"the command {words} does not import: {problem}; reinstall the plugin that offers it (gantrymq "
                "plugins says which)"
            ) from problem

    def purposes(self, ctx: click.Context) -> list[tuple[str, str]]:
        """As `CommandGroup` has it; imports none of the commands."""
        rows = []
        for name, command in {**self._own, **self._added()}.items():
            if isinstance(command, ImportedCommand):
                rows += [(name, command.purpose)] if command.purpose else []
            elif not command.hidden:
                rows.append((name, command.get_short_help_str(WHOLE)))
        return rows

    def _of_mqadmin(self, ctx: click.Context, words: str) -> click.Command | None:
        """What does the same as mqadmin's command of that name, where the plugin that knows them is installed."""
        found = _of_known_plugin("mqadmin") if not self._words else None
        names = found.load() if isinstance(found, ImportedCommand) else None
        return names.get_command(ctx, words) if isinstance(names, click.Group) else None

    def _added(self) -> dict[str, Command]:
        """What plugins add to this group, by name."""
        added = {
            words.removeprefix(self._words): command
            for words, command in sorted(_of_plugins().items())
            if words.startswith(self._words)
        }
        return {name: command for name, command in added.items() if " " not in name and name not in self._own}


def _of_known_plugin(words: str) -> Command | None:
    """The command, with no other plugin loaded than that of `TO_INSTALL`; None where it is not installed.

    Raises:
        PluginError: it is broken.
    """
    if words not in TO_INSTALL:
        return None
    from gantrymq.plugins import PluginState, load_plugins

    loaded = load_plugins(strict=False, only_hooks=_HOOKS, only_distribution=TO_INSTALL[words])
    for info in loaded.infos:
        if info.state is PluginState.BROKEN:
            raise PluginError(info.problem)
    return loaded.commands.get(words)


def _of_plugins() -> dict[str, Command]:
    """Every command of every plugin by its words; broken plugins are told on stderr."""
    from gantrymq.plugins import load_plugins

    loaded = load_plugins(strict=False, only_hooks=_HOOKS)
    for problem in loaded.problems:
        click.echo(f"gantrymq: warning: {problem}", err=True)
    return dict(loaded.commands)
