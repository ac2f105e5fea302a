"""Protocols of the objects that plugins register with a broker."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol

from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.interfaces.store import StoreMessage
from gantrymq.model.queue import MessageQueue

if TYPE_CHECKING:
    from gantrymq.interfaces.broker import Broker

__all__ = ["AllocationStrategy", "Dispatcher", "Gate", "Interceptor", "Service"]


class Interceptor(Protocol):
    """Callable that changes a message before it is stored.

    Two attributes are optional. ``properties``: a frozenset of names; it is called only for messages that have one of
    these properties, and other messages cost nothing. ``entries``: False to skip the entries of client batches.
    """

    order: int  # interceptors run in ascending order; equal numbers conflict

    def __call__(self, message: StoreMessage) -> StoreMessage:
        """Return the message to store. Raises RequestError to refuse it."""


class Gate(Protocol):
    """A condition for acknowledging messages besides the append (AckGate).

    Three attributes are optional. ``applies(settings)``, asked once at the start of a broker: False if acknowledgements
    never wait for the gate with these settings; it then costs nothing. ``late_error``, the class of the error that
    senders get while it waits for too long: `FlushSlaveTimeout` if it waits for replicas, else `FlushDiskTimeout`, the
    default. ``late_s``, how long that is, seconds since the append: ``syncFlushTimeout`` unless it is set, and at most
    that.

    Two methods are optional. ``ask(log_offset, answer)`` is called instead of `passed`, so that no task waits: it calls
    ``answer(error)`` once, now or later, with what `passed` raises, or None. ``last_look(log_offset)`` is called last,
    right before the senders are answered; it raises nothing, and returns the `Unconfirmed` that they get instead of
    success, or None.
    """

    name: str

    def passed(self, log_offset: int) -> Awaitable[None]:
        """Wait until everything before *log_offset* may be acknowledged and made visible to consumers.

        Raises:
            Unconfirmed: the messages become visible, and their senders get it, such as `SlaveNotAvailable`.
            StoreError: the messages stay invisible, and their senders get the error.
        """


class Service(Protocol):
    """Background work for the broker's lifetime.

    Four attributes are optional. ``roles``, a frozenset of `gantrymq.model.role.Role`: the roles of the broker in
    which it runs. Otherwise it runs on masters only, and is stopped and started again when the role changes. ``url``:
    the address of web pages that it serves, shown when the broker is ready; empty for none. ``stops_last``: True to be
    stopped after the last requests are answered, and started before the services without it. ``leave``: a coroutine
    function, called first at the broker's stop, while name servers name it and its role may change.
    """

    name: str

    async def start(self, broker: Broker) -> None:
        """Start; called after the store is open and before requests are served, and when its role begins."""

    async def stop(self) -> None:
        """Stop; called before the store closes, and when its role ends."""


class Dispatcher(Protocol):
    """Consumer of published log entries.

    A dispatcher that raises is suspended until the next start and keeps its position; the broker continues.
    """

    name: str

    def position(self) -> int:
        """Return the log offset up to which everything is handled durably; replay at startup begins here."""

    def dispatch(self, entries: Sequence[DispatchEntry]) -> None:
        """Handle *entries* in log order; each is delivered at least once."""

    def truncate(self, log_offset: int) -> None:
        """Discard everything at and after *log_offset*, where the log was or will be truncated."""

    def flush(self) -> None:
        """Make ``position`` durable."""


class AllocationStrategy(Protocol):
    """Strategy that assigns queues to members.

    Each member computes its own share, so equal inputs must give the same assignment on every member.
    `gantrymq_testing.AllocationContract` checks the rules of this interface.
    """

    name: str  # as registered

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of *client_id* as a new list, empty if it is not in *client_ids* or there are no queues.

        Args:
            group: the consumer group.
            client_id: the member to compute the share for.
            queues: readable queues of one topic, sorted.
            client_ids: all members, sorted; an id with two connections to the broker is listed twice.

        Raises:
            GantryError: the names do not fit the strategy's settings; the member keeps its current queues.
        """
