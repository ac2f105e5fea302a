"""The network of one process in a simulated world: listeners and connections that end with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from gantrymq.world.network import Listener, ProtocolFactory
from gantrymq_testing.simulated.network import SimulatedListener, SimulatedNetwork


class Owner(Protocol):
    """The process."""

    def check(self) -> None:
        """Raise once it was killed."""

    def enter(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call back as code of the process, if it runs."""


class ProcessNetwork:
    """`Network` of one process."""

    def __init__(self, inner: SimulatedNetwork, owner: Owner) -> None:
        self._inner = inner
        self._owner = owner
        self._listeners: list[SimulatedListener] = []
        self._open: dict[_Guard, None] = {}  # in the order of their creation

    @property
    def open_connections(self) -> int:
        """Number of its open connections."""
        return len(self._open)

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        """As `SimulatedNetwork.listen`."""
        self._owner.check()
        listener = await self._inner.listen(host, port, lambda: self._guard(factory()))
        self._listeners.append(listener)
        return listener

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """As `SimulatedNetwork.connect`."""
        self._owner.check()
        transport, guard = await self._inner.connect(host, port, lambda: self._guard(factory()))
        return transport, cast(_Guard, guard).inner

    async def resolve(self, host: str) -> str:
        """Resolve on the process's host."""
        return await self._inner.resolve(host)

    def own_address(self) -> str:
        """Return the address of the process's host."""
        return self._inner.own_address()

    def break_off(self) -> None:
        """Free the ports and reset every connection."""
        for listener in self._listeners:
            listener.free()
        for guard in list(self._open):
            guard.transport.abort()

    def _guard(self, protocol: asyncio.BaseProtocol) -> _Guard:
        return _Guard(cast(asyncio.Protocol, protocol), self._owner, self._open)


class _Guard(asyncio.Protocol):
    """Wraps a protocol of the process and passes events on while it runs."""

    transport: asyncio.Transport

    def __init__(self, inner: asyncio.Protocol, owner: Owner, table: dict[_Guard, None]) -> None:
        self.inner = inner
        self._enter = owner.enter
        self._table = table

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._table[self] = None
        self._enter(self.inner.connection_made, transport)

    def data_received(self, data: bytes) -> None:
        self._enter(self.inner.data_received, data)

    def eof_received(self) -> bool | None:
        return cast("bool | None", self._enter(self.inner.eof_received))

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.pop(self, None)
        self._enter(self.inner.connection_lost, exc)

    def pause_writing(self) -> None:
        self._enter(self.inner.pause_writing)

    def resume_writing(self) -> None:
        self._enter(self.inner.resume_writing)
