"""Transaction producers for threads.

def check(message):                              # for an undecided message; called in a thread
    return TransactionState.COMMIT if database.has(message.message_id) else TransactionState.ROLLBACK

producer = client.transaction_producer("shop", check)
with producer.transaction(Message("Orders", b"paid")) as transaction:
    database.commit(transaction.id)              # an exception rolls back
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from gantrymq.client.message import Message, ReceivedMessage, TransactionState
from gantrymq.client.producing.transactions import Transaction
from gantrymq.client.producing.transactions import TransactionProducer as AsyncTransactionProducer
from gantrymq.client.sync.producer import Producer
from gantrymq.client.user_functions import call_function, check_function, require_plain
from gantrymq.errors import ClientError

if TYPE_CHECKING:
    from gantrymq.client.sync.client import Client
    from gantrymq.client.sync.portal import Portal

__all__ = ["Check", "TransactionProducer", "run_check_in_thread"]

logger = logging.getLogger("gantrymq.client")

_ASYNC: Final = "an async one belongs to gantrymq.client.TransactionProducer"

Check = Callable[[ReceivedMessage], TransactionState]


class TransactionProducer(Producer):
    """A producer with transactions, in addition to the methods of `Producer`."""

    def __init__(self, client: Client, portal: Portal, wrapped: AsyncTransactionProducer) -> None:
        """As `SyncBaseClient`."""
        super().__init__(client, portal, wrapped)
        self._transactions = wrapped

    @contextmanager
    def transaction(self, message: Message, timeout_s: float | None = None) -> Iterator[Transaction]:
        """Store *message* as a half message, and commit or roll it back at the end of the block.

        An exception rolls it back and propagates; otherwise it is committed, or `Transaction.state` is applied. If the
        broker does not confirm the decision, also after `close`, that is logged, and the broker calls the producer's
        check.

        Args:
            message: not modified; without a delay.
            timeout_s: as in `Producer.send`.

        Raises:
            ClientError: as `gantrymq.client.TransactionProducer.transaction`.
        """
        decided = self._transactions.transaction(message, timeout_s)
        transaction = self._portal.call(decided.__aenter__)
        try:
            yield transaction
        except BaseException as error:
            self._exit_block(decided, transaction, error)
            raise
        self._exit_block(decided, transaction, None)

    def _exit_block(
        self, decided: AbstractAsyncContextManager[Transaction], transaction: Transaction, error: BaseException | None
    ) -> None:
        """Leave the block; *error* is re-raised by the caller."""

        async def left() -> None:
            await decided.__aexit__(None if error is None else type(error), error, None)

        try:
            self._own_portal.call(left)
        except ClientError as problem:  # the loop was stopped: the client was closed inside the block
            logger.warning("the end of transaction %s: %s; the broker will check", transaction.id, problem)


@attrs.frozen
class _ThreadedCheck:
    """A check for the event loop; equal to another one with the same function."""

    check: Check

    async def __call__(self, message: ReceivedMessage) -> TransactionState:
        return await asyncio.to_thread(
            lambda: require_plain(call_function(self.check, message), "the check of a transaction")
        )


def run_check_in_thread(check: Check) -> Callable[[ReceivedMessage], Awaitable[TransactionState]]:
    """Return *check* for the event loop.

    Raises:
        InvalidParameter: it is async, a generator function, or not callable.
    """
    check_function(check, "the check of a transaction", plain=_ASYNC)
    return _ThreadedCheck(check)
