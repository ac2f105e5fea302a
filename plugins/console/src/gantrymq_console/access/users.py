"""Users, their roles, and the interface by which the console learns who a visitor is."""

from __future__ import annotations

import enum
from typing import Protocol

import attrs
from starlette.requests import Request

__all__ = ["Everyone", "Identities", "Role", "User"]


class Role(enum.IntEnum):
    """What a user may do. Each role includes those before it."""

    VIEWER = 1  # everything except message bodies
    READER = 2  # also message bodies
    OPERATOR = 3  # also changes that can be undone: sends, resets, new topics and groups
    ADMIN = 4  # also deletions, settings and users

    @property
    def word(self) -> str:
        """The role's name in settings, texts and JSON."""
        return self.name.lower()


@attrs.frozen
class User:
    """A visitor whose identity is known."""

    name: str
    role: Role


class Identities(Protocol):
    """Decides who sent a request. Access control of a cluster may offer its own implementation."""

    async def user_of(self, request: Request) -> User | None:
        """Return the user of *request*, or None if the visitor has to log in."""

    def login_path(self) -> str | None:
        """Return the address of the page to log in, or None if there is none, such as behind a proxy."""


@attrs.frozen
class Everyone:
    """Every visitor is the same user: a console without log-in, on a loopback address only."""

    user: User = User("local", Role.ADMIN)

    async def user_of(self, request: Request) -> User | None:
        """Return the one user."""
        return self.user

    def login_path(self) -> str | None:
        """Return None: there is no log-in."""
        return None
