"""A network in memory: ports are a table, connections are pairs of streams, delays are timers of the loop.

Connections compare host names as written, only `SimulatedNetwork.resolve` uses a table; ``localhost`` is ``127.0.0.1``,
and ``0.0.0.0``, ``::`` and the empty name listen on every host. A network has a host for every name in use.

Bytes on their way belong to no process (their timers have contexts of their own): they arrive if the sender is paused.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextvars import Context

from gantrymq.model.hosts import is_ip_address
from gantrymq.world.network import ProtocolFactory
from gantrymq_testing.simulated.stream import Address, Delivery, Link, Stream
from gantrymq_testing.simulated.trace import Trace
from gantrymq_testing.simulated.transport import SimulatedTransport

EVERY_HOST = frozenset({"0.0.0.0", "::"})
FREE_PORTS = range(40_000, 50_000)  # assigned for port 0, in this order
CLIENT_PORTS = range(50_000, 65_536)  # local ports of connections, in this order, repeatedly

MANY_PAIRS = 1000  # pairs of ends stored before lost ones are removed


class SimulatedListener:
    """An entry in the table of ports."""

    def __init__(self, table: dict[Address, SimulatedListener], address: Address, factory: ProtocolFactory) -> None:
        self._table = table
        self._address = address
        self.factory = factory

    @property
    def address(self) -> Address:
        """The requested host and the real port."""
        return self._address

    async def close(self) -> None:
        """Free the port; existing connections remain."""
        self.free()

    def free(self) -> None:
        """As `close`, without an await."""
        if self._table.get(self._address) is self:
            del self._table[self._address]


class _Wires:
    """State shared by all hosts of one network."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delivery: Delivery, trace: Trace | None) -> None:
        self.loop = loop
        self.delivery = delivery
        self.trace = trace
        self.listeners: dict[Address, SimulatedListener] = {}
        self.connections = 0
        self.pairs: dict[Link, tuple[SimulatedTransport, SimulatedTransport]] = {}  # may contain lost ones
        self.refuses: Callable[[Link], bool] = lambda link: False
        self.free_ports_used = 0
        self.names: dict[str, str] = {}

    def listener(self, address: Address) -> SimulatedListener | None:
        """Return the listener of *address*."""
        host, port = address
        for name in (host, "0.0.0.0", "::"):
            if (name, port) in self.listeners:
                return self.listeners[name, port]
        return None

    def taken(self, address: Address) -> bool:
        """Return whether a listener on *address* would conflict with another."""
        host, port = address
        return any(
            port == other_port and (host == other or host in EVERY_HOST or other in EVERY_HOST)
            for other, other_port in self.listeners
        )

    def free_port(self, host: str) -> int:
        for _ in FREE_PORTS:
            port = FREE_PORTS[self.free_ports_used % len(FREE_PORTS)]
            self.free_ports_used += 1
            if not self.taken((host, port)):
                return port
        raise OSError(errno.EADDRINUSE, f"no free port on {host}")


