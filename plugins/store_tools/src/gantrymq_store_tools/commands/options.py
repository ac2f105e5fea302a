"""Arguments and options that the commands of ``gantrymq store`` share, and refusal of a store that is in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gantrymq.errors import StoreLocked
from gantrymq.plugin.commands import FilledPath, read_time_ms, warn
from gantrymq.plugin.real_world import held_elsewhere

if TYPE_CHECKING:
    from gantrymq_store_files.index import IndexLayout

Command = TypeVar("Command", bound=Callable[..., Any])
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
    metavar="TEXT",
    help="The broker's messageDelayLevel; by default as recorded in the store, else RocketMQ's default.",
)
target_option = click.option(
    "--to", "target", type=FilledPath(path_type=Path), metavar="DIR", help="Target folder; by default next to DIR."
)
IN_USE = 3  # exit code


def time_ms(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Parse a store time as `read_time_ms` does (click callback)."""
    return None if text is None else read_time_ms(text, param=option)


def index_options(command: Command) -> Command:
    """Add ``--slots``, ``--entries`` and ``--tags``, the layout of index files."""
    found = "by default detected from the existing index."
    tags = "Write an entry for each tag, as RocketMQ 5.5 does; by default as in the existing index."
    command = click.option("--tags/--no-tags", default=None, help=tags)(command)
    for name, least, key in (("--entries", 2, "maxIndexNum"), ("--slots", 1, "maxHashSlotNum")):
        command = click.option(name, type=click.IntRange(min=least), metavar="N", help=f"{key}; {found}")(command)
    return command


def index_layout_of(slots: int | None, entries: int | None) -> IndexLayout | None:
    """Return the layout that the options give, None for the detected one. Raises UsageError if only one is given."""
    from gantrymq_store_files.index import IndexLayout

    if slots is None and entries is None:
        return None
    if slots is None or entries is None:
        raise click.UsageError("give --slots and --entries together")
    return IndexLayout(slots, entries)


def in_use(root: Path) -> bool:
    """Return whether a broker, GantryMQ or Java, has the store open."""
    return held_elsewhere(root / "lock")


def warn_if_in_use(root: Path) -> bool:
    """Warn if a broker has the store open, because data may be half written; return whether it has."""
    open_now = in_use(root)
    if open_now:
        warn(f"a broker has {root} open; data it is writing may look like damage")
    return open_now


class StoreInUse(StoreLocked):
    """Raised when a broker has the store open and nothing can be built from it."""

    exit_code = IN_USE


def refuse_if_in_use(root: Path) -> None:
    """Reject a store that a broker has open: a copy made now would be incomplete.

    Raises:
        StoreInUse: a broker has it open; the command ends with `IN_USE`.
    """
    if in_use(root):
        raise StoreInUse(
            f"a broker has {root} open, so the result would lack data that the broker has not written yet; "
            f"stop the broker first (gantrymq store check {quote(str(root))} checks the durable part)"
        )
