"""Users, their roles, and the interfaces by which the console learns who a visitor is.

The file of users and API tokens is ``users.json`` in the console's folder::

    {"version": 1,
     "users":  {"ann": {"role": "admin", "password": "scrypt:..."}},
     "tokens": {"backup": {"role": "viewer", "digest": "<SHA-256 of the token>", "until_ms": 1790000000000}}}

A user without a password can only be named by a trusted proxy. Commands replace the file; a running console reads it
again when it has changed, so a removed user, a new role or a new password counts from the next request.
"""

from __future__ import annotations

import enum
import hashlib
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

import attrs
from starlette.requests import Request

from gantrymq.client import Credentials
from gantrymq.errors import ConfigError
from gantrymq.plugin.settings import HIDDEN
from gantrymq.plugin.world import FileReader, FileTree, World
from gantrymq_console.access.passwords import Checker, is_digest

_SECRET: Final = re.compile(
    r"password|passwd|passphrase|secret|access_?key|token|credential|private_?key", re.IGNORECASE
)
_FILE: Final = "users.json"
TOKEN_PREFIX: Final = "gmqc_"
NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_RECHECK_S: Final = 1.0  # a change of the file is noticed within this time


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
    credentials: Credentials | None = None  # with which all requests to the cluster are signed; None: the console's


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


def is_secret(key: str) -> bool:
    """Return whether the setting *key* holds a secret, judged by its name."""
    return _SECRET.search(key) is not None


def mask(key: str, value: str) -> str:
    """Return *value*, or asterisks if *key* holds a secret that is set."""
    return HIDDEN if value and is_secret(key) else value


log = logging.getLogger(__name__)


@attrs.frozen
class StoredUser:
    """A user in the file."""

    role: Role
    password: str = attrs.field(default="", repr=False)  # digest; empty: cannot log in with a password


@attrs.frozen
class StoredToken:
    """An API token in the file."""

    role: Role
    digest: str = attrs.field(repr=False)  # SHA-256, in hexadecimal
    until_ms: int  # wall time after which it is refused


@attrs.frozen
class UserTable:
    """The content of the file."""

    users: Mapping[str, StoredUser] = attrs.field(factory=dict)
    tokens: Mapping[str, StoredToken] = attrs.field(factory=dict)

    def with_password(self) -> list[str]:
        """Return the names of users who can log in with a password."""
        return [name for name, each in self.users.items() if each.password]


def check_name(name: str) -> str:
    """Return the name of a user or token. Raises ConfigError: it has other characters than names may have."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"the name {name!r} is not 1 to 64 letters, digits, or characters of _ . @ -")
    return name


def read_users(files: FileReader, folder: Path) -> UserTable:
    """Return the table in *folder*, empty if there is no file. Raises ConfigError: it cannot be used."""
    path = folder / _FILE
    try:
        given = json.loads(files.read(path))
        if given["version"] != 1:
            raise ValueError(f"version {given['version']}, expected 1")
        return UserTable(
            {check_name(name): _user(each) for name, each in given["users"].items()},
            {check_name(name): _token(each) for name, each in given["tokens"].items()},
        )
    except FileNotFoundError:
        return UserTable()
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror or problem}") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ConfigError(f"{path} is not a file of users: {type(problem).__name__}: {problem}") from problem


def write_users(files: FileTree, folder: Path, table: UserTable) -> None:
    """Replace the file atomically. The caller's umask must be 077. Raises ConfigError: it cannot be written."""
    document = {
        "version": 1,
        "users": {
            name: {"role": each.role.word, "password": each.password} for name, each in sorted(table.users.items())
        },
        "tokens": {
            name: {"role": each.role.word, "digest": each.digest, "until_ms": each.until_ms}
            for name, each in sorted(table.tokens.items())
        },
    }
    try:
        files.make_dirs(folder)
        files.replace(folder / _FILE, json.dumps(document, indent=1).encode() + b"\n")
    except OSError as problem:
        raise ConfigError(f"{folder / _FILE}: {problem.strerror or problem}") from problem


def token_digest(token: str) -> str:
    """Return the digest of a token that the file stores. A token is 256 random bits, so a fast digest is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class FileUsers:
    """Users and tokens of the file, for a running console."""

    def __init__(self, world: World, folder: Path, checker: Checker) -> None:
        """Read the file. Raises ConfigError: it cannot be used."""
        self._world = world
        self._folder = folder
        self._checker = checker
        self._state = self._stat()
        self._checked_s = world.clock.monotonic()
        self._take(read_users(world.files, folder))

    @property
    def table(self) -> UserTable:
        """The content of the file now. While the file is unusable, no user is known."""
        now_s = self._world.clock.monotonic()
        if now_s - self._checked_s >= _RECHECK_S:
            self._checked_s = now_s
            state = self._stat()
            if state != self._state:
                self._state = state
                try:
                    self._take(read_users(self._world.files, self._folder))
                except ConfigError as problem:
                    log.error("no user can log in: %s", problem)
                    self._take(UserTable())
        return self._table

    async def account(self, name: str) -> Account | None:
        """Return the role of a user, and a text that changes with the password."""
        found = self.table.users.get(name)
        return Account(found.role.word, token_digest(found.password)) if found is not None else None

    async def verified(self, name: str, password: str) -> bool:
        """Return whether the user exists and has this password. Raises TooBusy."""
        found = self.table.users.get(name)
        return await self._checker.matches(password, found.password if found is not None else "")

    def user_of_token(self, token: str) -> User | None:
        """Return the user of a token, or None if the token is unknown or has expired."""
        name = self._tokens.get(token_digest(token)) if self.table else None
        if name is None or self._table.tokens[name].until_ms <= self._world.clock.now_ms():
            return None
        return User(f"token:{name}", self._table.tokens[name].role, f"token:{name}", by_browser=False)

    def _take(self, table: UserTable) -> None:
        self._table = table
        self._tokens = {each.digest: name for name, each in table.tokens.items()}

    def _stat(self) -> Any:
        return self._world.files.stat(self._folder / _FILE)


def _user(given: Any) -> StoredUser:
    password = given["password"]
    if password and not is_digest(password):
        raise ValueError("a password that is not a digest")
    return StoredUser(Role.of(given["role"]), password)


def _token(given: Any) -> StoredToken:
    return StoredToken(Role.of(given["role"]), str(given["digest"]), int(given["until_ms"]))
