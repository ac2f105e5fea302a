"""Links over the connections of the world, with TLS if the settings ask for it.

With haTlsEnable both sides use the certificates of the ``tls.`` settings: the master as a server, which may require a
certificate of its slaves (tls.server.need.client.auth), and the slave as a client. With haSecretPath both then prove
that they know its secret (`secret_proof`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.plugin.network import TlsTransport, admission_of, tls_client
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import Clock, Timer, World
from gantrymq_replication.link import Connected, Link, speaks_http
from gantrymq_replication.secret_proof import identify_master, identify_slave, read_secret

_NotSecured = Callable[[str, str], object]  # called with host and reason

_HANDSHAKE_S: Final = 5.0
_CONNECT_S: Final = 5.0


class Silence:
    """Calls *ended* once nothing was heard of the peer for *limit_s* seconds."""

    def __init__(self, clock: Clock, limit_s: float, ended: Callable[[], None]) -> None:
        self._clock, self._limit_s, self._ended = clock, limit_s, ended
        self.heard_at = clock.monotonic()
        self._timer = clock.call_later(limit_s, self._check)

    def heard(self) -> None:
        """Begin again. A timer that is due later is left as it is, because this is called for every read."""
        self.heard_at = self._clock.monotonic()

    def cancel(self) -> None:
        """End it without a call."""
        self._timer.cancel()

    def _check(self) -> None:
        left = self.heard_at + self._limit_s - self._clock.monotonic()
        if left > 0:
            self._timer = self._clock.call_later(left, self._check)
        else:
            self._ended()


class _Secured(asyncio.Protocol):
    """Puts TLS between a new socket and *above*."""

    def __init__(
        self,
        above: Link,
        context: ssl.SSLContext,
        clock: Clock,
        refused: _NotSecured | None = None,
        http: Callable[[str], object] | None = None,
    ) -> None:
        """Only a server has *refused*, called without a handshake, and *http*, called for an HTTP request instead."""
        self._above, self._context, self._clock, self._refused, self._http = above, context, clock, refused, http
        self._first = b""  # bytes of a server's peer before the handshake
        self.settled: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Begin the handshake."""
        self._host = str((transport.get_extra_info("peername") or ["?"])[0])
        secured = TlsTransport(
            transport,
            self._above,
            self._context,
            server_side=self._refused is not None,
            clock=self._clock,
            timeout_s=_HANDSHAKE_S,
            settled=self._settle,
            failed=lambda problem: None,
        )
        self.transport = secured
        if self._http is None:
            secured.start()

    def data_received(self, data: bytes) -> None:
        """Begin the handshake of a slave, whose time limit has begun; close a connection that speaks HTTP."""
        self._first += data
        spoken = speaks_http(self._first)
        if spoken and self._http is not None:
            self._http(self._host)
            self._refused = None
            self.transport.abort()
        elif spoken is not None:
            self.transport.start(self._first)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on that the connection ended before its first bytes."""
        self.transport.connection_lost(exc)

    def _settle(self, problem: str | None) -> None:
        if problem is None:
            self._above.connection_made(self.transport)
        elif self._refused is not None:
            self._refused(self._host, problem)
        if not self.settled.done():
            self.settled.set_result(problem)


class HaStreams:
    """Makes the links of one broker."""

    def __init__(self, world: World, settings: Settings) -> None:
        """Read the secret, and the certificates if TLS is to be used. Raises ConfigError."""
        self._world = world
        path = settings.text("haSecretPath")
        self._secret = read_secret(world.files, path) if path else b""
        self._server: Callable[[], ssl.SSLContext] | None = None
        self._client: ssl.SSLContext | None = None
        if settings.flag("haTlsEnable"):
            try:
                self._server = admission_of(settings, world.clock, world.files).tls_context
                self._server()
            except RemoteProtocolError as error:
                raise ConfigError(f"haTlsEnable=true: {error}") from error
            self._client = tls_client(settings).context()

    def accepting(
        self, connected: Connected, refused: _NotSecured, http: Callable[[str], object]
    ) -> Callable[[], asyncio.BaseProtocol]:
        """Return the protocols of a listener.

        They call *connected* for each connection, in a task, or *refused* with host and reason if there is no TLS.
        With TLS, they call *http* with the host for a connection that speaks HTTP; without, its link has `is_http`.
        """

        def factory() -> asyncio.BaseProtocol:
            link = Link(connected)
            return link if self._server is None else _Secured(link, self._server(), self._world.clock, refused, http)

        return factory

    @property
    def identifies(self) -> bool:
        """Whether slaves prove who they are, or connect with TLS."""
        return bool(self._secret) or self._server is not None

    async def identify(self, link: Link) -> None:
        """Exchange proofs with a slave that has connected, if there is a secret.

        Raises:
            Refused: it does not know the secret.
        """
        if self._secret:
            await identify_slave(link, self._secret, self._world)

    async def connect(self, host: str, port: int) -> Link:
        """Connect within `_CONNECT_S`, and exchange proofs with the master if there is a secret.

        Raises:
            OSError: no connection, or no TLS.
            Refused: the master does not know the secret.
        """
        link = await self._connect_in_time(host, port)
        if self._secret:
            try:
                await identify_master(link, self._secret, self._world)
            except BaseException:
                link.abort()
                raise
        return link

    async def _connect_in_time(self, host: str, port: int) -> Link:
        task = asyncio.ensure_future(self._connect(host, port))
        timer: Timer = self._world.clock.call_later(_CONNECT_S, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                task.cancel()
                raise
            raise ConnectionError(f"no answer within {_CONNECT_S:g} s") from None
        finally:
            timer.cancel()

    async def _connect(self, host: str, port: int) -> Link:
        link, context = Link(), self._client
        if context is None:
            await self._world.network.connect(host, port, lambda: link)
            return link
        secured = _Secured(link, context, self._world.clock)
        below, _ = await self._world.network.connect(host, port, lambda: secured)
        try:
            problem = await secured.settled
        except BaseException:
            below.abort()
            raise
        if problem is not None:
            raise ConnectionError(f"{problem}; haTlsEnable must be the same on both")
        return link
