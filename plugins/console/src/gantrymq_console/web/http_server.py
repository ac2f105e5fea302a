"""HTTP/1.1 over a world's network: uvicorn's protocol with h11 and time limits, without uvicorn's server.

uvicorn's `Server` opens sockets itself and takes over the signals of the process, which belong to the broker here.

A request's head, its body, and the browser's reading of a response each have a time limit, so that slow peers cannot
occupy all connections.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from email.utils import formatdate
from typing import Any, Final, cast

import attrs
import h11
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from gantrymq.plugin.client import within
from gantrymq.plugin.network import Certificates, TlsTransport, connections_within
from gantrymq.plugin.world import Clock, Listener, Timer, World

log = logging.getLogger(__name__)

_JOINED_BYTES: Final = 64 * 1024
_REFUSAL_LOG_S: Final = 60.0  # one line about refused connections in this time
_SPARE_DESCRIPTORS: Final = 100  # of a console alone: for files, and connections to servers
_SHARE_IN_BROKER: Final = 1 / 16  # of descriptors; the broker takes 5/8 for connections, a name server 1/8
_CONNECTIONS_IN_BROKER: Final = 100
_PER_ADDRESS_IN_BROKER: Final = 20  # a browser opens 6
_SLOW_S: Final = 1.0  # from the first byte to the end of a head, after which another connection may replace it
_BUSY_S: Final = 1.0
_STOP_S: Final = 3.0  # running requests may finish within this time


def _never(_address: str) -> bool:
    return False


@attrs.frozen
class Limits:
    """Limits of connections."""

    connections: int = 1000  # further ones are closed at once
    per_address: int = 100  # connections of one peer's address
    is_proxy: Callable[[str], bool] = _never  # addresses without the limit per address, as many visitors share them
    keep_alive_s: int = 15  # between two requests
    head_s: float = 10.0  # from the first byte, or the connection, to the end of the head; also of the TLS handshake
    body_s: float = 60.0  # from the end of the head to the end of the body
    write_s: float = 60.0  # without progress of a response that the peer does not read
    head_bytes: int = 64 * 1024


class ConnectionLimiter:
    """Admits connections within the limits. Refusals are logged, at most one line per minute.

    A connection that waits for another request makes room for a new one, so that browsers, which keep connections open
    without need, do not lock out others, or a probe. So does one whose first bytes take long, if none waits.
    """

    def __init__(self, limits: Limits, connections: Collection[Any], clock: Clock) -> None:
        """Create it; *connections* are the open `Connection` objects."""
        self._limits = limits
        self._connections = connections
        self._clock = clock
        self._logged_at = -_REFUSAL_LOG_S
        self._unlogged = 0

    def admits(self, address: str) -> bool:
        """Return whether one more connection from *address* is within the limits."""
        limits = self._limits
        if not limits.is_proxy(address):
            of_peer = [each for each in self._connections if each.peer == address]
            if len(of_peer) >= limits.per_address and not self._make_room(of_peer):
                self._log_refusal(f"{address} refused: it has {len(of_peer)} connections, the limit of one address")
                return False
        if len(self._connections) >= limits.connections and not self._make_room(self._connections):
            self._log_refusal(f"{address} refused: {limits.connections} connections are open, which is the limit")
            return False
        return True

    def _make_room(self, connections: Iterable[Connection]) -> bool:
        """Close the connection that has waited for a request for longest, or for the rest of one. Return False if none
        has, so that all are in use."""
        listed, now = list(connections), self._clock.monotonic()
        waiting = [each for each in listed if each.is_idle]
        waiting = waiting or [each for each in listed if each.is_beginning and now - each.waits_since >= _SLOW_S]
        if waiting:
            min(waiting, key=lambda each: each.waits_since).give_up()
        return bool(waiting)

    def _log_refusal(self, text: str) -> None:
        now = self._clock.monotonic()
        if now - self._logged_at < _REFUSAL_LOG_S:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more were refused since the line before)" if self._unlogged else ""
        log.warning("console: a connection from %s%s", text, more)
        self._logged_at, self._unlogged = now, 0


class _Joined:
    """A transport that sends all writes of one step of the loop together, such as head and body of a response.

    A write to the network takes longer than everything else for a small response.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._parts = bytearray()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are not sent yet."""
        return len(self._parts) + int(self._transport.get_write_buffer_size())

    def write(self, data: bytes) -> None:
        """Send soon."""
        if data and not self._parts:
            asyncio.get_running_loop().call_soon(self._send)
        self._parts += data
        if len(self._parts) >= _JOINED_BYTES:
            self._send()

    def close(self) -> None:
        """Send the pending bytes, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._parts:
            data, self._parts = self._parts, bytearray()
            self._transport.write(data)


