"""A gRPC server without listeners: it serves connections that were accepted elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from gantrymq.plugin.interfaces import AcceptedConnection
from gantrymq.plugin.world import World
from gantrymq_grpc.definitions.tables import ProtobufMessage
from gantrymq_grpc.transport import health
from gantrymq_grpc.transport.call import Handler, Route
from gantrymq_grpc.transport.connection import Connection, Serving
from gantrymq_grpc.transport.limits import Limits
from gantrymq_grpc.transport.messages import SharedBytes
from gantrymq_grpc.transport.status import StatusCode

STOPPING = "the server is stopping"


class GrpcServer:
    """Serves methods on any number of connections; ``grpc.health.v1.Health`` is one of its services.

    Attributes:
        limits: apply to all its connections.
        health: states of the services.
        errors: number of calls by the error of gRPC with which they ended.
    """

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        """Start without connections, with the service of health checks."""
        self.limits = limits or Limits()
        self.health = health.Health()
        self.errors: Counter[StatusCode] = Counter()
        self._routes: dict[str, Route] = {}
        self._connections: dict[Connection, None] = {}  # in the order of arrival
        self._emptied: asyncio.Event | None = None
        self._serving = Serving(
            world,
            self.limits,
            self._routes,
            SharedBytes(self.limits.max_partial_bytes),
            SharedBytes(self.limits.max_total_unsent_bytes),
            self._lost,
            self.errors,
        )
        requests = dict.fromkeys(self.health.handlers, health.HealthCheckRequest)
        self._add(health.SERVICE, requests, self.health.handlers)

    @property
    def connections(self) -> list[Connection]:
        """The open connections, oldest first."""
        return list(self._connections)

    def add_service(
        self, name: str, requests: Mapping[str, type[ProtobufMessage]], handlers: Mapping[str, Handler]
    ) -> None:
        """Serve the methods of a service; health checks report it as serving.

        Args:
            name: with its package.
            requests: classes of requests by method; methods without a handler are UNIMPLEMENTED.
            handlers: by method.
        """
        self._add(name, requests, handlers)
        self.health.set([name], health.SERVING)

    def accept(self, accepted: AcceptedConnection) -> Connection:
        """Return the protocol of a new connection."""
        connection = Connection(self._serving, accepted)
        self._connections[connection] = None
        return connection

    def end_streams(self, text: str) -> None:
        """End all streaming calls with UNAVAILABLE, for example because this server's role has changed.

        Unary calls in progress continue, and connections stay open.
        """
        for connection in self.connections:
            connection.end_streams(text)

    async def stop(self) -> None:
        """Close all connections: streaming calls end now, unary calls get ``stop_grace_s``."""
        self.health.set_all(health.NOT_SERVING)
        if not self._connections:
            return
        self._emptied = asyncio.Event()
        for connection in self.connections:
            connection.drain(STOPPING, self.limits.stop_grace_s, end_streams=True)
        await self._emptied.wait()

    def _add(self, name: str, requests: Mapping[str, type[ProtobufMessage]], handlers: Mapping[str, Handler]) -> None:
        for method, handler in handlers.items():
            path = f"/{name}/{method}"
            largest = self.limits.max_message_bytes if handler.max_bytes is None else handler.max_bytes
            self._routes[path] = Route(path, handler, requests[method], largest)

    def _lost(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if self._emptied is not None and not self._connections:
            self._emptied.set()
