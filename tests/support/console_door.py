"""A console with log-in, for tests: its users, its sessions, and a clock that the test moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from console_visitor import Page, Visitor
from manual_clock import ManualClock

from gantrymq.world.real import RealFiles
from gantrymq_console.access.accounts import Accounts
from gantrymq_console.access.exposure import Exposure
from gantrymq_console.access.passwords import Checker, digest_of
from gantrymq_console.access.sessions import Rates
from gantrymq_console.access.users import (
    TOKEN_PREFIX,
    FileUsers,
    Role,
    StoredToken,
    StoredUser,
    UserTable,
    token_digest,
    write_users,
)

COST = 16  # of scrypt; the default takes 0.1 s
PASSWORD = "correct horse"
TOKEN = TOKEN_PREFIX + "x" * 43


def make_users(folder: Path) -> None:
    """Write a file with the administrator ann, the viewer vic, and a token of a reader."""
    roles = {"ann": Role.ADMIN, "vic": Role.VIEWER}
    users = {name: StoredUser(role, digest_of(PASSWORD, COST)) for name, role in roles.items()}
    save(folder, UserTable(users, {"ci": StoredToken(Role.READER, token_digest(TOKEN), 2**50)}))


def save(folder: Path, table: UserTable) -> None:
    """Replace the file of users."""
    write_users(RealFiles(), folder, table)


class Door:
    """A console with log-in for the cluster of *running*; use it as a context manager."""

    def __init__(self, running: Any, folder: Path, exposure: Exposure | None = None, **options: Any) -> None:
        self.visitor = Visitor(running, exposure=exposure)
        self.clock = ManualClock()
        world = attrs.evolve(running.cluster.world, clock=self.clock)
        users = FileUsers(world, folder, Checker(world.workers, COST))
        self.accounts = Accounts(world, users, users.user_of_token, **options)
        self.visitor.identities = self.accounts

    def __enter__(self) -> Door:
        self.visitor.__enter__()
        self.visitor.app._rates = Rates(self.clock)
        return self

    def __exit__(self, *problem: object) -> None:
        self.visitor.__exit__(*problem)

    def log_in(self, name: str = "ann", password: str = PASSWORD, to: str = "/topics", at: str = "") -> Page:
        """Open the page to log in below *at*, and send its form."""
        return self.visitor.submit(self.visitor.get(f"{at}/login?to={to}"), "/login", name=name, password=password)

    @property
    def cookie(self) -> str | None:
        """The browser's id without HTTPS."""
        return self.visitor.cookies.get("gantrymq-8088")
