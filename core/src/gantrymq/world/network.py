"""Network connections as asyncio transports and protocols.

Addresses are ``(host, port)``; port 0 selects a free port. A connection is an asyncio transport, over a socket or in
the memory of a simulation. After ``connection_lost`` a ``write`` is ignored by asyncio and the simulation, but raises
RuntimeError with uvloop, so check ``is_closing`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio  # annotations only; saves the import in commands without connections

ProtocolFactory: TypeAlias = "Callable[[], asyncio.BaseProtocol]"


class Listener(Protocol):
    """A listening port."""

    @property
    def address(self) -> tuple[str, int]:
        """Bound host and port, with the actual port if 0 was requested."""

    async def close(self) -> None:
        """Stop accepting and free the port. Existing connections continue. May be called repeatedly."""


class Network(Protocol):
    """Creates listeners and connections."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        """Accept connections, with a protocol from *factory* for each.

        A name with several addresses is bound on all of them with the same port. ``0.0.0.0`` and ``::``
        mean all addresses.

        Raises:
            OSError: the port is in use or the address is not local.
        """

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection. The caller limits the time by cancelling the call.

        Raises:
            OSError: the connection is refused (ConnectionRefusedError), or the name is unknown.
        """

    def unread(self, transport: asyncio.Transport) -> bytes:
        """Return the received bytes that were not read before *transport* was lost because of an error.

        To be called in ``connection_lost``. A peer that closes with unread responses resets the connection; the event
        loop then fails at its next write, and does not read what came before the reset.
        """

    async def resolve(self, host: str) -> str:
        """Return an IP address of *host*, an IPv4 address if it has one.

        Raises:
            OSError: the name is unknown, or no name server answers.
        """

    def own_address(self) -> str:
        """Return the IP address of this host for other hosts; the loopback address if it has no other."""