class SimulatedNetwork:
    """The network as one host sees it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        delivery: Delivery,
        trace: Trace | None = None,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        """Create a network.

        Args:
            loop: runs the timers; normally a `SimulatedLoop`.
            delivery: decides delays and the sizes of reads.
            trace: receives ``net.*`` events.
            host: source of connections made here.
        """
        self._wires = _Wires(loop, delivery, trace)
        self._host = host

    def on_host(self, host: str) -> SimulatedNetwork:
        """Return the same network for *host*: connections made there come from it."""
        other = object.__new__(SimulatedNetwork)
        other._wires = self._wires
        other._host = host
        return other

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> SimulatedListener:
        """Accept connections to *host* and *port*; 0 selects 40000 and up.

        Raises:
            OSError: EADDRINUSE.
        """
        wires = self._wires
        host = _canonical(host) or "0.0.0.0"
        address = (host, port or wires.free_port(host))
        if wires.taken(address):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{host}:{port}")
        listener = wires.listeners[address] = SimulatedListener(wires.listeners, address, factory)
        return listener

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection; it takes two delays of `Delivery`.

        Raises:
            ConnectionRefusedError: there is no listener when the first of them is over.
            ConnectionResetError: the peer closed before the second was over.
        """
        wires = self._wires
        target = _canonical(host)
        number = wires.connections = wires.connections + 1
        near = (self._host, CLIENT_PORTS[(number - 1) % len(CLIENT_PORTS)])
        far = ("127.0.0.1" if target in EVERY_HOST else target, port)
        handshake = _Handshake(wires, Link(number, near, far), factory)
        return await handshake.made

    @property
    def names(self) -> dict[str, str]:
        """The IP addresses of host names for `resolve`, on all hosts."""
        return self._wires.names

    def unread(self, transport: asyncio.Transport) -> bytes:
        """Return nothing: what the peer sent before a reset is lost."""
        return b""

    async def resolve(self, host: str) -> str:
        """Return the address of *host* in `names`; an IP address is returned as it is. Raises OSError."""
        address = self.names.get(host, _canonical(host))
        if not is_ip_address(address):
            raise OSError(errno.ENOENT, f"the name {host} is unknown")
        return address

    def own_address(self) -> str:
        """Return the source host of connections made here."""
        return self._host

    def refuse(self, question: Callable[[Link], bool]) -> None:
        """Refuse the connections, of all hosts, for which *question* returns true, as without a listener."""
        self._wires.refuses = question

    def links(self) -> list[Link]:
        """Return the open connections of all hosts, oldest first, seen from their originating end."""
        pairs = self._wires.pairs = {link: ends for link, ends in self._wires.pairs.items() if not _both_lost(ends)}
        return list(pairs)

    def cut(self, link: Link, there: int, back: int) -> None:
        """Reset a connection of `links`, on behalf of neither end.

        Args:
            link: is skipped if it is closed.
            there: maximum number of bytes in flight to the target that still arrive.
            back: the same for the other direction.
        """
        if link not in self._wires.pairs:
            return
        near, far = self._wires.pairs.pop(link)
        if self._wires.trace is not None:
            self._wires.trace.add("net.cut", str(link))
        near.unsent.cut(there)
        far.unsent.cut(back)
        for end in (near, far):
            end.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))


class _Handshake:
    """Connect: from the request to ``connection_made`` at both ends."""

    def __init__(self, wires: _Wires, link: Link, factory: ProtocolFactory) -> None:
        self.made: asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]] = wires.loop.create_future()
        self._wires = wires
        self._link = link
        self._back = Link(link.number, link.target, link.source)
        self._factory = factory
        self._note("net.connect")
        wires.loop.call_later(wires.delivery.latency_s(link), self._reach_the_listener, context=Context())

    def _reach_the_listener(self) -> None:
        wires = self._wires
        listener = wires.listener(self._link.target)
        if listener is None or wires.refuses(self._link):
            self._note("net.refuse")
            host, port = self._link.target
            refusal = ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
            wires.loop.call_later(wires.delivery.latency_s(self._back), self._fail, refusal, context=Context())
            return
        near, far = self._pair()
        wires.loop.call_later(wires.delivery.latency_s(self._back), self._complete, near, context=Context())
        try:
            protocol = listener.factory()
        except Exception as error:
            message = f"the protocol factory of {listener.address} raised, the connection is closed"
            wires.loop.call_exception_handler({"message": message, "exception": error})
            far.abort()
        else:
            self._note("net.accept")
            far.start(protocol)

    def _complete(self, near: SimulatedTransport) -> None:
        if self.made.done():  # cancelled
            near.abort()
        elif near.is_closing():
            self._fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        else:
            try:
                protocol = self._factory()
            except Exception as error:
                near.abort()
                self._fail(error)
            else:
                near.start(protocol)
                self.made.set_result((near, protocol))

    def _fail(self, error: Exception) -> None:
        if not self.made.done():
            self.made.set_exception(error)

    def _pair(self) -> tuple[SimulatedTransport, SimulatedTransport]:
        """Create both ends, connected by two streams."""
        wires, link, back = self._wires, self._link, self._back
        there = Stream(wires.loop, link, wires.delivery, wires.trace)
        here = Stream(wires.loop, back, wires.delivery, wires.trace)
        near = SimulatedTransport(wires.loop, there, here, {"sockname": link.source, "peername": link.target})
        far = SimulatedTransport(wires.loop, here, there, {"sockname": link.target, "peername": link.source})
        there.join(near, far)
        here.join(far, near)
        if len(wires.pairs) > MANY_PAIRS:
            wires.pairs = {each: ends for each, ends in wires.pairs.items() if not _both_lost(ends)}
        wires.pairs[link] = (near, far)
        return near, far

    def _note(self, kind: str) -> None:
        if self._wires.trace is not None:
            self._wires.trace.add(kind, str(self._link))


def _both_lost(ends: tuple[SimulatedTransport, SimulatedTransport]) -> bool:
    return ends[0].lost and ends[1].lost


def _canonical(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host
