"""The service ``test.Notes`` in a world, and a client of the library h2."""

import asyncio

import pytest

pytest.importorskip("h2")

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingAckReceived,
    PingReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from gantrymq.plugin.interfaces import AcceptedConnection
from gantrymq_grpc.definitions.tables import Int32, ProtobufMessage, field, message
from gantrymq_grpc.transport.server import GrpcServer

SERVICE = "test.Notes"
GOAWAY = 7


@message
class Note(ProtobufMessage):
    package = "test"
    text: str = field(1)
    number: Int32 = field(2)


REQUESTS = dict.fromkeys(("Unary", "Server", "Bidi"), Note)


def prefixed(data, compressed=0):
    return bytes([compressed]) + len(data).to_bytes(4, "big") + data


def note(text="", number=0):
    return prefixed(Note(text=text, number=number).SerializeToString())


class Accepting(asyncio.Protocol):
    """Passes each connection to the server, as the broker's listeners do."""

    def __init__(self, server, certificate=""):
        self.server, self.certificate = server, certificate

    def connection_made(self, transport):
        peer, encrypted = transport.get_extra_info("peername"), bool(self.certificate)
        accepted = AcceptedConnection(transport, peer, "sdk", encrypted, self.certificate)
        connection = self.server.accept(accepted)
        transport.set_protocol(connection)
        connection.connection_made(transport)


class Served:
    """A server that listens, and its clients."""

    def __init__(self, world, handlers, limits=None):
        self.world = world
        self.server = GrpcServer(world, limits)
        self.server.add_service(SERVICE, REQUESTS, handlers)
        self.clients = []

    async def __aenter__(self):
        self.listener = await self.world.network.listen("127.0.0.1", 0, lambda: Accepting(self.server))
        return self

    async def __aexit__(self, *error):
        await self.listener.close()
        for client in self.clients:
            client.transport.abort()
        for connection in self.server.connections:
            connection.abort("the test is over")

    @property
    def connection(self):
        """The newest connection of the server."""
        return self.server.connections[-1]

    async def connect(self, **options):
        """Return a new client."""
        host, port = self.listener.address
        _, client = await self.world.network.connect(host, port, lambda: Client(**options))
        self.clients.append(client)
        return client

    async def raw(self):
        """Return a client of bytes that has sent preface and settings."""
        host, port = self.listener.address
        _, client = await self.world.network.connect(host, port, RawClient)
        self.clients.append(client)
        client.transport.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        return client


class Stream:
    """What a client has received on one stream."""

    def __init__(self):
        self.headers = {}
        self.trailers = {}
        self.data = bytearray()
        self.ended = False
        self.reset = None  # error code

    @property
    def notes(self):
        """The messages that have arrived completely."""
        found, rest = [], bytes(self.data)
        while len(rest) >= 5 and len(rest) >= 5 + int.from_bytes(rest[1:5], "big"):
            size = 5 + int.from_bytes(rest[1:5], "big")
            found.append(Note.FromString(rest[5:size]))
            rest = rest[size:]
        return found

    @property
    def status(self):
        """The status as a number; None before it has arrived."""
        found = self.trailers.get("grpc-status", self.headers.get("grpc-status"))
        return None if found is None else int(found)

    @property
    def text(self):
        return self.trailers.get("grpc-message", self.headers.get("grpc-message"))


class Waiting:
    """Waits for conditions that what arrives can make true."""

    def __init__(self):
        self._changed = asyncio.Event()
        self.lost = False

    def connection_lost(self, exc):
        self.lost = True
        self._changed.set()

    def changed(self):
        self._changed.set()

    async def until(self, condition):
        while not condition():
            if self.lost:
                raise ConnectionError("the connection was closed first")
            self._changed.clear()
            await self._changed.wait()

    async def until_lost(self):
        await self.until(lambda: self.lost)


