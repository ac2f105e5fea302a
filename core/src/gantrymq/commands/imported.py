"""Commands with lazy imports: the help needs only their names and purposes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import click


class ImportedCommand(NamedTuple):
    """Import path and purpose of a command."""

    where: str  # "package.module:attribute"; the attribute is a click.Command
    purpose: str  # one sentence for the list of commands; if empty, the command is not listed

    def load(self) -> click.Command:
        """Import the command. Exceptions of the import are raised."""
        module, _, attribute = self.where.partition(":")
        with collections_paused():
            found: click.Command = getattr(import_module(module), attribute)
        return found


@contextmanager
def collections_paused() -> Iterator[None]:
    """Pause garbage collections during imports, which make many objects and no garbage: a tenth of a start."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()
