"""``gantrymq console token``: API tokens of a console, for scripts."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

import attrs
import click

from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import CommandGroup, output_option, print_json, print_table, say
from gantrymq.plugin.real_world import RealClock, RealFiles
from gantrymq_console.access import user_file
from gantrymq_console.access.user_file import TOKEN_PREFIX, StoredToken, check_name, token_digest
from gantrymq_console.access.users import Role
from gantrymq_console.commands.state import changed_table, state_folder, state_option
from gantrymq_console.commands.users import role_option

__all__ = ["token"]

DAY_MS = 86_400_000


@click.group(cls=CommandGroup)
def token() -> None:
    """Add, list and remove API tokens, which scripts send as `Authorization: Bearer TOKEN`.

    A running console with the same --state notices changes within a second.
    """


@token.command()
@click.argument("name")
@role_option
@click.option(
    "--days", type=click.IntRange(1, 3650), default=90, show_default=True, help="How long the token is accepted."
)
@state_option
@output_option
def add(name: str, role: str, days: int, state: str | None, output: str) -> None:
    """Add a token and print it. It cannot be shown again."""
    check_name(name)
    made = TOKEN_PREFIX + secrets.token_urlsafe(32)
    until_ms = RealClock().now_ms() + days * DAY_MS
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


@token.command()
@click.argument("name")
@state_option
def remove(name: str, state: str | None) -> None:
    """Remove a token."""
    with changed_table(state) as table:
        tokens = dict(table.content.tokens)
        if tokens.pop(name, None) is None:
            raise ConfigError(f"there is no token {name}; see `gantrymq console token list`")
        table.content = attrs.evolve(table.content, tokens=tokens)
    say(f"token {name} removed")


@token.command("list")
@state_option
@output_option
def list_(state: str | None, output: str) -> None:
    """List the tokens, their roles and ends."""
    tokens = user_file.read(RealFiles(), state_folder(state)).tokens
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
