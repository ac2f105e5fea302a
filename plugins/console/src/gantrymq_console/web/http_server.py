"""HTTP/1.1 over a world's network: uvicorn's protocol with h11, without uvicorn's server.

uvicorn's `Server` opens sockets itself and takes over the signals of the process, which belong to the broker here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from gantrymq.client.calls.rpc import within
from gantrymq.plugin.network import Certificates, connections_within
from gantrymq.plugin.world import Listener, Timer, World
from gantrymq_console.web.connections import Connection, ConnectionLimiter, Limits, accept_tls

__all__ = ["HttpServer", "limits_alone", "limits_in_broker"]

SPARE_DESCRIPTORS: Final = 100  # of a console alone: for files, and connections to servers
SHARE_IN_BROKER: Final = 1 / 16  # of descriptors; the broker takes 5/8 for connections, a name server 1/8
CONNECTIONS_IN_BROKER: Final = 100
PER_ADDRESS_IN_BROKER: Final = 20  # a browser opens 6
STOP_S: Final = 3.0  # running requests may finish within this time


def limits_alone(descriptors: int, is_proxy: Callable[[str], bool]) -> Limits:
    """Return the limits of a console in its own process, which may open *descriptors* files and sockets."""
    limits = Limits()
    most = max(1, min(limits.connections, descriptors - SPARE_DESCRIPTORS))
    return Limits(connections=most, per_address=_per_address(limits.per_address, most), is_proxy=is_proxy)


def limits_in_broker(descriptors: int) -> Limits:
    """Return the limits of a console in a broker's process, so that visitors take no descriptor the broker needs."""
    most = connections_within(descriptors, SHARE_IN_BROKER, CONNECTIONS_IN_BROKER)
    return Limits(connections=most, per_address=_per_address(PER_ADDRESS_IN_BROKER, most))


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
            await within(self._world.clock, STOP_S, asyncio.wait(set(self._state.tasks)))
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
