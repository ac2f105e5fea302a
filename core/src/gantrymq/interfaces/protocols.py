"""Protocols of listeners besides remoting, such as gRPC, which plugins serve (setting ``listeners``).

A broker listens for them, reads PROXY headers, does TLS and limits the number of connections. It creates one
`ListenerProtocol` for each protocol that its listeners name, and passes it the connections that begin as its protocol
does. The protocol serves them with the operations of `Broker`, and asks ``broker.access`` who a client is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import asyncio

    from gantrymq.interfaces.broker import Broker

__all__ = ["AcceptedConnection", "ListenerProtocol", "ProtocolRegistry"]


class AcceptedConnection(NamedTuple):
    """A connection of a client that speaks the protocol. Closing its transport is left to the protocol."""

    transport: asyncio.Transport  # carries plain bytes: the transport of the socket, or that of TLS
    peer: tuple[str, int]  # the client's address, that of a trusted proxy's PROXY header if there is one
    listener: str  # name of the listener
    encrypted: bool  # whether the connection uses TLS
    certificate: str  # subject of the client's verified certificate; empty without one


class ListenerProtocol(Protocol):
    """One protocol of a broker, on all its listeners. It runs in every role of the broker (`Broker.role`)."""

    def accept(self, connection: AcceptedConnection) -> asyncio.Protocol:
        """Return the object that serves *connection* from now on.

        Its ``connection_made`` is called with the transport, then ``data_received`` with the first bytes, which the
        broker has read, and so on. Called between `start` and `stop` only.
        """

    async def start(self, broker: Broker, listeners: Mapping[str, str]) -> None:
        """Start to serve, before the first connection is accepted.

        Args:
            broker: all services of plugins are started.
            listeners: advertised addresses, host:port, of its listeners by name.

        Raises:
            ConfigError: a setting cannot be used; the broker does not start.
        """

    async def stop(self) -> None:
        """Finish the requests in progress and close the connections.

        The broker accepts no further connections, and its services are stopped afterwards. Connections that are still
        open are closed after the last requests of other protocols.
        """


class ProtocolRegistry(Protocol):
    """Protocols of listeners by name."""

    def add(
        self,
        name: str,
        factory: Callable[[], ListenerProtocol],
        *,
        first: tuple[bytes, ...],
        alpn: tuple[str, ...] = (),
    ) -> None:
        """Register a protocol; the setting ``listeners`` selects it by ``NAME://`` and ``NAME+tls://``.

        Args:
            name: lower-case letters, digits, ``.`` and ``-``, starting with a letter.
            factory: called once at the start of a broker that has such a listener.
            first: bytes with which clients begin; other connections are refused.
            alpn: names of the protocol in TLS, which the server selects if a client offers them.

        Raises:
            PluginConflict: the name is taken.
            PluginError: an argument cannot be used.
        """
