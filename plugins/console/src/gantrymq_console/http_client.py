"""Requests of HTTP/1.1 to other servers, over a world's network: the receiver of alerts, and Prometheus.

Each request has a connection of its own. Redirections are not followed, and responses are limited. For https it trusts
the authorities of the system, or of the file in $SSL_CERT_FILE, which OpenSSL reads.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

import attrs
import h11

from gantrymq.errors import ConfigError
from gantrymq.plugin.client import within
from gantrymq.plugin.model import is_host_name
from gantrymq.plugin.world import World

REDIRECTED: Final = ", a redirection, which is not followed: give the address to which it leads"


class RequestFailed(Exception):
    """There was no response; the text says why."""


@attrs.frozen
class Response:
    """A response."""

    status: int
    kind: str  # media type without parameters
    body: bytes


def checked_address(option: str, text: str, example: str, instead: str) -> SplitResult:
    """Return the parts of an address of http or https, which the operator gave with *option*.

    Args:
        option: for the text of the error.
        text: the address.
        example: of an address.
        instead: where a password belongs instead of in the address.

    Raises:
        ConfigError: it cannot be used. The text has not the address, which may have a secret.
    """
    advice = f"give one such as {example}"
    try:
        found = urlsplit(text)
        port = found.port
    except ValueError:
        raise ConfigError(f"{option}: the address cannot be read; {advice}") from None
    if found.username is not None:
        raise ConfigError(f"{option}: a name and password in the address are not supported; use {instead}")
    if found.scheme not in ("http", "https") or port == 0 or not text.isascii() or " " in text:
        raise ConfigError(f"{option}: this is not an address of HTTP; {advice}")
    if not _is_host(found.hostname or ""):
        raise ConfigError(f"{option}: the address has no host name that can be resolved; {advice}")
    return found


def _is_host(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return is_host_name(name)
    return True


async def post(
    world: World,
    to: SplitResult,
    target: str,
    headers: Sequence[tuple[str, str]],
    body: bytes,
    timeout_s: float,
    most_bytes: int = 0,
) -> Response:
    """Send *body* with POST, and return the response.

    Args:
        world: of the caller.
        to: address of the server.
        target: path and query.
        headers: besides those of the connection.
        body: what is sent.
        timeout_s: for all of it.
        most_bytes: of the response; with 0 its body is not read.

    Raises:
        RequestFailed: there was no response, or it is larger.
    """
    try:
        found = await within(world.clock, timeout_s, _post(world, to, target, headers, body, most_bytes))
    except (OSError, h11.ProtocolError, ValueError, EOFError) as problem:  # ssl.SSLError is an OSError
        raise RequestFailed(_sentence_of(problem)) from problem
    if found is None:
        raise RequestFailed(f"no response within {timeout_s:g} s")
    return found


def _sentence_of(problem: Exception) -> str:
    """Return what happened, without the number of an error of the operating system."""
    words = problem.strerror if isinstance(problem, OSError) and not isinstance(problem, ssl.SSLError) else ""
    return words or str(problem) or type(problem).__name__


async def _post(
    world: World, to: SplitResult, target: str, headers: Sequence[tuple[str, str]], body: bytes, most_bytes: int
) -> Response:
    assert to.hostname is not None
    port = to.port or (443 if to.scheme == "https" else 80)
    answer = _Answer(most_bytes)
    transport, _ = await world.network.connect(to.hostname, port, lambda: answer)
    try:
        if to.scheme == "https":
            context = ssl.create_default_context()
            loop = asyncio.get_running_loop()
            secured = await loop.start_tls(transport, answer, context, server_hostname=to.hostname)
            assert secured is not None
            transport = secured
        sent = [("Host", to.netloc), *headers, ("Content-Length", str(len(body)))]
        sent += [("Connection", "close"), ("User-Agent", "gantrymq-console")]
        request = h11.Request(method="POST", target=target, headers=sent)
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            transport.write(answer.http.send(event) or b"")
        return await answer.response
    finally:
        transport.abort()


class _Answer(asyncio.Protocol):
    """Reads one response."""

    def __init__(self, most_bytes: int) -> None:
        self.http = h11.Connection(h11.CLIENT)
        self.response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._most = most_bytes
        self._status = 0
        self._kind = ""
        self._body = bytearray()

    def data_received(self, data: bytes) -> None:
        """Read a part of the response."""
        if self.response.done():
            return
        try:
            self.http.receive_data(data)
            self._read()
        except (h11.RemoteProtocolError, ValueError) as problem:
            self.response.set_exception(problem)

    def _read(self) -> None:
        while not self.response.done():
            event = self.http.next_event()
            if isinstance(event, h11.Response):
                self._status = event.status_code
                kinds = [value for name, value in event.headers if name == b"content-type"]
                self._kind = kinds[0].decode("latin-1").partition(";")[0].strip().lower() if kinds else ""
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > self._most:
                    raise ValueError(f"the response has more than {self._most:,} bytes")
            elif not isinstance(event, h11.InformationalResponse | h11.EndOfMessage):
                return  # more has to come
            if isinstance(event, h11.EndOfMessage) or (self._status and not self._most):
                self.response.set_result(Response(self._status, self._kind, bytes(self._body)))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail unless the response is known."""
        if not self.response.done() and self._status and exc is None:
            self.data_received(b"")  # a body without a length ends with the connection
        if not self.response.done():
            self.response.set_exception(exc or EOFError("the connection was closed without a response"))
            self.response.exception()  # its caller may have stopped waiting
