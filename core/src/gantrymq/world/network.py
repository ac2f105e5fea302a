"""Sockets, seen through asyncio's transport and protocol interface.

Addresses are ``(host, port)``; port 0 asks for a free one. A connection is an asyncio transport, whether its bytes
cross a socket or the memory of a simulation. After ``connection_lost`` a ``write`` is ignored by asyncio and the
simulation, and raises RuntimeError on uvloop: ask ``is_closing`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio  # annotations only: a command that opens no connection does not pay for it

ProtocolFactory: TypeAlias = "Callable[[], asyncio.BaseProtocol]"


class Listener(Protocol):
    """An open port."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it is bound to, the real port where 0 was asked."""

    async def close(self) -> None:
        """Stop accepting and free the port; connections that exist go on. Harmless the second time."""


class Network(Protocol):
    """The only source of connections."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        """Accept connections, one protocol of *factory* each.

        A name with several addresses is bound on all of them, on one port. ``0.0.0.0`` and ``::`` mean every address.

        Raises:
            OSError: the port is taken or the address is not of this host.
        """

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection; the caller bounds the time it takes, by cancelling.

        Raises:
            OSError: nobody listens there (ConnectionRefusedError), or the name is unknown.
        """

    def own_address(self) -> str:
        """This host's IP address as others see it, the loopback address where it has no other."""
