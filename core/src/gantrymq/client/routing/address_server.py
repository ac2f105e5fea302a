"""Address servers: a web page that lists the name servers of a cluster, given as ``http://host:port/rocketmq/nsaddr``.

    GET /rocketmq/nsaddr[-<unit>?nofix=1]      ->      200, "10.0.0.1:9876;10.0.0.2:9876"       first line of the body

The page is fetched when a client starts and every two minutes afterwards.

Source: apache/rocketmq common/.../namesrv/DefaultTopAddressing.java, client/.../impl/factory/MQClientInstance.java
(startScheduledTask). Java's client finds its address by the properties rocketmq.namesrv.domain and
rocketmq.namesrv.domain.subgroup: ``http://<domain>:8080/rocketmq/<subgroup>``.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

import attrs

from gantrymq.client.calls.rpc import within
from gantrymq.client.errors import AnswerUnreadable, client_errors
from gantrymq.client.routing.nameservers import parse_namesrv
from gantrymq.errors import CallTimeout, ConnectFailed
from gantrymq.model.hosts import format_address
from gantrymq.world import World

ASK_EVERY_S: Final = 120.0  # MQClientInstance fetches the addresses every two minutes
_TIMEOUT_S: Final = 3.0  # as DefaultTopAddressing
MOST_BYTES: Final = 64 * 1024  # a server that answers with a web page is not read whole
_URL: Final = re.compile(r"http://(?P<host>\[[^\]]+\]|[^/:?#]+)(?::(?P<port>\d{1,5}))?(?P<path>/[^#\s]*)\Z")
_STATUS: Final = re.compile(rb"HTTP/\d\.\d (\d{3})")


def address_server(given: str, unit: str) -> AddressServer | None:
    """Return the address server that *given* names for a client of *unit*, or None if *given* lists name servers.

    ``http://host:port`` and ``http://anything/host:port`` are name servers, as in Java's client.
    """
    found = _URL.match(given.strip())
    if found is None or re.search(r":\d+\Z", found["path"]) or not found["path"].strip("/"):
        return None
    path = f"{found['path']}-{unit}?nofix=1" if unit else found["path"]
    return AddressServer(found["host"].strip("[]"), int(found["port"] or 80), path)


@attrs.frozen
class AddressServer:
    """The page of an address server."""

    host: str
    port: int
    path: str

    def __str__(self) -> str:
        return f"http://{format_address(self.host, self.port)}{self.path}"

    async def fetch(self, world: World) -> tuple[str, ...]:
        """Fetch the list of name servers.

        Raises:
            ConnectFailed: the server cannot be reached.
            CallTimeout: no complete response within 3 s.
            AnswerUnreadable: the HTTP status is not 200.
            OptionUnusable: the list contains an invalid address.
        """
        try:
            page = await within(world.clock, _TIMEOUT_S, self._page(world))
        except OSError as error:
            raise ConnectFailed(f"the address server {self} cannot be reached: {error.strerror or error}") from error
        if page is None:
            raise CallTimeout(f"the address server {self} sent no complete response within {_TIMEOUT_S:g} s")
        return self._listed(page)

    async def _page(self, world: World) -> bytes:
        reading = _Reading(f"GET {self.path} HTTP/1.0\r\nHost: {self.host}\r\nConnection: close\r\n\r\n".encode())
        transport, _ = await world.network.connect(self.host, self.port, lambda: reading)
        try:
            return await reading.whole
        finally:
            transport.close()

    def _listed(self, page: bytes) -> tuple[str, ...]:
        head, _, body = page.partition(b"\r\n\r\n")
        status = _STATUS.match(head)
        if status is None or status[1] != b"200":
            raise AnswerUnreadable(f"the address server {self} answered {page[:40]!r}, expected HTTP status 200")
        lines = body.decode(errors="replace").strip().splitlines()
        with client_errors():
            return parse_namesrv(lines[0] if lines else "", f"the page {self}")


class _Reading(asyncio.Protocol):
    """Sends the request and collects the response until the connection closes or the size limit is exceeded."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._found = bytearray()
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        transport.write(self._request)  # type: ignore[attr-defined]  # uvloop's transport does not subclass WriteTransport

    def data_received(self, data: bytes) -> None:
        """Collect response data."""
        self._found += data
        if len(self._found) > MOST_BYTES:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete the response, or fail it."""
        self._end(exc)

    def _end(self, error: Exception | None = None) -> None:
        if self.whole.done():
            return
        if error is None:
            self.whole.set_result(bytes(self._found))
        else:
            self.whole.set_exception(error if isinstance(error, OSError) else ConnectionResetError(str(error)))
