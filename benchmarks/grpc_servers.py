"""Servers of one unary method and one that holds its calls, on libraries for gRPC: `python grpc_servers.py LIBRARY`.

Each prints its port. Requests and responses are bytes, so that only the library is measured.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
RESPONSE: Final = b"r" * 120


async def hold() -> None:
    """Wait until cancelled."""
    await asyncio.get_running_loop().create_future()


async def serve_transport() -> None:
    """The plugin's own."""
    from gantrymq.plugin.interfaces import AcceptedConnection
    from gantrymq.plugin.real_world import real_world
    from gantrymq_grpc.definitions.tables import ProtobufMessage, field, message
    from gantrymq_grpc.transport.call import ServerStream, Unary
    from gantrymq_grpc.transport.server import GrpcServer

    class RawRequest:
        FromString = staticmethod(lambda data: data)

    @message
    class RawResponse(ProtobufMessage):
        package = "benchmark"
        data: bytes = field(1)

    world = real_world()
    server = GrpcServer(world)
    response = RawResponse(data=RESPONSE[2:])
    handlers = {"SendMessage": Unary(lambda request, call: response), "ReceiveMessage": ServerStream(lambda *_: hold())}
    server.add_service(SERVICE, dict.fromkeys(handlers, RawRequest), handlers)

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            accepted = AcceptedConnection(transport, transport.get_extra_info("peername"), "sdk", False, "")
            connection = server.accept(accepted)
            transport.set_protocol(connection)
            connection.connection_made(transport)

    await listen(Accepting)


async def serve_grpcio() -> None:
    """grpcio's asyncio server."""
    import grpc
    from grpc import aio

    async def send(request: bytes, context: Any) -> bytes:
        return RESPONSE

    async def receive(request: bytes, context: Any) -> None:
        await hold()

    server = aio.server()
    methods = {
        "SendMessage": grpc.unary_unary_rpc_method_handler(send),
        "ReceiveMessage": grpc.unary_stream_rpc_method_handler(receive),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


async def serve_grpclib() -> None:
    """grpclib."""
    from grpclib.const import Cardinality, Handler
    from grpclib.encoding.base import CodecBase
    from grpclib.server import Server

    class Raw(CodecBase):
        __content_subtype__ = "proto"

        def encode(self, message: Any, message_type: Any) -> bytes:
            return bytes(message)

        def decode(self, data: bytes, message_type: Any) -> bytes:
            return data

    async def send(stream: Any) -> None:
        await stream.recv_message()
        await stream.send_message(RESPONSE)

    async def receive(stream: Any) -> None:
        await stream.recv_message()
        await hold()

    class Service:
        def __mapping__(self) -> dict[str, Any]:
            return {
                f"/{SERVICE}/SendMessage": Handler(send, Cardinality.UNARY_UNARY, bytes, bytes),
                f"/{SERVICE}/ReceiveMessage": Handler(receive, Cardinality.UNARY_STREAM, bytes, bytes),
            }

    server = Server([Service()], codec=Raw())
    await server.start("127.0.0.1", 0)
    print(server._server.sockets[0].getsockname()[1], flush=True)
    await server.wait_closed()


async def serve_h2() -> None:
    """The library h2 with the least that is needed around it: no tasks, limits, or errors."""
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import RequestReceived, StreamEnded, StreamReset

    config = H2Configuration(
        client_side=False,
        header_encoding=None,
        validate_inbound_headers=False,
        validate_outbound_headers=False,
        normalize_inbound_headers=False,
        normalize_outbound_headers=False,
    )
    headers = [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-accept-encoding", b"gzip")]
    body = b"\0" + len(RESPONSE).to_bytes(4, "big") + RESPONSE

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.h2 = H2Connection(config)
            self.h2.initiate_connection()
            self.h2.increment_flow_control_window(1 << 24)
            self.paths: dict[int, bytes] = {}
            transport.write(self.h2.data_to_send())

        def data_received(self, data: bytes) -> None:
            received = 0
            for event in self.h2.receive_data(data):
                if isinstance(event, RequestReceived):
                    self.paths[event.stream_id] = dict(event.headers)[b":path"]
                elif isinstance(event, StreamReset):
                    self.paths.pop(event.stream_id, None)
                elif isinstance(event, StreamEnded) and self.paths[event.stream_id].endswith(b"SendMessage"):
                    del self.paths[event.stream_id]
                    self.h2.send_headers(event.stream_id, headers)
                    self.h2.send_data(event.stream_id, body)
                    self.h2.send_headers(event.stream_id, [(b"grpc-status", b"0")], end_stream=True)
                received += getattr(event, "flow_controlled_length", 0)
            if received:
                self.h2.increment_flow_control_window(received)
            self.transport.write(self.h2.data_to_send())

    await listen(Protocol)


async def listen(factory: Callable[[], asyncio.Protocol]) -> None:
    """Print the port and serve."""
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


LIBRARIES: Final[dict[str, Callable[[], Awaitable[None]]]] = {
    "gantrymq_grpc": serve_transport,
    "grpcio": serve_grpcio,
    "grpclib": serve_grpclib,
    "h2": serve_h2,
}

if __name__ == "__main__":
    asyncio.run(LIBRARIES[sys.argv[1]]())  # type: ignore[arg-type]
