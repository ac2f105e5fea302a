"""TCP sockets through the running event loop, asyncio's or uvloop's.

Both loops set TCP_NODELAY on their own. SO_REUSEADDR lets a restart take the port back while old connections are in
TIME_WAIT; on Windows the option would let two processes share a port, so it is left off there.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket

from gantrymq.world.network import ProtocolFactory

BACKLOG = 1024  # connections the kernel holds until they are accepted, as RocketMQ's NettyRemotingServer
PROBE = ("192.0.2.1", 9)  # an address of the documentation range (RFC 5737); any routed one would do
PORT_ATTEMPTS = 8  # free ports tried until one is free on every address of a name


class RealListener:
    """One port, open on every address of a host."""

    def __init__(self, servers: list[asyncio.AbstractServer], address: tuple[str, int]) -> None:
        self._servers = servers
        self._address = address

    @property
    def address(self) -> tuple[str, int]:
        """Numeric host and real port of the first address."""
        return self._address

    async def close(self) -> None:
        """Close the listening sockets.

        ``wait_closed`` is not used: since Python 3.12 it waits for the connections as well.
        """
        for server in self._servers:
            server.close()
        self._servers = []
        await asyncio.sleep(0)  # uvloop closes the handle on its next turn


class RealNetwork:
    """IPv4 and IPv6 through ``create_server`` and ``create_connection`` of the running loop."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> RealListener:
        """Accept connections on *host*, on all its addresses, on one port.

        Raises:
            OSError: the port is taken, the address is not of this host, or the name is unknown.
        """
        addresses = await _addresses(host)
        attempts = PORT_ATTEMPTS if port == 0 and len(addresses) > 1 else 1
        for attempt in range(1, attempts + 1):
            first = await _serve(factory, addresses[:1], port)
            name: tuple[str, int] = first.sockets[0].getsockname()[:2]
            try:
                rest = [await _serve(factory, addresses[1:], name[1])] if addresses[1:] else []
            except OSError:
                first.close()
                if attempt == attempts:
                    raise
            else:
                return RealListener([first, *rest], name)
        raise AssertionError("the last attempt returns or raises")

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection to the first address of *host* that answers.

        Raises:
            OSError: none does, or the name is unknown.
        """
        return await asyncio.get_running_loop().create_connection(factory, host, port)

    def own_address(self) -> str:
        """The address that the default route leaves from; connecting a datagram socket sends nothing."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(PROBE)
                return str(probe.getsockname()[0])
            except OSError:
                return "127.0.0.1"


async def _addresses(host: str) -> list[str]:
    """Numeric addresses of *host* that can be listened on, in the resolver's order, each once."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, "this is no host name") from error
    return list(dict.fromkeys(str(info[4][0]) for info in found))


async def _serve(factory: ProtocolFactory, addresses: list[str], port: int) -> asyncio.Server:
    try:
        server = await asyncio.get_running_loop().create_server(
            factory, addresses, port, backlog=BACKLOG, reuse_address=os.name == "posix"
        )
    except OSError as error:  # the loops put the address into the text, as a tuple
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno)) from error
    if any(each is None for each in server.sockets):  # uvloop says no more where another process listens since the bind
        server.close()
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    return server
