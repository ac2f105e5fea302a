"""Command groups with complete help sentences and suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click
from click.shell_completion import CompletionItem

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


class CommandGroup(click.Group):
    """A command group, for ``@click.group(cls=CommandGroup)``."""

    def purposes(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return the name and first sentence of each command in the help."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, each.get_short_help_str(WHOLE)) for name, each in found if each and not each.hidden]

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
