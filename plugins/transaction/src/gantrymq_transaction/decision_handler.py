"""Request 37: checks and stores a producer's decision.

The first decision counts. The same decision again gets the same answer, because a response may have been lost; a
different one is refused. A decision may name any copy of its half message, including one that a check replaced
meanwhile; it counts for all copies.

Source: apache/rocketmq broker/.../processor/EndTransactionProcessor.java.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Iterable, Mapping

from gantrymq.errors import IllegalOperation, RequestRefused
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import Broker, EndTransaction, Outcome, StoreMessage
from gantrymq.plugin.names import HALF_TOPIC
from gantrymq_transaction.copies import (
    TransactionKey,
    committed_message,
    given_up,
    half_messages,
    has_op,
    key_of,
)
from gantrymq_transaction.decision_writer import GROUP_BYTES, DecisionWriter
from gantrymq_transaction.half_text_reader import HalfTextReader
from gantrymq_transaction.ledger import Ledger
from gantrymq_transaction.messages import committed, real_queue
from gantrymq_transaction.reading import HALF_QUEUE
from gantrymq_transaction.recent_halves import RecentHalves
from gantrymq_transaction.rules import SYSTEM_ERROR, Decision, judge_decision
from gantrymq_transaction.settings import TIMEOUT

log = logging.getLogger(__name__)

_OUTCOMES: Mapping[int, Outcome] = {Decision.COMMIT: Outcome.COMMITTED, Decision.ROLLBACK: Outcome.ROLLED_BACK}


class DecisionHandler:
    """Commits and rolls back transactions."""

    def __init__(
        self, broker: Broker, ledger: Ledger, writer: DecisionWriter, recent: RecentHalves, begin: int
    ) -> None:
        """*begin*: half messages before this queue offset were stored before this start, possibly by a Java broker."""
        self._broker = broker
        self._view = broker.store_capabilities.view
        self._ledger = ledger
        self._writer = writer
        self._recent = recent
        self._begin = begin
        self._known = HalfTextReader()
        self._busy: dict[TransactionKey, asyncio.Future[None]] = {}

    def end(self, request: EndTransaction) -> Awaitable[Outcome]:
        """Commit or roll back; the result is ready when the decision is durable.

        Raises:
            RequestError: the decision is refused; it has RocketMQ's code.
        """
        found = self._view(request.half_log_offset) if request.half_log_offset >= 0 else None
        outcome = _OUTCOMES.get(request.decision)
        ordinary = outcome is not None and not request.from_check
        if ordinary and isinstance(found, RecordView) and found.topic == HALF_TOPIC:
            known = self._known.of(bytes(found.properties_bytes), request.message_id)
            half = self._checked(found, request, known.own)
            queue, offset = known.queue, half.queue_offset
            if offset >= self._begin and queue and self._ledger.is_open(offset) and not known.checks:
                message = committed(half, known.own, queue) if outcome is Outcome.COMMITTED else None
                return self._writer.submit((offset,), message, outcome)
        return self._end(request, found)

    def end_together(self, requests: Iterable[EndTransaction], gated: bool) -> int:
        """Commit or roll back recent half messages, as `end` does, up to the first request that needs more checks.

        Return the number of requests taken over.
        """
        pop, is_open = self._recent.pop, self._ledger.is_open
        decided: list[tuple[int, StoreMessage | None]] = []
        size, most = 0, self._writer.most_together()
        for group, queue_offset, log_offset, decision, from_check, _, _, principal in requests:
            if from_check or principal is not None or decision not in _OUTCOMES:
                break
            if len(decided) >= most or size > GROUP_BYTES or (half := pop(log_offset)) is None:
                break
            if queue_offset != half.queue_offset or group != half.target.group or not is_open(queue_offset):
                break
            message: StoreMessage | None = None
            if decision == Decision.COMMIT:
                message = half.committed(log_offset)
                size += half.size
            decided.append((queue_offset, message))
        if decided:
            self._writer.submit_together(decided)
            if len(decided) == 1 and not gated:
                undecided = self._ledger.undecided(self._broker.store.bounds(HALF_QUEUE).max_offset)
                if undecided == 2:  # its producer has the response to its next half message
                    self._writer.store_now()
                elif undecided == 1:
                    self._writer.store_after_half()
        return len(decided)

    async def _end(self, request: EndTransaction, found: RecordView | Awaitable[RecordView | None] | None) -> Outcome:
        """End a transaction that may be decided already, or have other copies."""
        there = await found if inspect.isawaitable(found) else found
        if request.decision not in _OUTCOMES:
            if request.decision != Decision.UNKNOWN:
                log.warning(
                    "%s decides %d on the half message at %d, where 8 commits and 12 rolls back; it stays undecided",
                    *(request.producer_group, request.decision, request.half_log_offset),
                )
            return Outcome.IGNORED
        half = self._checked(there, request)
        own = half.properties
        queue = real_queue(own)
        if queue is None:
            raise RequestRefused(
                SYSTEM_ERROR, f"the half message at {half.log_offset} does not say which topic and queue it is for"
            )
        decision = Decision(request.decision)
        key = key_of(own)
        while key in self._busy:
            await self._busy[key]
        self._busy[key] = done = asyncio.get_running_loop().create_future()
        try:
            return await self._end_any_copy(half, key, queue, decision)
        finally:
            del self._busy[key]
            if not done.done():  # a stopping broker cancels it
                done.set_result(None)

    def _checked(
        self, half: RecordView | None, request: EndTransaction, own: Mapping[str, str] | None = None
    ) -> RecordView:
        """Return *half* if the request may decide it. Raises RequestRefused otherwise.

        *own*: its properties, if they are parsed already.
        """
        if half is None or half.topic != HALF_TOPIC:
            raise RequestRefused(
                SYSTEM_ERROR,
                f"no half message is stored at log offset {request.half_log_offset} (commitLogOffset); return the "
                "offsets from the response to its send",
            )
        own = half.properties if own is None else own
        if request.principal is not None:
            self._broker.access.check_send(request.principal, own.get(props.REAL_TOPIC, ""))
        refusal = judge_decision(
            own,
            request.producer_group,
            stored_at=(half.queue_offset, half.log_offset),
            named=(request.half_queue_offset, request.half_log_offset),
            from_check=request.from_check,
            age_ms=self._broker.world.clock.now_ms() - half.born_timestamp,
            timeout_ms=self._broker.settings.number(TIMEOUT),
        )
        if refusal is not None:
            raise refusal
        return half

    async def _end_any_copy(
        self, half: RecordView, key: TransactionKey, queue: tuple[str, int], decision: Decision
    ) -> Outcome:
        """Decide a transaction that may have several half messages, or may be decided already."""
        ledger = self._ledger
        while True:
            copies = await half_messages(self._broker, key)
            offsets = sorted({half.queue_offset, *(copy.queue_offset for copy in copies)})
            before = [offset for offset in offsets if ledger.is_open(offset)]
            known = await committed_message(self._broker, key)
            taken = [offset for offset in offsets if ledger.is_taken(offset)]
            undecided = [offset for offset in offsets if ledger.is_open(offset)]
            if taken:
                await self._writer.decided(taken[0])
            elif undecided == before:  # nothing was decided during the queries
                break
        if known is not None:
            if undecided:
                await self._writer.submit(undecided, None)
            if decision is Decision.COMMIT:
                return Outcome.COMMITTED
            raise IllegalOperation(
                f"the transaction of the half message at {half.log_offset} was committed; it cannot be rolled back",
            )
        if not undecided and not await self._given_up(key, copies[-1] if copies else half):
            if decision is Decision.ROLLBACK:
                return Outcome.ROLLED_BACK
            what = "was rolled back; it cannot be committed"
            if not await has_op(self._broker, half, offsets):
                what = (
                    "has no decision here and is not waited for any more, as after an acting master gave it to another "
                    "broker; that one asks its producer"
                )
            raise IllegalOperation(f"the transaction of the half message at {half.log_offset} {what}")
        message: StoreMessage | None = None
        if decision is Decision.COMMIT:
            message = committed(half, half.properties, queue)
        await self._writer.submit(undecided or [half.queue_offset], message)
        return _OUTCOMES[decision]

    async def _given_up(self, key: TransactionKey, last: RecordView) -> bool:
        """Return whether the last copy of a half message was given up."""
        return any(record.log_offset > last.log_offset for record in await given_up(self._broker, key))
