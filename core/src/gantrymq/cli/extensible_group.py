"""Command groups that plugins can extend: the command line itself, ``gantrymq broker`` and ``nameserver``.

A plugin registers a command under the words after ``gantrymq``: "store", or "broker clean" for a subcommand of core's
group. For the words in `TO_INSTALL` only the plugin that provides the command is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gantrymq.commands.groups import CommandGroup, imported_command
from gantrymq.commands.imported import ImportedCommand
from gantrymq.errors import PluginError, install_command

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
    "transactions": ADMIN,
    "console": "gantrymq-console",
    "plugin": "gantrymq-kit",
    "user": "gantrymq-access",
    "acl": "gantrymq-access",
    "access": "gantrymq-access",
    "client": "gantrymq-access",
}
"""Well-known commands of plugins: words to the distribution that provides the command."""

_HOOKS = ("gantry_register_commands",)
Command = click.Command | ImportedCommand


class ExtensibleGroup(CommandGroup):
    """A group with core's commands first, then those of plugins. Only the command to run is imported."""

    def __init__(self, *args: Any, imported: Mapping[str, ImportedCommand], words: str = "", **settings: Any) -> None:
        """Create the group with click's arguments and:

        Args:
            imported: core's commands by name.
            words: the words of the group itself, each followed by a blank; empty for the command line.
        """
        super().__init__(*args, imported=imported, **settings)
        self._words = words

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return core's commands in their order, then those of plugins by name."""
        return [*self._imported, *self._added()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; plugins are loaded only for a name that core does not have.

        Raises:
            PluginError: the plugin with the command is not installed or broken.
        """
        if cmd_name in self._imported:
            return self._imported[cmd_name].load()
        words = self._words + cmd_name
        found = _of_known_plugin(words) or _of_plugins().get(words) or self._of_mqadmin(ctx, words)
        if found is None and words in TO_INSTALL:
            raise PluginError(
                f"{words} is a command of a plugin that is not installed; install it with: "
                + install_command(TO_INSTALL[words])
            )
        return imported_command(words, found) if isinstance(found, ImportedCommand) else found

    def purposes(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return names and first sentences without importing the commands."""
        return self._purposes({**self._imported, **self._added()})

    def _of_mqadmin(self, ctx: click.Context, words: str) -> click.Command | None:
        """Return a hint for mqadmin's command of that name, if the plugin with these names is installed."""
        found = _of_known_plugin("mqadmin") if not self._words else None
        names = found.load() if isinstance(found, ImportedCommand) else None
        return names.get_command(ctx, words) if isinstance(names, click.Group) else None

    def _added(self) -> dict[str, Command]:
        """Return the commands of plugins for this group, by name."""
        added = {
            words.removeprefix(self._words): command
            for words, command in sorted(_of_plugins().items())
            if words.startswith(self._words)
        }
        return {name: command for name, command in added.items() if " " not in name and name not in self._imported}


def _of_known_plugin(words: str) -> Command | None:
    """Return the command, loading only the plugin in `TO_INSTALL`; None if that is not installed.

    Raises:
        PluginError: the plugin is broken.
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
    """Return the commands of all plugins by their words; print a warning for each broken plugin."""
    from gantrymq.plugins import load_plugins

    loaded = load_plugins(strict=False, only_hooks=_HOOKS)
    for problem in loaded.problems:
        click.echo(f"gantrymq: warning: {problem}", err=True)
    return dict(loaded.commands)
