"""The folder of a console: users and audit log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import Command, FilledPath
from gantrymq.plugin.real_world import RealFiles
from gantrymq.plugin.settings import NO_HOME, home_folder
from gantrymq_console.access import user_file
from gantrymq_console.access.user_file import UserTable

__all__ = ["changed_table", "state_folder", "state_option"]


def state_option(command: Command) -> Command:
    """Add ``--state``; the command receives ``state``, for `state_folder`. It may also come before a subcommand."""
    return click.option(
        "--state",
        type=FilledPath(file_okay=False),
        metavar="DIR",
        callback=_or_of_group,
        help="Folder of users and audit log; by default gantrymq/console in $XDG_STATE_HOME or ~/.local/state.",
    )(command)


def _or_of_group(ctx: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    group = ctx.parent
    while given is None and group is not None:
        given, group = group.params.get("state"), group.parent
    return given


def state_folder(given: str | None) -> Path:
    """Return the folder that --state names, or the default. Raises ConfigError: there is no home folder."""
    if given is not None:
        return Path(given)
    home = os.environ.get("XDG_STATE_HOME", "")
    if Path(home).is_absolute():
        return Path(home) / "gantrymq" / "console"
    user = home_folder()
    if user is None:
        raise ConfigError(f"the folder of users and audit log has no default because {NO_HOME}; --state DIR sets it")
    return user / ".local" / "state" / "gantrymq" / "console"


@contextmanager
def changed_table(state: str | None) -> Iterator[Table]:
    """Lock the folder, read the table, and write it at the end. Raises ConfigError."""
    folder, files = state_folder(state), RealFiles()
    before = os.umask(0o077)
    try:
        try:
            files.make_dirs(folder)
            lock = files.lock_folder(folder)
        except OSError as problem:
            raise ConfigError(f"{folder}: {problem.strerror or problem}") from problem
        if lock is None:
            raise ConfigError(f"{folder}: another command is changing the users; try again")
        try:
            table = Table(user_file.read(files, folder))
            yield table
            user_file.write(files, folder, table.content)
        finally:
            lock.release()
    finally:
        os.umask(before)


class Table:
    """Users and tokens while a command changes them."""

    def __init__(self, content: UserTable) -> None:
        self.before = content
        self.content = content
