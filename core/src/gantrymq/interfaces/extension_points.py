"""Protocols of the objects that plugins register with a broker."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from gantrymq.interfaces.store import StoreMessage

if TYPE_CHECKING:
    from gantrymq.interfaces.broker import Broker

__all__ = ["Gate", "Interceptor", "Service"]


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
    never wait for the gate with these settings; it then costs nothing. ``late_code``, the code that senders get while
    it waits for too long: 12 (FLUSH_SLAVE_TIMEOUT) if it waits for replicas, else 10 (FLUSH_DISK_TIMEOUT). ``late_s``,
    how long that is, seconds since the append: ``syncFlushTimeout`` unless it is set, and at most that.

    Two methods are optional. ``ask(log_offset, answer)`` is called instead of `passed`, so that no task waits: it calls
    ``answer(error)`` once, now or later, with what `passed` raises, or None. ``last_look(log_offset)`` is called last,
    right before the senders are answered; it raises nothing, and returns the `Unconfirmed` that they get instead of
    success, or None.
    """

    name: str

    def passed(self, log_offset: int) -> Awaitable[None]:
        """Wait until everything before *log_offset* may be acknowledged and made visible to consumers.

        Raises:
            Unconfirmed: the messages become visible, and their senders get its code, such as 11 (SLAVE_NOT_AVAILABLE).
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
