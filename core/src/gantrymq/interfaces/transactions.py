"""Transactions: half messages and their resolution."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gantrymq.interfaces.store import PutResult, StoreMessage
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


class BatchingTransactionService(TransactionService, Protocol):
    """A service that also serves the requests of one read together; a broker calls these methods if both exist."""

    def prepare_together(
        self, messages: Sequence[StoreMessage], unique_ids: Sequence[bytes]
    ) -> Callable[[Sequence[PutResult]], object] | None:
        """Change *messages* into the half messages to store, as `prepare` does.

        Args:
            messages: messages of one producer for one topic, which differ only in queue id, unique id, born timestamp
                and body.
            unique_ids: the unique id of each, ASCII letters and digits.

        Returns:
            A function that is called with the result of each message once all of them are stored and about to be
            acknowledged, and visible unless they have WAIT=false; not if that fails, if access is controlled, or if an
            interceptor must see the committed messages. None if the messages, which are unchanged then, have to be
            prepared one by one.
        """

    def end_together(self, requests: Iterable[EndTransaction], gated: bool) -> int:
        """Take over the first of *requests*, as `end` does, and return how many; the next one is passed to `end`.

        They are one-way, so no result is needed. The service reads no more of the iterable than it takes and one more.

        *gated*: messages wait for the disk or for replicas, so decisions should be stored with the next half message.
        """
