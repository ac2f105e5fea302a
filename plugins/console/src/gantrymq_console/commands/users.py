"""``gantrymq console user`` and ``token``: the users and API tokens of a console, in the folder of its state."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import attrs
import click

from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import Command, CommandGroup, FilledPath, output_option, print_json, print_table, say
from gantrymq.plugin.real_world import RealClock, RealFiles
from gantrymq.plugin.settings import NO_HOME, home_folder
from gantrymq_console.access.passwords import digest_of
from gantrymq_console.access.users import (
    TOKEN_PREFIX,
    Role,
    StoredToken,
    StoredUser,
    UserTable,
    check_name,
    read_users,
    token_digest,
    write_users,
)

Entry = TypeVar("Entry")

ROLES = [each.word for each in Role]
PASSWORD = "GANTRYMQ_CONSOLE_PASSWORD"
_LEAST_CHARS = 8
_MOST_CHARS = 1024
_FIRST = (
    "this is the first user with a password: restart the console. It prints no link for logging in any more, and one "
    "in a broker no longer lets everyone on the machine in; everyone needs a user"
)
_DAY_MS = 86_400_000


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
            table = Table(read_users(files, folder))
            yield table
            write_users(files, folder, table.content)
        finally:
            lock.release()
    finally:
        os.umask(before)


class Table:
    """Users and tokens while a command changes them."""

    def __init__(self, content: UserTable) -> None:
        self.before = content
        self.content = content


role_option = click.option(
    "--role",
    required=True,
    type=click.Choice(ROLES),
    help="viewer: all but message bodies; reader: also bodies; operator: also sends, resets, new topics; admin: all.",
)


@click.group(cls=CommandGroup)
def user() -> None:
    """Add, list and remove users of the console.

    A running console with the same --state notices changes within a second.
    """


@user.command("add")
@click.argument("name")
@role_option
@click.option("--no-password", is_flag=True, help="For a user whom a trusted proxy names (--user-header).")
@state_option
def add_user(name: str, role: str, no_password: bool, state: str | None) -> None:
    """Add a user, or change the role of one.

    The password is read from $GANTRYMQ_CONSOLE_PASSWORD or, without it, asked for on a terminal or read from the first
    line of stdin. An existing user keeps the password.
    """
    check_name(name)
    with changed_table(state) as table:
        users = dict(table.content.users)
        known = users.get(name)
        if known is not None:
            users[name] = attrs.evolve(known, role=Role.of(role))
        else:
            users[name] = StoredUser(Role.of(role), "" if no_password else digest_of(_password()))
        table.content = attrs.evolve(table.content, users=users)
        first = _first_password(table.before, table.content)
    say(f"user {name}: {role}" + (", with the password as before" if known is not None and known.password else ""))
    if first:
        say(_FIRST)


@user.command("password")
@click.argument("name")
@state_option
def set_password(name: str, state: str | None) -> None:
    """Set a new password, read as for add. It ends the user's sessions."""
    with changed_table(state) as table:
        known = table.content.users.get(name)
        if known is None:
            raise ConfigError(f"there is no user {name}; see `gantrymq console user list`")
        changed = attrs.evolve(known, password=digest_of(_password()))
        table.content = attrs.evolve(table.content, users={**table.content.users, name: changed})
        first = _first_password(table.before, table.content)
    say(f"user {name}: new password")
    if first:
        say(_FIRST)


@user.command("remove")
@click.argument("name")
@state_option
def remove_user(name: str, state: str | None) -> None:
    """Remove a user. It ends the user's sessions."""
    with changed_table(state) as table:
        table.content = attrs.evolve(table.content, users=_without(table.content.users, "user", name))
    say(f"user {name} removed")


@user.command("list")
@state_option
@output_option
def list_users(state: str | None, output: str) -> None:
    """List the users and their roles."""
    users = read_users(RealFiles(), state_folder(state)).users
    if output == "json":
        rows = [{"name": name, "role": each.role.word, "password": bool(each.password)} for name, each in users.items()]
        print_json(rows)
    elif users:
        rows_of_text = [(name, each.role.word, "yes" if each.password else "no") for name, each in users.items()]
        print_table(("NAME", "ROLE", "PASSWORD"), rows_of_text)
    else:
        say(f"no users in {state_folder(state)}; add one with `gantrymq console user add NAME --role admin`")


def _without(entries: Mapping[str, Entry], kind: str, name: str) -> dict[str, Entry]:
    """Return *entries*, users or tokens, without the one named *name*. Raises ConfigError: there is none."""
    if name not in entries:
        raise ConfigError(f"there is no {kind} {name}; see `gantrymq console {kind} list`")
    return {each: entry for each, entry in entries.items() if each != name}


def _first_password(before: UserTable, after: UserTable) -> bool:
    """Return whether a change ends the log-in by links: a console prints them while no user has a password."""
    return not before.with_password() and bool(after.with_password())


def _password() -> str:
    given = os.environ.get(PASSWORD)
    if given is None and sys.stdin.isatty():
        given = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    elif given is None:
        given = sys.stdin.readline().rstrip("\r\n")
    if not _LEAST_CHARS <= len(given) <= _MOST_CHARS:
        raise ConfigError(f"the password has {len(given)} characters; it needs {_LEAST_CHARS} to {_MOST_CHARS}")
    return given


@click.group(cls=CommandGroup)
def token() -> None:
    """Add, list and remove API tokens, which scripts send as `Authorization: Bearer TOKEN`.

    A running console with the same --state notices changes within a second.
    """


@token.command("add")
@click.argument("name")
@role_option
@click.option(
    "--days", type=click.IntRange(1, 3650), default=90, show_default=True, help="How long the token is accepted."
)
@state_option
@output_option
def add_token(name: str, role: str, days: int, state: str | None, output: str) -> None:
    """Add a token and print it. It cannot be shown again."""
    check_name(name)
    made = TOKEN_PREFIX + secrets.token_urlsafe(32)
    until_ms = RealClock().now_ms() + days * _DAY_MS
    with changed_table(state) as table:
        if name in table.content.tokens:
            raise ConfigError(f"there is a token {name}; remove it first, or choose another name")
        stored = StoredToken(Role.of(role), token_digest(made), until_ms)
        table.content = attrs.evolve(table.content, tokens={**table.content.tokens, name: stored})
    if output == "json":
        print_json({"name": name, "role": role, "until_ms": until_ms, "token": made})
    else:
        say(f"token {name}: {role} until {_date(until_ms)}")
        click.echo(made)


@token.command("remove")
@click.argument("name")
@state_option
def remove_token(name: str, state: str | None) -> None:
    """Remove a token."""
    with changed_table(state) as table:
        table.content = attrs.evolve(table.content, tokens=_without(table.content.tokens, "token", name))
    say(f"token {name} removed")


@token.command("list")
@state_option
@output_option
def list_tokens(state: str | None, output: str) -> None:
    """List the tokens, their roles and ends."""
    tokens = read_users(RealFiles(), state_folder(state)).tokens
    if output == "json":
        print_json([{"name": name, "role": each.role.word, "until_ms": each.until_ms} for name, each in tokens.items()])
    elif tokens:
        print_table(
            ("NAME", "ROLE", "UNTIL"), [(name, each.role.word, _date(each.until_ms)) for name, each in tokens.items()]
        )
    else:
        say("no tokens; add one with `gantrymq console token add NAME --role viewer`")


def _date(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
