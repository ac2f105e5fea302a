"""Users, their roles, and the interfaces by which the console learns who a visitor is."""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol, Self

import attrs
from starlette.requests import Request

from gantrymq.errors import ConfigError

__all__ = ["Account", "Everyone", "Identities", "Role", "User", "Users"]


class Role(enum.IntEnum):
    """The permissions of a user. Each role includes those before it."""

    VIEWER = 1  # everything except message bodies
    READER = 2  # also message bodies
    OPERATOR = 3  # also changes that can be undone: sends, resets, new topics and groups
    ADMIN = 4  # also deletions, settings and users

    @property
    def word(self) -> str:
        """The role's name in settings, texts and JSON."""
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Self:
        """Return the role with this name. Raises ConfigError: there is none."""
        for each in cls:
            if each.word == word:
                return each
        raise ConfigError(f"the role {word!r} is not one of {', '.join(each.word for each in cls)}")


@attrs.frozen
class User:
    """A visitor whose identity is known."""

    name: str
    role: Role
    session: str = ""  # key of the limits of one session; empty for a visitor without limits
    by_browser: bool = True  # whether a browser sends the credentials by itself, so that forms need a token


class Account(NamedTuple):
    """The role of a user, and the version of its credentials."""

    role: str  # the word of a `Role`
    version: str  # changes when sessions of the user have to end, such as with the password


class Users(Protocol):
    """Names, passwords and roles, for example from a cluster's access control.

    The console has its own sessions, tokens, limits and log-in page. Implementations need not import the console: an
    account is any pair of the role's word and a version.
    """

    async def account(self, name: str) -> Account | None:
        """Return the account, or None if there is no such user. Called for every request."""

    async def verified(self, name: str, password: str) -> bool:
        """Return whether the user exists and has this password; both answers must take the same time."""


class Identities(Protocol):
    """Decides who sent a request."""

    async def user_of(self, request: Request) -> User | None:
        """Return the user of *request*, or None if the visitor has to log in."""

    def login_path(self) -> str | None:
        """Return the path of the page to log in, or None if there is none, such as behind a proxy."""

    def sessions_of(self, name: str) -> int:
        """Return how many sessions the user has; 0 if there are none to end."""

    def log_out(self, request: Request, *, everywhere: bool) -> None:
        """End the session of *request*, or all sessions of its user."""


@attrs.frozen
class Everyone:
    """Every visitor is the same user: a console without log-in, on a loopback address only."""

    user: User = User("local", Role.ADMIN)

    async def user_of(self, request: Request) -> User | None:
        """Return the one user."""
        return attrs.evolve(self.user, by_browser=False) if _by_program(request) else self.user

    def login_path(self) -> str | None:
        """Return None: there is no log-in."""
        return None

    def sessions_of(self, name: str) -> int:
        """Return 0: there are no sessions."""
        return 0

    def log_out(self, request: Request, *, everywhere: bool) -> None:
        """Do nothing."""


def _by_program(request: Request) -> bool:
    """Return whether no page of another site can have sent the request: JSON, and nothing that browsers add.

    Browsers send JSON to another site only after asking it (CORS), which the console refuses, and name the page
    in `Origin` with every POST. A page whose name was bound to this address (DNS rebinding) is of the same site for the
    browser, but not for the check of `Host`.
    """
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_bare = not any(name in ("origin", "referer", "cookie") or name.startswith("sec-fetch-") for name in headers)
    return bool(request.scope.get("gantrymq.api")) and kind == "application/json" and is_bare