class Client(Waiting, asyncio.Protocol):
    """A client of gRPC. With *acknowledging* it opens the windows again for what it has read.

    Without `reads_streams` it opens only that of the connection, like a library whose caller reads one stream slowly.
    """

    def __init__(self, *, acknowledging=True):
        super().__init__()
        config = H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = H2Connection(config)
        self.acknowledging = acknowledging
        self.reads_streams = True
        self.received = b""  # of an incomplete frame
        self.streams = {}
        self.goaway = None
        self.pongs = 0
        self.pings = 0
        self.settings = {}

    def connection_made(self, transport):
        self.transport = transport
        self.h2.initiate_connection()
        self.flush()

    def data_received(self, data):
        self.received += data
        while len(self.received) >= 9 and len(self.received) >= (size := 9 + int.from_bytes(self.received[:3], "big")):
            frame, self.received = self.received[:size], self.received[size:]
            for event in self.h2.receive_data(frame):
                self.take(event)
            if frame[3] == GOAWAY and not self.goaway.error_code:  # h2 takes the connection for closed
                self.h2.state_machine.state = ConnectionState.CLIENT_OPEN
        self.flush()
        self.changed()

    def take(self, event):
        stream = self.streams.get(getattr(event, "stream_id", None)) or Stream()
        if isinstance(event, ResponseReceived):
            stream.headers = dict(event.headers)
        elif isinstance(event, TrailersReceived):
            stream.trailers = dict(event.headers)
        elif isinstance(event, DataReceived):
            stream.data += event.data
            if not self.reads_streams and event.flow_controlled_length:
                self.h2.increment_flow_control_window(event.flow_controlled_length)
            elif self.acknowledging and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            stream.ended = True
        elif isinstance(event, StreamReset):
            stream.reset = event.error_code
        elif isinstance(event, ConnectionTerminated):
            self.goaway = event
        elif isinstance(event, PingAckReceived):
            self.pongs += 1
        elif isinstance(event, PingReceived):
            self.pings += 1
        elif isinstance(event, RemoteSettingsChanged):
            self.settings = {key: change.new_value for key, change in event.changed_settings.items()}

    def flush(self):
        self.transport.write(self.h2.data_to_send())

    def open(self, method="Unary", body=None, *, end=True, service=SERVICE, **metadata):
        """Begin a call and return its stream; ``_`` in names of metadata is ``-``."""
        stream_id = self.h2.get_next_available_stream_id()
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": f"/{service}/{method}",
            ":authority": "broker:8081",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        headers.update({name.replace("_", "-"): value for name, value in metadata.items()})
        stream = self.streams[stream_id] = Stream()
        stream.id = stream_id
        self.h2.send_headers(stream_id, list(headers.items()), end_stream=end and body is None)
        if body is not None:
            self.data(stream, body, end=end)
        self.flush()
        return stream

    def data(self, stream, body, *, end=False):
        """Send data that the windows allow."""
        size = self.h2.max_outbound_frame_size
        chunks = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        for chunk in chunks:
            self.h2.send_data(stream.id, chunk, end_stream=end and chunk is chunks[-1])
        self.flush()

    async def upload(self, stream, body, *, end=True):
        """Send data as the windows allow it."""
        while body:
            size = min(self.h2.local_flow_control_window(stream.id), self.h2.max_outbound_frame_size, len(body))
            if not size:
                await self.until(lambda: self.h2.local_flow_control_window(stream.id) > 0)
                continue
            self.h2.send_data(stream.id, body[:size], end_stream=end and size == len(body))
            body = body[size:]
            self.flush()

    def reset(self, stream):
        self.h2.reset_stream(stream.id, 8)
        self.flush()

    async def ended(self, stream):
        """Wait for the end of a stream and return it."""
        await self.until(lambda: stream.ended or stream.reset is not None)
        return stream

    async def call(self, method="Unary", body=None, **more):
        """Make a call with one request and return its stream after its end."""
        return await self.ended(self.open(method, note() if body is None else body, **more))


class RawClient(Waiting, asyncio.Protocol):
    """A client of bytes."""

    def __init__(self):
        super().__init__()
        self.received = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        self.changed()

    def frame(self, kind, flags=0, stream=0, payload=b""):
        self.transport.write(
            len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
        )
