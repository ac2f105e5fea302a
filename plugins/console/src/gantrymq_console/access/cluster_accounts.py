"""Log-in with an account of the cluster, ``--login cluster``.

The visitor's name and secret are proved by a request to a broker that they sign. That a broker answers it proves
something only if it checks signatures, so the same request with another secret must be refused. The secret stays in the
memory of the session, and signs everything that this visitor asks of servers. While the session is used, the proof is
repeated, so that it ends soon after the user was deleted, disabled, or got another secret.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Sequence
from typing import Final

import attrs

from gantrymq.client import Client, Credentials
from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import ClientError, GantryError, NoPermission
from gantrymq.plugin.headers import RequestHeader
from gantrymq.plugin.remoting import RequestCode
from gantrymq.plugin.world import World
from gantrymq_access.administration import UserRequest
from gantrymq_access.records import MAX_NAME
from gantrymq_admin.asking import Asking
from gantrymq_console.access.accounts import MAX_PASSWORD_CHARS, Accounts, LogInFailed, session_key
from gantrymq_console.access.passwords import MOST_WAITING, TooBusy
from gantrymq_console.access.sessions import Session
from gantrymq_console.access.users import Account, Role, User

log = logging.getLogger(__name__)

PROVED_S: Final = 60.0  # after which the credentials of a session in use are proved again
_AT_ONCE: Final = 4  # proofs
_BROKERS: Final = 3  # that are asked, if they do not answer
_VERSION: Final = "cluster"  # of all accounts
# Refusals of users whose signature is right, by RocketMQ 5.3 and 4.4, and by gantrymq-access without policies; brokers
# of ours use the first words for other refusals, too.
_LACKS_PERMISSION: Final = re.compile(
    "has no permission to access|Need admin permission|No default permission|only a Super user"
)
_IS_UNKNOWN: Final = re.compile("signature|not found|is disabled|cannot be null|No acl config", re.IGNORECASE)


class ClusterAccounts(Accounts):
    """The `Identities` of a console whose visitors are users of the cluster. What they may do is up to the cluster."""

    def __init__(self, world: World, namesrv: str) -> None:
        """Create it for the cluster behind these name servers."""
        super().__init__(world, _NoUsers(), lambda _: None)
        self._proof = Proof(world, namesrv)

    async def _session_of(self, name: str, password: str) -> tuple[str, str, Credentials | None] | None:
        is_name = name.strip() and len(name) <= MAX_NAME and name.isprintable() and not _LACKS_PERMISSION.search(name)
        if not (is_name and password.strip() and len(password) <= MAX_PASSWORD_CHARS):
            return None
        credentials = Credentials(name, password)
        return (name, _VERSION, credentials) if await self._proof.is_proved(credentials) else None

    async def _of_session(self, session_id: str) -> User | None:
        found = self.sessions.find(session_id)
        if found is None or found.credentials is None or not await self._is_valid(found, found.credentials):
            self.sessions.end(session_id)
            return None
        return User(found.name, Role.ADMIN, session_key(session_id), credentials=found.credentials)

    async def _is_valid(self, session: Session, credentials: Credentials) -> bool:
        """Return whether the cluster still accepts the credentials; True if it was asked lately, or does not answer."""
        now_s = self._clock.monotonic()
        if now_s - session.proved_s < PROVED_S:
            return True
        session.proved_s = now_s
        try:
            return await self._proof.is_accepted(credentials)
        except (LogInFailed, TooBusy):
            return True


class _NoUsers:
    """The `Users` of a console that has none itself."""

    async def account(self, name: str) -> Account | None:
        return None

    async def verified(self, name: str, password: str) -> bool:
        return False


class Proof:
    """Finds out whether brokers accept credentials, by clients of its own, a few at a time."""

    def __init__(self, world: World, namesrv: str) -> None:
        self._world = world
        self._namesrv = namesrv
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def is_proved(self, credentials: Credentials) -> bool:
        """Return whether a broker accepts the credentials, and not the same name with another secret.

        Raises:
            LogInFailed: no broker answers, or the one that does accepts any secret.
            TooBusy: too many visitors are logging in.
        """
        return await self._in_turn(credentials, is_compared=True)

    async def is_accepted(self, credentials: Credentials) -> bool:
        """Return whether a broker accepts credentials that were proved before. Raises as `is_proved`."""
        return await self._in_turn(credentials, is_compared=False)

    async def _in_turn(self, credentials: Credentials, *, is_compared: bool) -> bool:
        if self._waiting >= MOST_WAITING:
            raise TooBusy
        self._waiting += 1
        try:
            async with self._turn:
                return await self._asked(credentials, is_compared)
        except GantryError as problem:
            log.warning("%r cannot log in: %s", credentials.access_key, problem)
            raise LogInFailed(obstacle="unreachable") from problem
        finally:
            self._waiting -= 1

    async def _asked(self, credentials: Credentials, is_compared: bool) -> bool:
        wrong = attrs.evolve(credentials, secret_key=secrets.token_hex(16))
        async with self._client(credentials) as client, self._client(wrong) as other:
            addresses = await self._addresses(client)
            if addresses is None:
                return False
            for code, header in _requests(credentials.access_key):
                address, refusal = await self._first_answer(client, addresses, code, header)
                if not _accepts(refusal, credentials.access_key):
                    log.info("the log-in of %r was refused: %s", credentials.access_key, refusal)
                    return False
                if not is_compared:
                    return True
                _, of_wrong = await self._first_answer(other, [address], code, header)
                if of_wrong is not None:
                    return str(of_wrong) != str(refusal)
        log.warning("nobody can log in: %s accepts any secret, because it does not control access", address)
        raise LogInFailed(obstacle="unguarded")

    def _client(self, credentials: Credentials) -> Client:
        return Client(self._namesrv, world=self._world, credentials=credentials)

    async def _addresses(self, client: Client) -> list[str] | None:
        """Return the addresses of brokers, masters first; None if the name server refuses the credentials."""
        try:
            info = await Asking(self._world.clock).needed(client.admin.clusters())
        except NoPermission as refusal:
            log.info("a name server refused a log-in: %s", refusal)
            return None
        found = sorted((broker_id, address) for each in info.brokers for broker_id, address in each.addresses.items())
        if not found:
            raise ClientError("no broker is registered at the name servers")
        return [address for _, address in found[:_BROKERS]]

    async def _first_answer(
        self, client: Client, addresses: Sequence[str], code: RequestCode, header: RequestHeader | None
    ) -> tuple[str, NoPermission | None]:
        """Return the broker that answers, and how it refuses the client; None if it does not."""
        for place, address in enumerate(addresses, 1):
            try:
                await Asking(self._world.clock).needed(client.admin.request(address, code, header))
            except NoPermission as refusal:
                return address, refusal
            except RequestNotServed:
                return address, None
            except GantryError:
                if place == len(addresses):
                    raise
            else:
                return address, None
        raise AssertionError("there is at least one address")


def _accepts(refusal: GantryError | None, name: str) -> bool:
    """Return whether a broker knows the user: it answers, or refuses for a permission that the user lacks."""
    text = str(refusal)
    if _IS_UNKNOWN.search(name):  # a user with such a name is part of every refusal
        text = text.replace(name, "")
    return refusal is None or (_LACKS_PERMISSION.search(text) is not None and not _IS_UNKNOWN.search(text))


def _requests(name: str) -> tuple[tuple[RequestCode, RequestHeader | None], ...]:
    """Return the requests that prove a user; the second is for brokers that serve the first to everyone."""
    return (RequestCode.GET_BROKER_CONFIG, None), (RequestCode.AUTH_GET_USER, UserRequest(username=name))
