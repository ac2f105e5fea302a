"""Arguments and options that the commands of ``gantrymq store`` share."""

from __future__ import annotations

from pathlib import Path

import click

from gantrymq.commands.output import FilledPath
from gantrymq.commands.times import read_time_ms
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS

__all__ = ["folder_argument", "levels_option", "log_option", "target_option", "time_ms"]

folder_argument = click.argument("root", metavar="DIR", type=FilledPath(path_type=Path))
log_option = click.option(
    "--commit-log",
    "log_folders",
    multiple=True,
    type=FilledPath(path_type=Path),
    metavar="DIR",
    help="The commit log if it is not DIR/commitlog; repeat for each folder of storePathCommitLog.",
)
levels_option = click.option(
    "--delay-levels",
    default=DEFAULT_DELAY_LEVELS,
    metavar="TEXT",
    help="The broker's messageDelayLevel if it is not the default.",
)
target_option = click.option(
    "--to", "target", type=FilledPath(path_type=Path), metavar="DIR", help="Target folder; by default next to DIR."
)


def time_ms(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Parse a store time as `read_time_ms` does (click callback)."""
    return None if text is None else read_time_ms(text, param=option)
