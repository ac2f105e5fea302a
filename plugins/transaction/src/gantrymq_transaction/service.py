"""The transaction service ``rocketmq``: half and op messages in RocketMQ's topics, compatible with a Java broker.

A Java broker can take over the store at any time, and vice versa: the undecided transactions follow from the two queues
and the two offsets of group CID_RMQ_SYS_TRANS.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageServiceImpl.java.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import attrs

from gantrymq.errors import RequestNotSupported, ServiceNotAvailable
from gantrymq.plugin.interfaces import (
    Broker,
    BrokerCluster,
    EndTransaction,
    MetricFamily,
    Outcome,
    PutResult,
    StoreMessage,
)
from gantrymq.plugin.model import Role
from gantrymq.plugin.names import HALF_TOPIC
from gantrymq.plugin.sys_flag import TRANSACTION_MASK
from gantrymq.plugin.world import TimeSlices
from gantrymq_transaction.decision_handler import DecisionHandler
from gantrymq_transaction.decision_writer import DecisionWriter
from gantrymq_transaction.half_checker import GROUP, HalfChecker, uncertain_checks
from gantrymq_transaction.half_escape import HalfEscape
from gantrymq_transaction.half_text import HalfTextWriter
from gantrymq_transaction.ledger import Ledger
from gantrymq_transaction.messages import offsets_in_op
from gantrymq_transaction.reading import HALF_QUEUE, OP_QUEUE, SLICE, read_from
from gantrymq_transaction.recent_halves import RecentHalves
from gantrymq_transaction.rules import next_check_ms
from gantrymq_transaction.settings import TIMEOUT

log = logging.getLogger(__name__)


@attrs.frozen
class UndecidedStats:
    """Number and age of undecided transactions."""

    count: int
    oldest_born_ms: int | None  # as of the last check round; None if it left none


class _Running(NamedTuple):
    """Components that exist while the broker runs."""

    broker: Broker
    ledger: Ledger
    writer: DecisionWriter
    recent: RecentHalves
    decisions: DecisionHandler
    checker: HalfChecker
    escape: HalfEscape | None  # on an acting master


class RocketTransactions:
    """The service; see `gantrymq.interfaces.TransactionService` for its methods."""

    roles = frozenset({Role.MASTER, Role.ACTING_MASTER})

    def __init__(self) -> None:
        self._texts = HalfTextWriter()
        self._running: _Running | None = None
        self._refusal = ""  # why half messages are refused; empty: they are accepted
        self._last_round_ms = 0  # time of the last check round, or of the start before the first one

    async def start(self, broker: Broker) -> None:
        """Find the undecided transactions."""
        if broker.store_capabilities.key_queries is None:
            self._refusal = (
                "transactions need a store with queries by key, which the broker's store does not support; a broker "
                "with store=mmap does"
            )
        half, op = broker.store.bounds(HALF_QUEUE), broker.store.bounds(OP_QUEUE)
        ledger = Ledger(
            max(half.min_offset, broker.offsets.committed(GROUP, HALF_QUEUE) or 0),
            max(op.min_offset, broker.offsets.committed(GROUP, OP_QUEUE) or 0),
        )
        slices = TimeSlices(broker.world.clock, SLICE)
        async for each in read_from(broker, OP_QUEUE, ledger.op_offset, op.max_offset, slices, most=1024):
            named = offsets_in_op(each)
            ledger.op_stored(each.queue_offset, named)
            for offset in named:
                if offset < half.max_offset:
                    ledger.settle(offset)
        ledger.advance(half.max_offset)
        writer, recent = DecisionWriter(broker, ledger), RecentHalves()
        name = broker.settings.text("brokerName") or broker.world.host_name
        self._running = _Running(
            *(broker, ledger, writer, recent),
            DecisionHandler(broker, ledger, writer, recent, half.max_offset),
            HalfChecker(broker, ledger, writer, name, await uncertain_checks(broker)),
            HalfEscape(broker, ledger) if broker.role.current is Role.ACTING_MASTER else None,
        )
        self._last_round_ms = broker.world.clock.now_ms()
        _register_metrics(broker, self.undecided)
        waiting = ledger.undecided(half.max_offset)
        if waiting:
            log.info("%d transactions are undecided; their producers will be checked", waiting)

    async def stop(self) -> None:
        """Store pending decisions and the positions."""
        running = self._running
        if running is not None:
            await running.writer.close()
            running.checker.save_positions()
            self._running = None

    def prepare(self, message: StoreMessage) -> StoreMessage:
        """Return the half message to store in place of *message*. Raises MessageIllegal and RequestNotSupported."""
        if self._refusal:
            raise RequestNotSupported(self._refusal)
        message.properties = self._texts.of(message.properties, message.topic, message.queue_id)
        message.topic, message.queue_id = HALF_TOPIC, 0
        message.sys_flag &= ~TRANSACTION_MASK
        if self._running is not None:
            self._running.writer.flush_with_half()
        return message

    def prepare_together(
        self, messages: Sequence[StoreMessage], unique_ids: Sequence[bytes]
    ) -> Callable[[Sequence[PutResult]], object] | None:
        """Change *messages* into half messages; see `gantrymq.interfaces.BatchingTransactionService`."""
        running = self._running
        before, *after = messages[0].properties.split(unique_ids[0])
        if self._refusal or running is None or len(after) != 1:
            return None
        topic, plans = messages[0].topic, {}
        for queue_id in {message.queue_id for message in messages}:
            if (plan := self._texts.plan(before, after[0], topic, queue_id)) is None:
                return None
            plans[queue_id] = plan
        flags = messages[0].sys_flag & ~TRANSACTION_MASK
        targets = []
        for message, unique_id in zip(messages, unique_ids, strict=True):
            pieces, target = plans[message.queue_id]
            message.properties = unique_id.join(pieces)
            message.topic, message.queue_id, message.sys_flag = HALF_TOPIC, 0, flags
            targets.append(target)
        running.writer.flush_with_half()
        return partial(running.recent.add, messages, targets)

    def end_together(self, requests: Iterable[EndTransaction], gated: bool) -> int:
        """Commit or roll back the first of *requests*; see `gantrymq.interfaces.BatchingTransactionService`."""
        return 0 if self._running is None else self._running.decisions.end_together(requests, gated)

    def end(self, request: EndTransaction) -> Awaitable[Outcome]:
        """Commit or roll back. Raises RequestError."""
        return self._now().decisions.end(request)

    async def check(self, now_ms: int) -> None:
        """Run a round of checks."""
        self._last_round_ms = now_ms
        running = self._now()
        if running.escape is None:
            await running.checker.round(now_ms)
        else:
            await running.escape.round(now_ms)
            running.checker.save_positions()

    # --- for operators ----------------------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker:
        """The broker. Raises ServiceNotAvailable while the service is not running."""
        return self._now().broker

    @property
    def ledger(self) -> Ledger:
        """The ledger of undecided messages. Raises ServiceNotAvailable while the service is not running."""
        return self._now().ledger

    def next_check_ms(self, own: Mapping[str, str], born_ms: int) -> int:
        """Return the time of the next possible check of an undecided message; see `rules.next_check_ms`."""
        settings = self.broker.settings
        return next_check_ms(
            own,
            born_ms=born_ms,
            timeout_ms=settings.number(TIMEOUT),
            last_round_ms=self._last_round_ms,
            interval_ms=settings.number("transactionCheckInterval"),
        )

    def undecided(self) -> UndecidedStats:
        """Return statistics of undecided transactions; empty before the start."""
        running = self._running
        if running is None:
            return UndecidedStats(0, None)
        count = running.ledger.undecided(running.broker.store.bounds(HALF_QUEUE).max_offset)
        return UndecidedStats(count, running.checker.oldest_born_ms if count else None)

    def _now(self) -> _Running:
        if self._running is None:
            raise ServiceNotAvailable(
                "this broker's transactions are served by another plugin, or it is a replica, or it starts or stops"
            )
        return self._running


def _register_metrics(broker: BrokerCluster, undecided: Callable[[], UndecidedStats]) -> None:
    """Register the metrics with the broker."""

    def count() -> MetricFamily:
        text = "Undecided half messages."
        return MetricFamily("gantrymq_transactions_undecided", text, (), {(): undecided().count})

    def oldest() -> MetricFamily:
        born_ms = undecided().oldest_born_ms
        age_s = 0.0 if born_ms is None else max(0.0, (broker.world.clock.now_ms() - born_ms) / 1000)
        text = "Age of the oldest transaction that the last check left undecided."
        return MetricFamily("gantrymq_transactions_oldest_seconds", text, (), {(): age_s})

    broker.metrics.register(count)
    broker.metrics.register(oldest)
