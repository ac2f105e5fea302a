"""The end of a transaction: 37.

Source: apache/rocketmq broker/.../processor/EndTransactionProcessor.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from gantrymq.broker.sending.transactions import Transactions
from gantrymq.broker.wire.answers import ok
from gantrymq.interfaces import Connection, EndTransaction, Outcome
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.transactions import EndTransactionRequest
from gantrymq.remoting.serving import serves


class TransactionRequests:
    """Serves what producers decide."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @serves(RequestCode.END_TRANSACTION)
    def end(self, asked: Command, connection: Connection) -> Awaitable[Command | None] | None:
        """37: commit or roll back, usually oneway; a state that decides nothing gets no answer, as by a Java broker."""
        header = EndTransactionRequest.from_ext(asked.ext)
        outcome = self._transactions.end(
            EndTransaction(
                header.producer_group,
                header.tran_state_table_offset,
                header.commit_log_offset,
                header.commit_or_rollback,
                header.from_transaction_check,
                header.msg_id,
                header.transaction_id,
            )
        )
        return None if asked.is_oneway and isinstance(outcome, asyncio.Future) else _answer(asked, outcome)


async def _answer(asked: Command, outcome: Awaitable[Outcome]) -> Command | None:
    return None if await outcome is Outcome.IGNORED else ok(asked)
