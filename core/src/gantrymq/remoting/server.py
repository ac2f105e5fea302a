"""Server of the remoting protocol, on one or several ports.

Source of the rules: apache/rocketmq remoting/.../netty/NettyRemotingServer.java.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from gantrymq.errors import ConfigError
from gantrymq.model.hosts import format_address
from gantrymq.remoting.admission import Admission
from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.remoting.connection import Connection, RequestHandler
from gantrymq.remoting.limits import Limits, UnfinishedFrames, UnwrittenBytes
from gantrymq.remoting.listeners import DEFAULT_LISTENER, LISTENERS_SETTING, REMOTING, NamedListener
from gantrymq.world import Listener, World

log = logging.getLogger("gantrymq.remoting")


class OpenConnection(Protocol):
    """A connection that a server holds, counts and closes: a `Connection`, or one of a listener's other protocol."""

    @property
    def address(self) -> str:
        """Address of the peer as ``host:port``."""

    def on_close(self, callback: Callable[[Any], None]) -> None:
        """Call *callback* with the connection when it is closed."""

    def pause_reading(self) -> None:
        """Read nothing before `resume_reading`."""

    def resume_reading(self) -> None:
        """Start to read."""

    def close(self) -> None:
        """Close the connection after writing buffered data."""

    def abort(self) -> None:
        """Close the connection at once."""


class RemotingServer:
    """Accepts connections and passes their requests to *handler*.

    The limits apply to all ports together, also to those with another protocol, whose connections call `opened`.
    """

    def __init__(
        self,
        world: World,
        handler: RequestHandler,
        *,
        limits: Limits | None = None,
        name: str = "server",
        admission: Admission | None = None,
    ) -> None:
        """*admission* decides by the first bytes; the default accepts frames without TLS."""
        self.name = name
        self._admission = admission or Admission()
        self.limits = limits or Limits()
        self._world = world
        self._handler = handler
        self._unfinished = UnfinishedFrames(self.limits.max_unfinished_bytes)
        self._busy_poll = BusyPoll(world, self.limits.busy_poll_s) if self.limits.busy_poll_s else None
        self._unwritten = UnwrittenBytes(self.limits.max_unwritten_total_bytes, world.clock.monotonic)
        self._connections: dict[OpenConnection, None] = {}  # in the order of arrival
        self._listeners: list[tuple[str, Listener]] = []  # with their names
        self._held = False
        self._emptied: asyncio.Event | None = None

    @property
    def connections(self) -> list[OpenConnection]:
        """The open connections, oldest first."""
        return list(self._connections)

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of incomplete frames over all connections."""
        return self._unfinished.total

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of the first listener; None before `start` and after `stop`."""
        return self._listeners[0][1].address if self._listeners else None

    async def start(
        self,
        host: str,
        port: int,
        *,
        held: bool = False,
        listener: str = DEFAULT_LISTENER,
        admission: Admission | None = None,
        connect: Callable[[], asyncio.Protocol] | None = None,
    ) -> tuple[str, int]:
        """Listen and return the address, with the actual port if *port* is 0. May be called for several ports.

        With *held* clients can connect, but their requests wait until `release`.

        Args:
            listener: name of the listener, which its connections have.
            admission: its rules; None: those of the server.
            connect: returns the object for a connection of another protocol, which calls `opened`.

        Raises:
            OSError: the port is taken or the address is not of this host.
        """
        self._held = held
        connect = connect or partial(self._connect, listener, admission or self._admission)
        opened = await self._world.network.listen(host, port, connect)
        self._listeners.append((listener, opened))
        return opened.address

    def release(self) -> None:
        """Start serving after `start` with *held*."""
        self._held = False
        for connection in self.connections:
            connection.resume_reading()

    async def stop_listening(self, names: Collection[str]) -> None:
        """Accept no more connections on the listeners *names*; the open ones continue."""
        for name, listener in self._listeners:
            if name in names:
                await listener.close()

    async def stop(self, grace_s: float = 1.0) -> None:
        """Stop accepting, close all connections after writing buffered data, and wait until they are closed.

        Args:
            grace_s: seconds after which the remaining connections are aborted.
        """
        while self._listeners:
            await self._listeners.pop()[1].close()
        if not self._connections:
            return
        self._emptied = asyncio.Event()
        for connection in self.connections:
            connection.close()
        timer = self._world.clock.call_later(grace_s, self._cut_off)
        await self._emptied.wait()
        timer.cancel()

    def _cut_off(self) -> None:
        for connection in self.connections:
            connection.abort()

    def _connect(self, listener: str, admission: Admission) -> Connection:
        connection = Connection(
            self._world,
            self._handler,
            self.limits,
            self._unfinished,
            self._unwritten,
            sniffing=True,
            opened=self.opened,
            admission=admission,
            busy_poll=self._busy_poll,
        )
        connection.listener = listener
        return connection

    def opened(self, connection: OpenConnection) -> bool:
        """Count a new connection. Return False if it must be closed because there are too many."""
        if len(self._connections) >= self.limits.max_connections:
            log.warning(
                "%s: %s refused: %d connections are open, which is the limit",
                self.name,
                connection.address,
                len(self._connections),
            )
            return False
        self._connections[connection] = None
        connection.on_close(self._closed)
        if self._held:
            connection.pause_reading()
        return True

    def _closed(self, connection: OpenConnection) -> None:
        self._connections.pop(connection, None)
        if self._emptied is not None and not self._connections:
            self._emptied.set()


async def open_listeners(
    server: RemotingServer,
    listeners: Sequence[NamedListener],
    admission: Admission,
    *,
    held: bool,
    others: Mapping[str, Callable[[], asyncio.Protocol]] | None = None,
) -> dict[str, tuple[str, int]]:
    """Open *listeners* besides the main one of *server*. Return their addresses by name.

    Args:
        server, listeners, held: see `RemotingServer.start`.
        admission: rules of the listeners of the remoting protocol.
        others: what creates the connections of other protocols, by name of the listener.

    Raises:
        ConfigError: one cannot be opened, or requires TLS, which the server does not have; all are closed again.
    """
    opened, connect = {}, others or {}
    try:
        for name, tls, host, port, protocol in listeners:
            rules = admission.requiring_tls(name) if tls and protocol == REMOTING else None
            opened[name] = await server.start(
                host, port, held=held, listener=name, admission=rules, connect=connect.get(name)
            )
    except OSError as error:
        await server.stop()
        advice = (
            "another process or another listener has that port; choose another one (0 picks a free one)"
            if error.errno == errno.EADDRINUSE
            else "its host must be an address of this machine"
        )
        where = format_address(host, port)
        raise ConfigError(
            f"listener {name} cannot listen on {where}: {error.strerror or error}; {advice} in {LISTENERS_SETTING.key}"
        ) from error
    except ConfigError:
        await server.stop()
        raise
    return opened
