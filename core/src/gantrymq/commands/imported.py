"""Commands that are known by name and purpose, and imported when they are used: the help imports none of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import click

__all__ = ["ImportedCommand"]


class ImportedCommand(NamedTuple):
    """Where a command is, and what it is for."""

    where: str  # "package.module:attribute"; the attribute is a click.Command
    purpose: str  # one sentence, for the list of commands, which leaves out a command without one

    def load(self) -> click.Command:
        """Import its module. Raises whatever that raises."""
        module, _, attribute = self.where.partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found
