"""A minimal HTTP server for a few pages: one request per connection, with limits on connections, size and time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from gantrymq.plugin.world import Listener, Timer, World
from gantrymq_metrics.http_request import HttpResponse, RequestHead, encode_response, refuse

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
TIME_LIMIT_S = 15.0  # from the connection to the last byte of the response; Prometheus waits for 10 s

MakeResponse = Callable[[], Awaitable[HttpResponse]]


class HttpServer:
    """Serves *pages* by path."""

    def __init__(self, world: World, pages: Mapping[str, MakeResponse]) -> None:
        self.world = world
        self.pages = pages
        self._listener: Listener | None = None
        self._connections: dict[HttpConnection, None] = {}

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return host and port; port 0 is replaced by the chosen one.

        Raises:
            OSError: the port is in use or the address does not belong to this host.
        """
        self._listener = await self.world.network.listen(host, port, lambda: HttpConnection(self))
        return self._listener.address

    async def stop(self) -> None:
        """Close the port and abort open connections. Idempotent."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        work = [connection.abort() for connection in list(self._connections)]
        await asyncio.gather(*filter(None, work), return_exceptions=True)

    def add_connection(self, connection: HttpConnection) -> bool:
        """Add a connection. Return False if there are too many."""
        if len(self._connections) >= MAX_CONNECTIONS:
            return False
        self._connections[connection] = None
        return True

    def remove_connection(self, connection: HttpConnection) -> None:
        """Remove a connection."""
        self._connections.pop(connection, None)


class HttpConnection(asyncio.Protocol):
    """One connection, one request, one response."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._head = RequestHead()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._answered = False
        self._writable = asyncio.Event()  # the transport's buffer is not full
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timeout, or close at once if too many connections are open."""
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transport has the interface without the base class
        if not self._server.add_connection(self):
            self._answered = True
            self._transport.close()
            return
        self._timer = self._server.world.clock.call_later(TIME_LIMIT_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """Parse the request; ignore bytes after it."""
        if self._answered or self._task is not None:
            return
        found = self._head.feed(data)
        if isinstance(found, HttpResponse):
            self._answer(found)
        elif found is not None:
            make = self._server.pages.get(found)
            if make is None:
                self._answer(refuse(404, f"there is {' and '.join(self._server.pages)} here"))
            else:
                self._task = asyncio.get_running_loop().create_task(self._serve(make))

    def pause_writing(self) -> None:
        """Stop sending further parts: the client reads slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Continue with the next part."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the work for a closed connection."""
        self._server.remove_connection(self)
        self.abort()

    def abort(self) -> asyncio.Task[None] | None:
        """Close without a response. Return the cancelled task, if any."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        if self._task is not None:
            self._task.cancel()
        return self._task

    async def _serve(self, make: MakeResponse) -> None:
        try:
            response = await make()
        except Exception:
            log.exception("a page could not be made")
            response = refuse(500, "this page could not be made; the broker's log says why")
        if response.more and not self._head.head_only:
            await self._answer_long(response)
        else:
            self._answer(response)

    async def _answer_long(self, response: HttpResponse) -> None:
        assert self._transport is not None
        self._answered = True
        self._transport.write(encode_response(response))
        for part in response.more:
            self._transport.write(part)
            await self._server.world.clock.sleep(0)
            await self._writable.wait()  # a lost connection cancels this task
        self._transport.close()

    def _answer(self, response: HttpResponse) -> None:
        self._answered = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode_response(response, head_only=self._head.head_only))
            self._transport.close()
