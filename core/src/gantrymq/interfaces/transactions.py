"""Transactions: half messages and their resolution."""

from __future__ import annotations

import enum
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gantrymq.interfaces.store import StoreMessage
from gantrymq.model.access import Principal

if TYPE_CHECKING:
    from gantrymq.interfaces.broker import Broker


class EndTransaction(NamedTuple):
    """A producer's decision (request 37)."""

    producer_group: str
    half_queue_offset: int
    half_log_offset: int
    decision: int  # 8 commit, 12 rollback, 0 unknown
    from_check: bool
    message_id: str
    transaction_id: str | None
    principal: Principal | None = None  # the producer; the service checks it for the topic of the half message


class Outcome(enum.Enum):
    """Result of ``end``."""

    COMMITTED = enum.auto()
    ROLLED_BACK = enum.auto()
    IGNORED = enum.auto()


class TransactionService(Protocol):
    """Keeper of half messages until their producer decides.

    The attribute ``roles`` is optional, as for a `Service`: by default it runs on masters only. `prepare` is called on
    masters only, `end` and `check` while it runs.
    """

    async def start(self, broker: Broker) -> None:
        """Start checking undecided messages."""

    async def stop(self) -> None:
        """Stop checking; no state is lost."""

    def prepare(self, message: StoreMessage) -> StoreMessage:
        """Return the half message to store instead of *message*."""

    def end(self, request: EndTransaction) -> Awaitable[Outcome]:
        """Commit or roll back. Raises RequestError if the half message belongs to another producer.

        Returning a future instead of a coroutine saves a task if the request is one-way.
        """

    async def check(self, now_ms: int) -> None:
        """Ask producers for the state of messages that have been undecided for too long."""
