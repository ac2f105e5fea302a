"""TCP sockets through the running event loop, asyncio's or uvloop's.

Both loops set TCP_NODELAY. SO_REUSEADDR allows a restart on the same port while old connections are in TIME_WAIT. It is
not set on Windows, where it would let two processes share a port.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket

from gantrymq.world.network import ProtocolFactory

BACKLOG = 1024  # connections not yet accepted, as in RocketMQ's NettyRemotingServer
PROBE = ("192.0.2.1", 9)  # documentation address (RFC 5737); any routed address works
READ_BYTES = 256 * 1024
PORT_ATTEMPTS = 8  # attempts to find a port that is free on all addresses of a name


class RealListener:
    """A port, bound on all addresses of a host."""

    def __init__(self, servers: list[asyncio.AbstractServer], address: tuple[str, int]) -> None:
        self._servers = servers
        self._address = address

    @property
    def address(self) -> tuple[str, int]:
        """Numeric host and actual port of the first address."""
        return self._address

    async def close(self) -> None:
        """Close the listening sockets.

        ``wait_closed`` is not called, as since Python 3.12 it also waits for the connections.
        """
        for server in self._servers:
            server.close()
        self._servers = []
        await asyncio.sleep(0)  # uvloop closes the handle in its next iteration


class RealNetwork:
    """IPv4 and IPv6 connections of the running event loop."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> RealListener:
        """Accept connections on all addresses of *host*, with the same port.

        Raises:
            OSError: the port is in use, the address is not local, or the name is unknown.
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
        """Open a connection to the first address of *host* that accepts it.

        Raises:
            OSError: all addresses fail, or the name is unknown.
        """
        return await asyncio.get_running_loop().create_connection(factory, host, port)

    def unread(self, transport: asyncio.Transport) -> bytes:
        """Return the received bytes of a lost connection; none if its socket is closed already."""
        found, parts = transport.get_extra_info("socket"), list[bytes]()
        if found is None:
            return b""
        with contextlib.suppress(OSError), socket.fromfd(found.fileno(), found.family, found.type) as copy:
            copy.setblocking(False)
            while part := copy.recv(READ_BYTES):
                parts.append(part)
        return b"".join(parts)

    async def resolve(self, host: str) -> str:
        """Return the first IPv4 address of *host*, or the first IPv6 address. Raises OSError."""
        found = await _addresses(host, flags=0)
        return next((each for each in found if ":" not in each), found[0])

    def own_address(self) -> str:
        """Return the source address of the default route. Connecting a datagram socket sends no packet."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(PROBE)
                return str(probe.getsockname()[0])
            except OSError:
                return "127.0.0.1"


async def _addresses(host: str, flags: int = socket.AI_PASSIVE) -> list[str]:
    """Return the distinct numeric addresses of *host*, by default for listening, in the resolver's order."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host or None, None, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, "this is not a host name") from error
    return list(dict.fromkeys(str(info[4][0]) for info in found))


async def _serve(factory: ProtocolFactory, addresses: list[str], port: int) -> asyncio.Server:
    try:
        server = await asyncio.get_running_loop().create_server(
            factory, addresses, port, backlog=BACKLOG, reuse_address=os.name == "posix"
        )
    except OSError as error:  # the event loop's message contains the address as a tuple
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno)) from error
    if any(each is None for each in server.sockets):  # uvloop raises no error if a process listened after the bind
        server.close()
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    return server
