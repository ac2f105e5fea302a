"""The end of a transaction (37).

Source: apache/rocketmq broker/.../processor/EndTransactionProcessor.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Final

from gantrymq.broker.messages import BrokerMessages
from gantrymq.broker.wire.responses import ok
from gantrymq.interfaces import EndTransaction, Outcome
from gantrymq.remoting.codes import FLAG_ONEWAY, RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.send import EndTransactionRequest
from gantrymq.remoting.serving import in_operation, serves

_ENDS: Final = int(RequestCode.END_TRANSACTION)
_USUAL: Mapping[str | None, int] = {"8": 8, "12": 12}


class TransactionRequests:
    """Handler for the decisions of producers."""

    def __init__(self, messages: BrokerMessages) -> None:
        self._messages = messages

    @serves(RequestCode.END_TRANSACTION, access=in_operation)
    def end(self, asked: Command, connection: Connection) -> Awaitable[Command | None] | None:
        """37: commit or roll back; usually one-way. An undecided state gets no response, as by a Java broker."""
        decision = _usual(asked.ext or {}) or _any(asked.ext)
        if connection.principal is not None:
            decision = decision._replace(principal=connection.principal)
        outcome = self._messages.end_transaction(decision)
        return None if asked.is_oneway and isinstance(outcome, asyncio.Future) else _answer(asked, outcome)

    def end_together(self, asked: Sequence[Command], start: int, _connection: Connection) -> int:
        """Commit or roll back ``asked[start]`` and the following transactions, and return their number."""
        return self._messages.end_together(_decisions(asked, start))


def _decisions(asked: Sequence[Command], start: int) -> Iterator[EndTransaction]:
    """Yield the one-way decisions from ``asked[start]`` on, up to the first in an unusual form."""
    for index in range(start, len(asked)):
        each = asked[index]
        if each.code != _ENDS or not each.flag & FLAG_ONEWAY or (decision := _usual(each.ext or {})) is None:
            return
        yield decision


def _usual(ext: Mapping[str, str]) -> EndTransaction | None:
    """Parse a header in the usual form of clients, three times as fast as `_any`; None for any other form."""
    place, half = ext.get("tranStateTableOffset", ""), ext.get("commitLogOffset", "")
    decision, group, message_id = _USUAL.get(ext.get("commitOrRollback")), ext.get("producerGroup"), ext.get("msgId")
    check = ext.get("fromTransactionCheck", "false")
    if decision is None or group is None or message_id is None or check != "false":
        return None
    if len(place) > 18 or len(half) > 18 or not place.isdecimal() or not half.isdecimal():
        return None
    return EndTransaction(group, int(place), int(half), decision, False, message_id, ext.get("transactionId"))


def _any(ext: Mapping[str, str] | None) -> EndTransaction:
    header = EndTransactionRequest.from_ext(ext)
    return EndTransaction(
        header.producer_group,
        header.tran_state_table_offset,
        header.commit_log_offset,
        header.commit_or_rollback,
        header.from_transaction_check,
        header.msg_id,
        header.transaction_id,
    )


async def _answer(asked: Command, outcome: Awaitable[Outcome]) -> Command | None:
    return None if await outcome is Outcome.IGNORED else ok(asked)
