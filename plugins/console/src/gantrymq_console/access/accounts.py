"""Visitors of a console with log-in: sessions, API tokens, users named by a proxy, the one-time link.

Authorization: Bearer gmqc_...   an API token of the users' file
X-Forwarded-User: ann            a user named by a trusted proxy, if that is configured
Cookie                           a session, begun with a password or with the one-time link
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

import attrs
from starlette.requests import Request

from gantrymq.client import Credentials
from gantrymq.plugin.world import World
from gantrymq_console.access.sessions import Attempts, Sessions, network_of
from gantrymq_console.access.users import NAME, TOKEN_PREFIX, Role, User, Users

_LINK_USER: Final = "local"
_LINK_VERSION: Final = "link"
_NEW_LINK_S: Final = 60.0  # time between two new links
MAX_PASSWORD_CHARS: Final = 1024


class LogInFailed(Exception):
    """A log-in is refused.

    Attributes:
        wait_s: seconds after which another attempt is allowed; 0 for now.
        obstacle: why nobody can log in: "unreachable", "unguarded"; empty: the name or the password is wrong.
    """

    def __init__(self, wait_s: float = 0.0, obstacle: str = "") -> None:
        super().__init__(wait_s, obstacle)
        self.wait_s = wait_s
        self.obstacle = obstacle


@attrs.frozen
class ProxyUsers:
    """Users that a trusted proxy names in a header."""

    header: str  # in lower case
    role: Role | None = None  # of names without an account; None: they are refused


class Accounts:
    """The `Identities` of a console with log-in."""

    def __init__(
        self,
        world: World,
        users: Users,
        user_of_token: Callable[[str], User | None],
        *,
        proxy: ProxyUsers | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        """Create it.

        Args:
            users: names, passwords and roles.
            user_of_token: returns the user of an API token.
            proxy: users that a trusted proxy names.
            announce: shows a one-time code to the one who started the console; None: there are no one-time codes.
        """
        self.sessions = Sessions(world.clock)
        self._clock = world.clock
        self._users = users
        self._user_of_token = user_of_token
        self._proxy = proxy
        self._attempts = Attempts(world.clock)
        self._announce = announce
        self._code = ""
        self._code_s = 0.0  # when it was made

    # --- Identities ---

    async def user_of(self, request: Request) -> User | None:
        """Return the user of *request*."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._user_of_token(token.strip()) if token.strip().startswith(TOKEN_PREFIX) else None
        if self._proxy is not None:
            return await self._named_by_proxy(request, self._proxy)
        return await self._of_session(request.scope.get("gantrymq.browser", ""))

    def login_path(self) -> str | None:
        """Return the path of the page to log in."""
        return "login" if self._proxy is None else None

    def sessions_of(self, name: str) -> int:
        """Return how many sessions the user has."""
        return self.sessions.count(name)

    def log_out(self, request: Request, *, everywhere: bool) -> None:
        """End the session of *request*, or all sessions of its user."""
        found = self.sessions.find(request.scope.get("gantrymq.browser", ""))
        if found is not None and everywhere:
            self.sessions.end_all(found.name)
        self.sessions.end(request.scope.get("gantrymq.browser", ""))
        request.scope["gantrymq.browser"] = secrets.token_hex(32)

    # --- log-in ---

    @property
    def with_link(self) -> bool:
        """Whether one logs in with a one-time link."""
        return self._announce is not None

    def new_code(self) -> str:
        """Return a new one-time code, which replaces the one before."""
        self._code, self._code_s = secrets.token_urlsafe(32), self._clock.monotonic()
        return self._code

    def offer_code(self) -> None:
        """Announce a new code if the last one was used, at most once a minute."""
        if self._announce is not None and not self._code and self._clock.monotonic() - self._code_s >= _NEW_LINK_S:
            self._announce(self.new_code())

    async def log_in(self, request: Request, name: str, password: str) -> str:
        """Begin a session, and return the user's name. Raises LogInFailed, TooBusy."""
        keys = (f"address {network_of(request.scope['gantrymq.address'])}", f"name {name[:64]}")
        self._start(*keys)
        session = await self._session_of(name, password)
        if session is None:
            raise LogInFailed
        self._attempts.succeeded(*keys)
        self._begin(request, *session)
        return name

    async def _session_of(self, name: str, password: str) -> tuple[str, str, Credentials | None] | None:
        """Return the name, version and credentials of a new session; None: the name or the password is wrong."""
        fits = NAME.fullmatch(name) and len(password) <= MAX_PASSWORD_CHARS
        known = await self._users.verified(name if fits else "", password if fits else "")
        account = await self._users.account(name) if known and fits else None
        return None if account is None else (name, account[1], None)

    def use_code(self, request: Request, code: str) -> str:
        """Begin a session with a one-time code, and return the user's name. Raises LogInFailed."""
        key = f"address {network_of(request.scope['gantrymq.address'])}"
        self._start(key)
        if not self._code or not hmac.compare_digest(code.encode("utf-8", "surrogatepass"), self._code.encode()):
            raise LogInFailed
        self._attempts.succeeded(key)
        self._code = ""
        self._begin(request, _LINK_USER, _LINK_VERSION)
        return _LINK_USER

    def _start(self, *keys: str) -> None:
        wait_s = self._attempts.start(*keys)
        if wait_s > 0:
            raise LogInFailed(wait_s)

    def _begin(self, request: Request, name: str, version: str, credentials: Credentials | None = None) -> None:
        """Give the browser a new id, which is the session's: an id from before the log-in is worth nothing."""
        self.sessions.end(request.scope.get("gantrymq.browser", ""))
        request.scope["gantrymq.browser"] = self.sessions.begin(name, version, credentials)

    async def _of_session(self, session_id: str) -> User | None:
        found = self.sessions.find(session_id)
        if found is None:
            return None
        if found.version == _LINK_VERSION and self._announce is not None:
            return User(_LINK_USER, Role.ADMIN, session_key(session_id))
        account = await self._users.account(found.name)
        if account is None or account[1] != found.version:
            self.sessions.end(session_id)
            return None
        return User(found.name, Role.of(account[0]), session_key(session_id))

    async def _named_by_proxy(self, request: Request, proxy: ProxyUsers) -> User | None:
        names = request.headers.getlist(proxy.header) if request.scope["gantrymq.by_proxy"] else []
        if len(names) != 1 or not NAME.fullmatch(names[0]):
            return None
        account = await self._users.account(names[0])
        role = Role.of(account[0]) if account is not None else proxy.role
        return User(names[0], role, f"proxy:{names[0]}") if role is not None else None


def session_key(session_id: str) -> str:
    """Return a name for the session that may be shown."""
    return hashlib.sha256(session_id.encode()).hexdigest()[:16]
