"""Command groups with complete help sentences and suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from gantrymq.commands.imported import ImportedCommand
from gantrymq.errors import PluginError

WHOLE = 10_000  # characters; click would truncate a command's sentence to the terminal's width

_ALL_OF_ONE: Final = ("status", "view", "explain", "get")
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("create",),
    "consume": ("pull", "tail"),
    "consumer": ("group",),
    "consumers": ("clients", "group"),
    "describe": _ALL_OF_ONE,
    "info": _ALL_OF_ONE,
    "lag": ("progress",),
    "ls": ("list",),
    "members": ("clients",),
    "produce": ("send", "message"),
    "publish": ("send", "message"),
    "read": ("pull", "tail"),
    "remove": ("delete",),
    "rm": ("delete",),
    "show": _ALL_OF_ONE,
    "subscribe": ("tail",),
}
"""Names of other tools for commands, up to the first hyphen; those that a group has are suggested."""


def imported_command(words: str, command: ImportedCommand) -> click.Command:
    """Import *command* of a plugin; *words*: its name. Raises PluginError: it does not import."""
    try:
        return command.load()
    except ImportError as problem:
        raise PluginError(
            f"the command {words} does not import: {problem}; reinstall the plugin that offers it (gantrymq "
            "plugins says which)"
        ) from problem


class CommandGroup(click.Group):
    """A command group, for ``@click.group(cls=CommandGroup)``."""

    def __init__(self, *args: Any, imported: Mapping[str, ImportedCommand] | None = None, **settings: Any) -> None:
        """Create the group with click's arguments; *imported*: commands that are imported when they are used."""
        super().__init__(*args, **settings)
        self._imported = imported or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*self.commands, *self._imported})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported if necessary; None for an unknown name. Raises PluginError: it does not import."""
        found = self._imported.get(cmd_name)
        return super().get_command(ctx, cmd_name) if found is None else imported_command(cmd_name, found)

    def purposes(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return the name and first sentence of each command in the help."""
        found = {name: self._imported.get(name) or self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return self._purposes({name: command for name, command in found.items() if command is not None})

    def _purposes(self, commands: Mapping[str, click.Command | ImportedCommand]) -> list[tuple[str, str]]:
        rows = []
        for name, command in commands.items():
            if isinstance(command, ImportedCommand):
                rows += [(name, command.purpose)] if command.purpose else []
            elif not command.hidden:
                rows.append((name, command.get_short_help_str(WHOLE)))
        return rows

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands."""
        if rows := self.purposes(ctx):
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options and the commands in the help, without importing them."""
        named = [(name, purpose) for name, purpose in self.purposes(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=purpose) for name, purpose in named]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command like click, with suggestions in all versions of click."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if args[0].startswith("-"):
                raise
            from difflib import get_close_matches  # only for an error

            known = [name for name, _ in self.purposes(ctx)]
            near = [name for name in _SYNONYMS.get(args[0].partition("-")[0], ()) if name in known]
            near = near or [name for name in known if args[0].startswith((f"{name}-", f"{name}s"))]
            near = near or get_close_matches(args[0], known, 3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            if args[1:] and args[1] in known:
                meant = f" The command comes before the name: {ctx.command_path} {args[1]} {args[0]}"
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx) from None
