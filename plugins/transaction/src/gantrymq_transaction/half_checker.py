"""Periodic check of undecided half messages: they are read in slices, and handled as `rules` decides.

    read 32 -> judge each -> committed already? -> store the copies -> send checks to the producers

A round is bounded: it ends after one minute, as in Java, and after `ROUND_MESSAGES` messages; the next round continues
there. The positions in both queues are committed as consumer offsets of group CID_RMQ_SYS_TRANS, as in a Java broker.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageServiceImpl.java (check);
broker/.../client/ProducerManager.java (getAvailableChannel).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from gantrymq.errors import GantryError, RequestError, RequestRefused
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import Broker, BrokerEnvironment, BrokerStorage, ClientChannel, PutResult, StoreMessage
from gantrymq.plugin.model import Principal, TopicConfig
from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC
from gantrymq.plugin.world import TimeSlices
from gantrymq_transaction.copies import committed_message, key_of
from gantrymq_transaction.decision_writer import DecisionWriter
from gantrymq_transaction.ledger import Ledger
from gantrymq_transaction.messages import check_of, given_up, offsets_in_op, real_queue, renewed
from gantrymq_transaction.reading import HALF_QUEUE, OP_QUEUE, SLICE, read_from, read_these
from gantrymq_transaction.rules import CHECK_TIMES, CheckSettings, Verdict, checks_of, judge_check
from gantrymq_transaction.settings import CHECK_MAX, TIMEOUT

log = logging.getLogger(__name__)

_RESERVED: Final = "fileReservedTime"
_RESERVED_HOURS: Final = 72
GROUP: Final = "CID_RMQ_SYS_TRANS"
_ROUND_S: Final = 60.0
ROUND_MESSAGES: Final = 50_000
SLACK: Final = 65_536  # settled half messages that one undecided message may hold up
MOST_LOGGED: Final = 10  # failed messages logged per round
_CARRY_SHARE: Final = 4  # settled messages held up per undecided one before a message is carried to the end
_UNSURE_MS: Final = 5_000  # a check is sent at most this long after its half message was written (syncFlushTimeout)


class _CheckPositions(NamedTuple):
    """Positions in both queues, and the end of the log at that time."""

    half_offset: int
    op_offset: int
    log_end: int


class UncertainChecks(NamedTuple):
    """Half messages with a counted check that may not have been sent, because the broker was killed in between."""

    end: int  # queue offset after the last of them
    stored_from_ms: float


async def uncertain_checks(broker: BrokerStorage) -> UncertainChecks:
    """Return the half messages written within `_UNSURE_MS` of the newest one; none after a normal stop."""
    end = broker.store.bounds(HALF_QUEUE).max_offset
    if not broker.clean_start:
        async for newest in read_from(broker, HALF_QUEUE, end - 1, end, TimeSlices(broker.world.clock, SLICE)):
            return UncertainChecks(end, newest.store_timestamp - _UNSURE_MS)
    return UncertainChecks(0, math.inf)


class HalfChecker:
    """Checks undecided half messages."""

    def __init__(
        self, broker: Broker, ledger: Ledger, writer: DecisionWriter, broker_name: str, uncertain: UncertainChecks
    ) -> None:
        """*uncertain*: see `uncertain_checks`."""
        self._broker = broker
        self._ledger = ledger
        self._writer = writer
        self._broker_name = broker_name
        self._next = 0  # queue offset where the last round was cut off
        self._turn = 0  # round-robin counter over the producers of a group
        self._moved: _CheckPositions | None = None
        self._postponed = 0  # messages of this round that failed
        self._uncertain = uncertain
        self._uncounted: dict[int, int] = {}  # by half offset, checks missing in the record's count; may be -1
        self.oldest_born_ms: int | None = None  # oldest message left undecided by the last complete pass

    async def round(self, now_ms: int) -> None:
        """Check every undecided message once."""
        broker, ledger = self._broker, self._ledger
        bounds = broker.store.bounds(HALF_QUEUE)
        ledger.settle_before(bounds.min_offset)
        await self._resolve_uncertain()
        self.save_positions()
        settings = CheckSettings(
            broker.settings.number(TIMEOUT),
            broker.settings.number(CHECK_MAX),
            retention_hours(broker) * 3600_000,
        )
        end = bounds.max_offset
        slices = TimeSlices(broker.world.clock, SLICE)
        until = broker.world.clock.monotonic() + _ROUND_S
        oldest: list[int] = []
        self._postponed = 0
        left = ROUND_MESSAGES
        start = begin = self._next
        while True:
            offsets = ledger.open_offsets(start, end, SLICE)
            if not offsets:
                self._next = 0
                break
            start = offsets[-1] + 1
            stopped = await self._check_slice(offsets, now_ms, settings, slices, oldest)
            left -= len(offsets)
            if stopped:
                self._next = 0
                break
            if left <= 0 or broker.world.clock.monotonic() > until:
                self._next = start
                break
        if self._postponed > MOST_LOGGED:
            log.error("%d more undecided messages stay until the next round", self._postponed - MOST_LOGGED)
        if begin and self.oldest_born_ms is not None:  # previous rounds checked older messages
            oldest.append(self.oldest_born_ms)
        self.oldest_born_ms = min(oldest, default=None)
        self.save_positions()

    def save_positions(self) -> None:
        """Move both positions, and commit them once the messages before them are durable."""
        broker, ledger = self._broker, self._ledger
        ledger.advance(broker.store.bounds(HALF_QUEUE).max_offset)
        state = broker.store.state()
        if self._moved is None or self._moved.log_end <= state.flushed_offset:
            self._commit(self._moved)
            self._moved = _CheckPositions(ledger.half_offset, ledger.op_offset, state.max_log_offset)
        if self._moved.log_end <= state.flushed_offset:
            self._commit(self._moved)
        self._uncounted = {at: count for at, count in self._uncounted.items() if at >= ledger.half_offset}

    def _commit(self, progress: _CheckPositions | None) -> None:
        """Commit the positions that changed; without a commit the position is the start of the queue, as in Java."""
        broker = self._broker
        if progress is not None:
            for queue, offset in ((HALF_QUEUE, progress.half_offset), (OP_QUEUE, progress.op_offset)):
                known = broker.offsets.committed(GROUP, queue)
                if offset != (broker.store.bounds(queue).min_offset if known is None else known):
                    broker.offsets.commit(GROUP, queue, offset)

    # ----------------------------------------------------------------------------------------------------------------

    async def _check_slice(
        self, offsets: list[int], now_ms: int, settings: CheckSettings, slices: TimeSlices, oldest: list[int]
    ) -> bool:
        """Check the messages at *offsets*. Return True if the messages after them are too young to check."""
        moved: list[asyncio.Future[PutResult | None]] = []
        stopped = False
        async for half in self._readable(offsets, slices):
            verdict = self._judge(half, now_ms, settings)
            if verdict in (Verdict.WAIT, Verdict.STOP):
                oldest.append(half.born_timestamp)
            if verdict is Verdict.STOP:
                stopped = True
                break
            if verdict is not Verdict.WAIT:
                try:
                    done = await self._act(half, verdict, settings, oldest)
                except GantryError as error:
                    self._postpone(half.queue_offset, error)
                else:
                    moved += [] if done is None else [done]
        if moved:
            await asyncio.wait(moved)
        return stopped

    async def _readable(self, offsets: list[int], slices: TimeSlices) -> AsyncIterator[RecordView]:
        """Yield the messages at *offsets*; unreadable ones are postponed."""
        seen = -1
        try:
            async for half in read_these(self._broker, HALF_QUEUE, offsets, slices):
                seen = half.queue_offset
                yield half
            return
        except GantryError:
            pass  # read the rest one by one
        for offset in offsets:
            if offset > seen:
                try:
                    async for half in read_these(self._broker, HALF_QUEUE, [offset], slices):
                        yield half
                except GantryError as error:
                    self._postpone(offset, error)

    def _postpone(self, offset: int, error: BaseException) -> None:
        self._postponed += 1
        if self._postponed <= MOST_LOGGED:
            log.error("the undecided message at queue offset %d stays until the next round: %s", offset, error)

    def _judge(self, half: RecordView, now_ms: int, settings: CheckSettings) -> Verdict:
        own, ledger = half.properties, self._ledger
        held_up = self._broker.store.bounds(HALF_QUEUE).max_offset - half.queue_offset
        return judge_check(
            own,
            born_ms=half.born_timestamp,
            now_ms=now_ms,
            checks=self._checks(half),
            reachable=self._producer(own) is not None and real_queue(own) is not None,
            crowded=held_up > max(SLACK, _CARRY_SHARE * ledger.undecided(half.queue_offset + held_up)),
            settings=settings,
        )

    def _checks(self, half: RecordView) -> int:
        checks, offset = checks_of(half.properties), half.queue_offset
        uncertain = offset < self._uncertain.end and half.store_timestamp >= self._uncertain.stored_from_ms
        return checks + self._uncounted.get(offset, -1 if uncertain and checks else 0)

    async def _act(
        self, half: RecordView, verdict: Verdict, settings: CheckSettings, oldest: list[int]
    ) -> asyncio.Future[PutResult | None] | None:
        """Carry out a verdict. Return a future that is done when the result is stored; None if decided meanwhile."""
        offset, ledger = half.queue_offset, self._ledger
        if verdict is not Verdict.CARRY and await committed_message(self._broker, key_of(half.properties)):
            if not ledger.is_open(offset):
                return None
            return self._submit(half, None, half.properties, ask=False)
        if not ledger.is_open(offset):
            return None
        own, checks = dict(half.properties), self._checks(half)
        if verdict is Verdict.GIVE_UP:
            if checks < settings.most_checks:  # too old
                own[CHECK_TIMES] = str(checks + 1)
            log.warning(
                "the transaction %s of producer group %s was not decided after %d checks; it is moved to "
                "TRANS_CHECK_MAX_TIME_TOPIC (gantrymq transactions resume)",
                *(own.get(props.UNIQ_KEY), own.get(props.PRODUCER_GROUP), checks),
            )
            if self._broker.topics.get(CHECK_MAX_TIME_TOPIC) is None:
                self._broker.topics.put(TopicConfig(CHECK_MAX_TIME_TOPIC, 1, 1))
            return self._submit(half, given_up(half, own), own, ask=False)
        oldest.append(half.born_timestamp)
        ask = verdict is Verdict.ASK
        own[CHECK_TIMES] = str(checks + ask)
        message, uncounted = renewed(half, own), 0
        if message.properties == half.properties_bytes:
            uncounted = checks + ask - checks_of(half.properties)
            if ask and offset not in self._uncounted:
                log.warning(
                    "the properties of the half message at queue offset %d have %d bytes, without room for the count "
                    "of its checks; they are counted in memory, and from zero after a restart",
                    *(offset, len(message.properties)),
                )
        return self._submit(half, message, own, ask=ask, uncounted=uncounted)

    def _submit(
        self, half: RecordView, message: StoreMessage | None, own: dict[str, str], *, ask: bool, uncounted: int = 0
    ) -> asyncio.Future[PutResult | None]:
        """Store *message* in place of *half*, then send the check, even if the round has ended or the broker stops.

        *uncounted*: checks missing in the count of *message*.
        """

        def stored(done: asyncio.Future[PutResult | None]) -> None:
            error = done.exception()
            if error is not None:
                self._postpone(half.queue_offset, error)
            elif (copy := done.result()) is not None:
                missing = uncounted - (ask and not self._ask(half, own, copy))
                if missing:
                    self._uncounted[copy.queue_offset] = missing
                if missing == -1:  # store the corrected count for the next start
                    own[CHECK_TIMES] = str(checks_of(own) - 1)
                    with contextlib.suppress(RequestRefused):
                        self._writer.submit([copy.queue_offset], renewed(half, own))

        done = self._writer.submit([half.queue_offset], message)
        done.add_done_callback(stored)
        return done

    def _ask(self, half: RecordView, own: dict[str, str], copy: PutResult) -> bool:
        """Send a check; the renewed half message is at *copy*. Return False if no producer is connected any more."""
        queue = real_queue(own)
        assert queue is not None
        producer = self._producer(own)
        if producer is None:
            return False
        self._turn += 1
        host = self._broker.store_host
        producer.check_transaction(check_of(half, own, queue, copy, host, self._broker_name))
        return True

    def _producer(self, own: dict[str, str]) -> ClientChannel | None:
        """Return a connection to a live producer of the message's group, in round-robin order."""
        online = self._broker.clients.producers(own.get(props.PRODUCER_GROUP, ""))
        for number in range(len(online)):
            producer = online[(self._turn + number) % len(online)]
            connection = producer.connection
            if not self._may_see(producer.principal, own):
                continue
            if not connection.closed and not connection.response_limiter.busy:  # busy: it does not read its responses
                return connection
        return None

    def _may_see(self, principal: Principal | None, own: dict[str, str]) -> bool:
        """Return whether a producer may send to the topic of a half message, and so may get it."""
        try:
            self._broker.access.check_send(principal, own.get(props.REAL_TOPIC, ""))
        except RequestError:
            return False
        return True

    async def _resolve_uncertain(self) -> None:
        """Read the op queue to find out whether unconfirmed appends were stored."""
        broker, ledger = self._broker, self._ledger
        published = broker.store.state().published_offset
        # Selected before the op queue is read, so that the reading covers their op messages.
        clear = [append for append in self._writer.uncertain if append.log_end <= published]
        end = broker.store.bounds(OP_QUEUE).max_offset
        slices = TimeSlices(broker.world.clock, SLICE)
        for start, stop in [*((each, each + 1) for each in ledger.unread_ops(SLICE)), (ledger.ops_seen, end)]:
            async for op in read_from(broker, OP_QUEUE, start, stop, slices):
                named = offsets_in_op(op)
                ledger.op_stored(op.queue_offset, named)
                for offset in named:
                    ledger.settle(offset)
        for append in clear:
            self._writer.uncertain.remove(append)
            for offset in append.offsets:
                if ledger.is_taken(offset):
                    ledger.release(offset)


def retention_hours(broker: BrokerEnvironment) -> int:
    """Return the retention of the log in hours; RocketMQ's default of 72 for a store that keeps it forever."""
    return broker.settings.number(_RESERVED) if _RESERVED in broker.settings.schema else _RESERVED_HOURS
