"""A connection as handlers, guards and plugins see it."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeVar

from gantrymq.remoting.command import Command

__all__ = ["Connection", "Turns"]

T = TypeVar("T")


class Turns(Protocol):
    """Lets work on long answers wait while the peer has too many unread."""

    @property
    def crowded(self) -> bool:
        """Whether work would wait."""

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for a turn, then for *work*, which makes one answer; write that before the next await.

        Raises:
            ConnectionLost: the connection closed before the turn came; *work* was not begun if it is a coroutine.
        """


class Connection(Protocol):
    """A peer, able to be answered and asked; in the broker it is `gantrymq.remoting.connection.Connection`."""

    @property
    def peer(self) -> tuple[str, int]:
        """Address of the other side."""

    @property
    def address(self) -> str:
        """The same as ``host:port``."""

    @property
    def peer_packed_host(self) -> bytes:
        """The same as records hold it."""

    @property
    def notes(self) -> dict[str, Any]:
        """What guards and handlers keep of the connection while it is open; a plugin uses its own name as key."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""

    def reply(self, asked: Command | int, answer: Command | bytes) -> None:
        """Answer a request (or the one with that opaque) with a command or an encoded frame."""

    def reply_parts(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Write an encoded frame that is in several buffers; they must not change until they are written."""

    def flush(self) -> None:
        """Write what was handed over now, instead of at the end of the loop's turn."""

    @property
    def turns(self) -> Turns:
        """For work that makes long answers."""

    def oneway(self, command: Command) -> None:
        """Send a request that gets no answer."""

    def notice(self, command: Command, about: str) -> None:
        """As `oneway`, unless the notice before with the same *about* has not been written yet."""

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Send a request and wait. Raises CallTimeout or ConnectionLost."""

    def close(self) -> None:
        """Close after what was handed over is written."""
