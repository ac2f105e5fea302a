"""Transactions: half messages and what becomes of them."""

from __future__ import annotations

import enum
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gantrymq.interfaces.store import StoreMessage

if TYPE_CHECKING:
    from gantrymq.interfaces.broker import Broker


class EndTransaction(NamedTuple):
    """A producer's decision, as request 37 carries it."""

    producer_group: str
    half_queue_offset: int
    half_log_offset: int
    decision: int  # 8 commit, 12 rollback, 0 unknown
    from_check: bool
    message_id: str
    transaction_id: str | None


class Outcome(enum.Enum):
    """What ``end`` did."""

    COMMITTED = enum.auto()
    ROLLED_BACK = enum.auto()
    IGNORED = enum.auto()


class TransactionService(Protocol):
    """Keeps half messages apart until their producer decides."""

    async def start(self, broker: Broker) -> None:
        """Begin checking undecided messages."""

    async def stop(self) -> None:
        """Stop checking; nothing is lost."""

    def prepare(self, message: StoreMessage) -> StoreMessage:
        """The half message to store in place of *message*."""

    def end(self, request: EndTransaction) -> Awaitable[Outcome]:
        """Commit or roll back. Raises RequestError when the half message is not the producer's.

        A future, other than a coroutine, costs no task where nobody waits for the answer.
        """

    async def check(self, now_ms: int) -> None:
        """Ask producers about messages that waited too long."""
