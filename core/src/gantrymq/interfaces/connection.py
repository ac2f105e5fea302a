"""A connection as seen by handlers, guards and plugins."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeVar

from gantrymq.remoting.command import Command

__all__ = ["Connection", "ResponseLimiter"]

T = TypeVar("T")


class ResponseLimiter(Protocol):
    """Limiter for work on long responses: it waits while the peer has too many unread responses."""

    @property
    def busy(self) -> bool:
        """Whether new work would have to wait."""

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for a turn, then for *work*, which produces one response. Write the response before the next await.

        Raises:
            ConnectionLost: the connection was closed before the turn came; a coroutine *work* was not started.
        """


class Connection(Protocol):
    """A connection to a peer, for responses and requests; implemented by `gantrymq.remoting.connection.Connection`."""

    @property
    def peer(self) -> tuple[str, int]:
        """Address of the other side."""

    @property
    def address(self) -> str:
        """The peer's address as ``host:port``."""

    @property
    def peer_packed_host(self) -> bytes:
        """The peer's address in the encoding of records."""

    @property
    def notes(self) -> dict[str, Any]:
        """State that guards and handlers keep per connection; a plugin uses its own name as key."""

    @property
    def closed(self) -> bool:
        """Whether the connection is closed for sending."""

    def reply(self, asked: Command | int, answer: Command | bytes) -> None:
        """Respond to a request, or to the one with the given opaque, with a command or an encoded frame."""

    def reply_parts(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Write an encoded frame given as several buffers; they must not change until they are written."""

    def flush(self) -> None:
        """Write buffered data now instead of at the end of the loop iteration."""

    @property
    def response_limiter(self) -> ResponseLimiter:
        """The limiter for work on long responses."""

    def oneway(self, command: Command) -> None:
        """Send a one-way request."""

    def notice(self, command: Command, about: str) -> None:
        """Send a one-way request, unless an earlier notice with the same *about* is still unwritten."""

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Send a request and return the response. Raises CallTimeout or ConnectionLost."""

    def close(self) -> None:
        """Write buffered data, then close."""
