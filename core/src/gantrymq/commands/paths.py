"""Paths on the command line."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["FilledPath"]


class FilledPath(click.Path):
    """A path that is not empty: ``--store "$STORE"`` with an unset variable would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert as `click.Path`. Raises click.BadParameter for an empty path."""
        if not str(value).strip():
            self.fail("the path is empty; a variable in it may not be set", param, ctx)
        return super().convert(value, param, ctx)