class Connection(H11Protocol):
    """One connection."""

    def __init__(
        self, config: Config, state: ServerState, clock: Clock, limits: Limits, limiter: ConnectionLimiter, *, tls: bool
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self.peer = ""  # IP address
        self._clock = clock
        self._limits = limits
        self._limiter = limiter
        self._tls = tls
        self._begun = False  # after the TLS handshake
        self._stage = ""  # part that the peer is sending: "head", "body", or nothing
        self._reading: Timer | None = None
        self._writing: Timer | None = None
        self.waits_since = clock.monotonic()  # the end of the last response, or the beginning of a head; monotonic

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for another request, and the peer has read all of the last response."""
        finished = self.cycle is not None and self.cycle.response_complete
        return finished and not self._stage and not self.transport.get_write_buffer_size()

    @property
    def is_beginning(self) -> bool:
        """Whether the peer has not sent the whole head of a request, or is in the TLS handshake."""
        return not self._begun or self._stage == "head"

    def give_up(self) -> None:
        """Close the connection and count it no more."""
        self.connections.discard(self)
        self.transport.abort()

    def admit(self, transport: Any) -> bool:
        """Count this connection over *transport*. Return False if there are too many."""
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""
        admitted = self._limiter.admits(self.peer)
        self.connections.add(self)
        return admitted

    def connection_made(self, transport: Any) -> None:
        """Begin, or close at once if there are too many connections."""
        self._begun = True
        admitted = self in self.connections or self.admit(transport)  # with TLS: counted before the handshake
        super().connection_made(cast("asyncio.Transport", _Joined(transport)))
        if self._tls:
            self.scheme = "https"
        if admitted:
            self._watch()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the peer."""
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self.waits_since = self._clock.monotonic()
        self._watch()

    def pause_writing(self) -> None:
        """Limit the time until the peer reads on."""
        super().pause_writing()
        self._writing = self._clock.call_later(self._limits.write_s, self._expire)

    def resume_writing(self) -> None:
        """End the limit of `pause_writing`."""
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the limits and the tasks of the peer. Also called if the TLS handshake failed."""
        self._set_stage("")
        if self._writing is not None:
            self._writing.cancel()
        if self._begun:
            super().connection_lost(exc)
        else:
            self.connections.discard(self)

    def _watch(self) -> None:
        """Limit the time of the part that the peer is sending now. Bytes that trickle in do not extend it."""
        idle = self.cycle is not None and not self.conn.trailing_data[0]
        state = self.conn.their_state
        self._set_stage("head" if state is h11.IDLE and not idle else "body" if state is h11.SEND_BODY else "")

    def _set_stage(self, stage: str) -> None:
        if stage == self._stage:
            return
        self._stage = stage
        if self._reading is not None:
            self._reading.cancel()
        if stage == "head":
            self.waits_since = self._clock.monotonic()
        limit_s = self._limits.head_s if stage == "head" else self._limits.body_s
        self._reading = self._clock.call_later(limit_s, self._expire) if stage else None

    def _expire(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


def accept_tls(connection: Connection, certificates: Certificates, clock: Clock, limits: Limits) -> asyncio.Protocol:
    """Return the protocol of a socket that speaks TLS; *connection* begins after the handshake."""
    return _Handshake(connection, certificates, clock, limits)


class _Handshake(asyncio.Protocol):
    def __init__(self, connection: Connection, certificates: Certificates, clock: Clock, limits: Limits) -> None:
        self._connection = connection
        self._certificates = certificates
        self._clock = clock
        self._limits = limits

    def connection_made(self, transport: Any) -> None:
        if not self._connection.admit(transport):
            self._connection.connections.discard(self._connection)
            transport.abort()
            return

        def settled(problem: str | None) -> None:
            if problem is None:
                self._connection.connection_made(tls)
            else:
                log.info("%s: %s", transport.get_extra_info("peername"), problem)

        tls = TlsTransport(
            transport,
            self._connection,
            self._certificates.context(),
            server_side=True,
            clock=self._clock,
            timeout_s=self._limits.head_s,
            settled=settled,
            failed=lambda problem: log.info("%s: %s", transport.get_extra_info("peername"), problem),
        )
        self._connection.transport = tls
        tls.start()


def limits_alone(descriptors: int, is_proxy: Callable[[str], bool]) -> Limits:
    """Return the limits of a console in its own process, which may open *descriptors* files and sockets."""
    limits = Limits()
    most = max(1, min(limits.connections, descriptors - _SPARE_DESCRIPTORS))
    return Limits(connections=most, per_address=_per_address(limits.per_address, most), is_proxy=is_proxy)


def limits_in_broker(descriptors: int) -> Limits:
    """Return the limits of a console in a broker's process, so that visitors take no descriptor the broker needs."""
    most = connections_within(descriptors, _SHARE_IN_BROKER, _CONNECTIONS_IN_BROKER)
    return Limits(connections=most, per_address=_per_address(_PER_ADDRESS_IN_BROKER, most))


def _per_address(wanted: int, connections: int) -> int:
    """Return the limit of one address: at most half of all, so that it cannot lock the others out."""
    return min(wanted, max(1, connections // 2))


class HttpServer:
    """Serves one ASGI application on one port."""

    def __init__(
        self, app: ASGIApp, world: World, certificates: Certificates | None = None, limits: Limits | None = None
    ) -> None:
        """Create it; *certificates* for HTTPS."""
        self._world = world
        self._certificates = certificates
        self._limits = limits or Limits()
        self._config = Config(
            _limited_heads(app, self._limits.head_bytes),
            interface="asgi3",
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=self._limits.keep_alive_s,
            h11_max_incomplete_event_size=self._limits.head_bytes,
        )
        self._config.load()
        self._state = ServerState()
        self._limiter = ConnectionLimiter(self._limits, self._state.connections, world.clock)
        self._listener: Listener | None = None
        self._date: Timer | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the bound address. Raises OSError: the port is in use or the address is not local."""
        self._listener = await self._world.network.listen(host, port, self._protocol)
        self._set_date()
        return self._listener.address

    async def idle(self) -> None:
        """Wait until no request is served, at most `_BUSY_S`."""
        if self._state.tasks:
            await within(self._world.clock, _BUSY_S, asyncio.wait(set(self._state.tasks)))

    async def stop(self) -> None:
        """Stop listening, let running requests finish for a short time, and close all connections. Idempotent."""
        listener, self._listener = self._listener, None
        if self._date is not None:
            self._date.cancel()
        if listener is not None:
            await listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await within(self._world.clock, _STOP_S, asyncio.wait(set(self._state.tasks)))
            for each in self._state.tasks:
                each.cancel()
            await asyncio.gather(*self._state.tasks, return_exceptions=True)
        for connection in list(self._state.connections):
            connection.transport.close()

    def _protocol(self) -> asyncio.Protocol:
        clock, certificates = self._world.clock, self._certificates
        connection = Connection(
            self._config, self._state, clock, self._limits, self._limiter, tls=certificates is not None
        )
        return connection if certificates is None else accept_tls(connection, certificates, clock, self._limits)

    def _set_date(self) -> None:
        now = self._world.clock.now_ms() / 1000
        self._state.default_headers = [(b"date", formatdate(now, usegmt=True).encode())]
        self._date = self._world.clock.call_later(1.0, self._set_date)


def _limited_heads(app: ASGIApp, most_bytes: int) -> ASGIApp:
    """Return *app* behind a check of the size of heads: h11 has one only for heads that arrive in parts."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            size = len(scope["raw_path"]) + len(scope["query_string"])
            size += sum(len(name) + len(value) for name, value in scope["headers"])
            if size > most_bytes:
                too_large = PlainTextResponse("The head of the request is too large.\n", 431, {"Connection": "close"})
                await too_large(scope, receive, send)
                return
        await app(scope, receive, send)

    return limited
