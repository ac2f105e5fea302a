"""``gantrymq console user``: the users of a console."""

from __future__ import annotations

import os
import sys

import attrs
import click

from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import CommandGroup, output_option, print_json, print_table, say
from gantrymq.plugin.real_world import RealFiles
from gantrymq_console.access import user_file
from gantrymq_console.access.passwords import digest_of
from gantrymq_console.access.user_file import StoredUser, UserTable, check_name
from gantrymq_console.access.users import Role
from gantrymq_console.commands.state import changed_table, state_folder, state_option

__all__ = ["ROLES", "user"]

ROLES = [each.word for each in Role]
PASSWORD = "GANTRYMQ_CONSOLE_PASSWORD"
LEAST_CHARS = 8
MOST_CHARS = 1024
FIRST = (
    "this is the first user with a password: restart the console. It prints no link for logging in any more, and one "
    "in a broker no longer lets everyone on the machine in; everyone needs a user"
)

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


@user.command()
@click.argument("name")
@role_option
@click.option("--no-password", is_flag=True, help="For a user whom a trusted proxy names (--user-header).")
@state_option
def add(name: str, role: str, no_password: bool, state: str | None) -> None:
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
        say(FIRST)


@user.command()
@click.argument("name")
@state_option
def password(name: str, state: str | None) -> None:
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
        say(FIRST)


@user.command()
@click.argument("name")
@state_option
def remove(name: str, state: str | None) -> None:
    """Remove a user. It ends the user's sessions."""
    with changed_table(state) as table:
        users = dict(table.content.users)
        if users.pop(name, None) is None:
            raise ConfigError(f"there is no user {name}; see `gantrymq console user list`")
        table.content = attrs.evolve(table.content, users=users)
    say(f"user {name} removed")


@user.command("list")
@state_option
@output_option
def list_(state: str | None, output: str) -> None:
    """List the users and their roles."""
    users = user_file.read(RealFiles(), state_folder(state)).users
    if output == "json":
        rows = [{"name": name, "role": each.role.word, "password": bool(each.password)} for name, each in users.items()]
        print_json(rows)
    elif users:
        rows_of_text = [(name, each.role.word, "yes" if each.password else "no") for name, each in users.items()]
        print_table(("NAME", "ROLE", "PASSWORD"), rows_of_text)
    else:
        say(f"no users in {state_folder(state)}; add one with `gantrymq console user add NAME --role admin`")


def _first_password(before: UserTable, after: UserTable) -> bool:
    """Return whether a change ends the log-in by links: a console prints them while no user has a password."""
    return not before.with_password() and bool(after.with_password())


def _password() -> str:
    given = os.environ.get(PASSWORD)
    if given is None and sys.stdin.isatty():
        given = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    elif given is None:
        given = sys.stdin.readline().rstrip("\r\n")
    if not LEAST_CHARS <= len(given) <= MOST_CHARS:
        raise ConfigError(f"the password has {len(given)} characters; it needs {LEAST_CHARS} to {MOST_CHARS}")
    return given
