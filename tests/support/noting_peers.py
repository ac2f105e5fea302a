"""Protocols that note what happens to them."""

import asyncio


class Peer(asyncio.Protocol):
    """Collects bytes and events; `wait` returns once something it was asked for is so."""

    keep_open = False  # what eof_received answers

    def __init__(self):
        self.transport = None
        self.received = bytearray()
        self.reads = []
        self.events = []
        self.error = None
        self._changed = asyncio.Event()

    async def wait(self, condition):
        while not condition(self):
            self._changed.clear()
            await self._changed.wait()

    async def wait_for(self, event):
        await self.wait(lambda peer: event in peer.events)

    def connection_made(self, transport):
        self.transport = transport
        self._note("made")

    def data_received(self, data):
        assert isinstance(data, bytes)
        self.received += data
        self.reads.append(len(data))
        self._changed.set()

    def eof_received(self):
        self._note("eof")
        return self.keep_open

    def connection_lost(self, exc):
        self.error = exc
        self._note("lost")

    def pause_writing(self):
        self._note("pause")

    def resume_writing(self):
        self._note("resume")

    def _note(self, event):
        self.events.append(event)
        self._changed.set()


class HalfOpen(Peer):
    keep_open = True


class Echo(Peer):
    def data_received(self, data):
        super().data_received(data)
        self.transport.write(data)


class Buffered(asyncio.BufferedProtocol):
    """Offers 100 bytes at a time."""

    def __init__(self):
        self.received = bytearray()
        self._room = bytearray(100)

    def get_buffer(self, sizehint):
        return self._room

    def buffer_updated(self, nbytes):
        assert nbytes > 0
        self.received += self._room[:nbytes]


class Accepting:
    """A listener and the protocols it made."""

    def __init__(self, make):
        self.make = make
        self.peers = []
        self.listener = None
        self._arrived = asyncio.Event()

    def __call__(self):
        peer = self.make()
        self.peers.append(peer)
        self._arrived.set()
        return peer

    async def first(self):
        while not self.peers:
            self._arrived.clear()
            await self._arrived.wait()
        peer = self.peers[0]
        if isinstance(peer, Peer):
            await peer.wait_for("made")
        return peer


async def connected(world, near=Peer, far=Peer):
    """Both protocols of a new connection on the loopback address; the listener is closed again."""
    accepting = Accepting(far)
    listener = await world.network.listen("127.0.0.1", 0, accepting)
    _, peer = await world.network.connect(*listener.address, near)
    other = await accepting.first()
    await listener.close()
    return peer, other
