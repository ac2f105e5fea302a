"""The small objects that plugins register with a broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from gantrymq.interfaces.connection import Connection
from gantrymq.interfaces.store import StoreMessage
from gantrymq.remoting.command import Command

if TYPE_CHECKING:
    from gantrymq.interfaces.broker import Broker

__all__ = ["Gate", "Guard", "Handler", "Interceptor", "Service"]

Handler = Callable[[Command, Connection], Command | Awaitable[Command | None] | None]
"""Serves one request code: returns the response, an awaitable of it, or None (awaited or not) when the response comes
later or came already through ``connection.reply`` (or never, for oneway requests). A GantryError that is raised becomes
the response with its code and text."""


class Interceptor(Protocol):
    """Changes a message before it is stored.

    Two attributes are optional. ``properties``, a frozenset of names: it sees only messages that carry one of them, and
    the others cost nothing. ``entries``: False for one that does not see the entries of client batches.
    """

    order: int  # interceptors run by ascending order; two equal numbers conflict

    def __call__(self, message: StoreMessage) -> StoreMessage:
        """The message to store. Raises RequestError to refuse it."""


class Gate(Protocol):
    """Something an acknowledgement waits for besides the append (AckGate)."""

    name: str

    def passed(self, log_offset: int) -> Awaitable[None]:
        """Done when everything before *log_offset* may be acknowledged and shown to consumers."""


class Guard(Protocol):
    """Sees every request before it is served, core's own included; where access control stands."""

    order: int  # guards are asked by ascending order; two equal numbers conflict

    def __call__(self, code: int, fields: Mapping[str, str], body: bytes | memoryview, connection: Connection) -> None:
        """Let a request pass, or raise a GantryError, which becomes the answer.

        Args:
            code: of the request.
            fields: of its header, by name; those of a send may have names of one letter, see request 310.
            body: what follows the header, empty without one; it must not be kept.
            connection: where it came from; `Connection.notes` holds what is to be remembered of it.
        """


class Service(Protocol):
    """Work in the background for as long as the broker runs."""

    name: str

    async def start(self, broker: Broker) -> None:
        """Called once, after the store is open and before requests are served."""

    async def stop(self) -> None:
        """Called once, before the store closes."""
