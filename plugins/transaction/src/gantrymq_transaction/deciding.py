"""Request 37: a producer's decision, checked and stored.

The first decision counts. The same one again is answered alike, because an answer may have been lost; another one is
refused. A decision may name any copy of its half message, also one that was renewed while it was on its way; it counts
for all of them.

Source: apache/rocketmq broker/.../processor/EndTransactionProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging

from gantrymq.errors import RefusedWith
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import Broker, EndTransaction, Outcome, StoreMessage
from gantrymq.model.names import HALF_TOPIC
from gantrymq_transaction.copies import Identity, copies_of, identity_of
from gantrymq_transaction.ledger import Ledger
from gantrymq_transaction.messages import committed, real_queue
from gantrymq_transaction.reading import view
from gantrymq_transaction.rules import ILLEGAL_OPERATION, SYSTEM_ERROR, Decision, checks_of, judge_decision
from gantrymq_transaction.settings import TIMEOUT
from gantrymq_transaction.writer import Writer

__all__ = ["Deciding"]

log = logging.getLogger(__name__)

_OUTCOMES = {Decision.COMMIT: Outcome.COMMITTED, Decision.ROLLBACK: Outcome.ROLLED_BACK}


class Deciding:
    """Ends transactions."""

    def __init__(self, broker: Broker, ledger: Ledger, writer: Writer, begin: int) -> None:
        """*begin*: half messages before this queue offset were stored in an earlier life, perhaps by a Java broker."""
        self._broker = broker
        self._ledger = ledger
        self._writer = writer
        self._begin = begin
        self._busy: dict[Identity, asyncio.Future[None]] = {}

    async def end(self, request: EndTransaction) -> Outcome:
        """Commit or roll back; returns when that is durable.

        Raises:
            RequestError: with RocketMQ's code, where the decision does not count.
        """
        if request.decision not in _OUTCOMES:
            if request.decision != Decision.UNKNOWN:
                log.warning(
                    "%s decides %d on the half message at %d, where 8 commits and 12 rolls back; it stays undecided",
                    *(request.producer_group, request.decision, request.half_log_offset),
                )
            return Outcome.IGNORED
        half = await self._half(request)
        own = half.properties
        queue = real_queue(own)
        if queue is None:
            raise RefusedWith(
                SYSTEM_ERROR, f"the half message at {half.log_offset} does not say which topic and queue it is for"
            )
        decision = Decision(request.decision)
        fresh = half.queue_offset >= self._begin and not request.from_check and not checks_of(own)
        if fresh and self._ledger.is_open(half.queue_offset):
            message = committed(half, own, queue) if decision is Decision.COMMIT else None
            await self._writer.submit([half.queue_offset], message)
            return _OUTCOMES[decision]
        who = identity_of(own)
        while who in self._busy:
            await self._busy[who]
        self._busy[who] = done = asyncio.get_running_loop().create_future()
        try:
            return await self._end_any_copy(half, who, queue, decision)
        finally:
            del self._busy[who]
            if not done.done():  # a broker that stops cancels
                done.set_result(None)

    async def _half(self, request: EndTransaction) -> RecordView:
        """The half message that a request names, if the request may decide it."""
        half = await view(self._broker, request.half_log_offset)
        if half is None or half.topic != HALF_TOPIC:
            raise RefusedWith(
                SYSTEM_ERROR,
                f"no half message lies at log offset {request.half_log_offset} (commitLogOffset); send back what the "
                "answer to its sending said",
            )
        refusal = judge_decision(
            half.properties,
            request.producer_group,
            stored_at=(half.queue_offset, half.log_offset),
            named=(request.half_queue_offset, request.half_log_offset),
            from_check=request.from_check,
            age_ms=self._broker.world.clock.now_ms() - half.born_timestamp,
            timeout_ms=self._broker.settings.number(TIMEOUT),
        )
        if refusal is not None:
            raise RefusedWith(refusal.code, refusal.sentence)
        return half

    async def _end_any_copy(
        self, half: RecordView, who: Identity, queue: tuple[str, int], decision: Decision
    ) -> Outcome:
        """Decide a transaction of which there may be several half messages, or that may be decided already."""
        ledger = self._ledger
        while True:
            found = await copies_of(self._broker, who)
            offsets = sorted({half.queue_offset, *(copy.queue_offset for copy in found.halves)})
            taken = [offset for offset in offsets if ledger.is_taken(offset)]
            if not taken:
                break
            await self._writer.decided(taken[0])
        undecided = [offset for offset in offsets if ledger.is_open(offset)]
        if found.committed is not None:
            if undecided:
                await self._writer.submit(undecided, None)
            if decision is Decision.COMMIT:
                return Outcome.COMMITTED
            raise RefusedWith(
                ILLEGAL_OPERATION,
                f"the transaction of the half message at {half.log_offset} was committed; it cannot be rolled back",
            )
        last = found.halves[-1].log_offset if found.halves else half.log_offset
        if not undecided and not any(record.log_offset > last for record in found.given_up):
            if decision is Decision.ROLLBACK:
                return Outcome.ROLLED_BACK
            raise RefusedWith(
                ILLEGAL_OPERATION,
                f"the transaction of the half message at {half.log_offset} was rolled back; it cannot be committed",
            )
        message: StoreMessage | None = None
        if decision is Decision.COMMIT:
            message = committed(half, half.properties, queue)
        await self._writer.submit(undecided or [half.queue_offset], message)
        return _OUTCOMES[decision]
