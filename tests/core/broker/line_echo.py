"""A plugin with the protocol ``echo`` of listeners: clients begin with ``ECHO``, each line is sent back."""

from __future__ import annotations

import asyncio

from gantrymq.hooks import hookimpl

FIRST = b"ECHO "


class Echo:
    """The protocol of one broker; keeps what it was given."""

    def __init__(self):
        made.append(self)
        self.accepted, self.open, self.events = [], [], []
        self.refusing = False
        self.listeners = self.broker = None

    async def start(self, broker, listeners):
        self.broker, self.listeners = broker, dict(listeners)
        self.events.append("start")

    async def stop(self):
        self.events.append(f"stop with {len(self.open)} open")
        for each in list(self.open):
            each.transport.write(b"bye\n")
            each.transport.close()

    def accept(self, connection):
        self.accepted.append(connection)
        if self.refusing:
            raise LookupError("refusing")
        return EchoConnection(self)


class EchoConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, echo):
        self.echo, self.rest = echo, b""

    def connection_made(self, transport):
        assert transport is self.echo.accepted[-1].transport
        self.transport = transport
        self.echo.open.append(self)

    def data_received(self, data):
        *lines, self.rest = (self.rest + data).split(b"\n")
        if b"ECHO fail" in lines:
            raise LookupError("failing")
        for line in lines:
            self.transport.write(line + b"\n")

    def eof_received(self):
        self.echo.events.append("eof")

    def connection_lost(self, exc):
        self.echo.open.remove(self)
        self.echo.events.append("lost")


made: list[Echo] = []


@hookimpl
def gantry_register_protocols(registry):
    registry.add("echo", Echo, first=(FIRST,), alpn=("echo/1",))
