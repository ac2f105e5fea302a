"""Transactions for operators: pages of undecided or given-up transactions, and the details of one.

A page reads a bounded number of messages; ``next`` is the queue offset at which to continue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gantrymq.errors import RequestRefused
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.model import Queue, offset_id
from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from gantrymq.plugin.world import TimeSlices
from gantrymq_transaction.copies import WAITING, by_unique_id
from gantrymq_transaction.messages import asks_for_delay
from gantrymq_transaction.reading import HALF_QUEUE, SLICE, read_these
from gantrymq_transaction.rules import SYSTEM_ERROR, checks_of
from gantrymq_transaction.service import RocketTransactions

_PAGE: Final = 1000  # maximum transactions per page
_LOOKED_AT: Final = 10_000  # messages read per page
_GIVEN_UP_QUEUE: Final = Queue(CHECK_MAX_TIME_TOPIC, 0)


class TransactionQuery(NamedTuple):
    """Parameters of a page."""

    start: int  # queue offset
    most: int
    group: str
    topic: str
    given_up: bool

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> TransactionQuery:
        """Parse the body of a request. Raises RequestRefused."""
        start, count = body.get("start", 0), body.get("count", 100)
        group, topic, given_up = body.get("group") or "", body.get("topic") or "", body.get("given_up", False)
        if not isinstance(start, int) or not isinstance(count, int) or start < 0 or not 1 <= count <= _PAGE:
            raise RequestRefused(
                SYSTEM_ERROR,
                f"start={start!r} count={count!r}: a page starts at 0 or later and has 1 to {_PAGE} entries",
            )
        if not isinstance(group, str) or not isinstance(topic, str) or not isinstance(given_up, bool):
            raise RequestRefused(SYSTEM_ERROR, "group and topic have to be texts, given_up true or false")
        return cls(start, count, group, topic, given_up)


async def page(service: RocketTransactions, wanted: TransactionQuery) -> dict[str, Any]:
    """Return a page of undecided or given-up transactions."""
    broker, ledger = service.broker, service.ledger
    slices = TimeSlices(broker.world.clock, SLICE)
    queue = _GIVEN_UP_QUEUE if wanted.given_up else HALF_QUEUE
    end = broker.store.bounds(queue).max_offset
    found: list[dict[str, Any]] = []
    start, left = wanted.start, _LOOKED_AT
    while start < end and left > 0 and len(found) < wanted.most:
        if wanted.given_up:
            offsets = list(range(start, min(end, start + SLICE)))
        else:
            offsets = ledger.open_offsets(start, end, SLICE)
        if not offsets:
            start = end
            break
        left -= len(offsets)
        async for record in read_these(broker, queue, offsets, slices):
            start = record.queue_offset + 1
            if _is(record, wanted):
                found.append(_described(record, broker.store_host, None if wanted.given_up else service))
                if len(found) == wanted.most:
                    break
        else:
            start = offsets[-1] + 1
    undecided = service.undecided()
    return {
        "transactions": found,
        "next": start if start < end else None,
        "undecided": undecided.count,
        "oldest_born_ms": undecided.oldest_born_ms,
    }


async def details(service: RocketTransactions, unique_id: str) -> dict[str, Any]:
    """Return all messages of the transactions with a unique id."""
    broker, ledger = service.broker, service.ledger
    found = await by_unique_id(broker, unique_id, HALF_TOPIC)
    halves = [
        {
            **_described(half, broker.store_host, service if ledger.is_open(half.queue_offset) else None),
            "undecided": ledger.is_open(half.queue_offset),
        }
        for half in found
    ]
    topics = sorted({str(half["topic"]) for half in halves})
    given_up = await by_unique_id(broker, unique_id, CHECK_MAX_TIME_TOPIC)
    committed = [each for topic in topics for each in await by_unique_id(broker, unique_id, topic, committed=True)]
    if not committed and any(asks_for_delay(half.properties) for half in found):
        committed = [each for topic in WAITING for each in await by_unique_id(broker, unique_id, topic, committed=True)]
    return {
        "half_messages": halves,
        "committed": [_placed(record, broker.store_host) for record in committed],
        "given_up": [_described(record, broker.store_host) for record in given_up],
    }


def _is(record: RecordView, wanted: TransactionQuery) -> bool:
    own = record.properties
    return (not wanted.group or own.get(props.PRODUCER_GROUP) == wanted.group) and (
        not wanted.topic or own.get(props.REAL_TOPIC) == wanted.topic
    )


def _placed(record: RecordView, host: bytes) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "queue": record.queue_id,
        "queue_offset": record.queue_offset,
        "offset_id": offset_id(host, record.log_offset),
        "stored_ms": record.store_timestamp,
    }


def _described(record: RecordView, host: bytes, undecided_at: RocketTransactions | None = None) -> dict[str, Any]:
    """Describe a half message; for an undecided one, *undecided_at* computes the time of the next check."""
    own, born_ms = record.properties, record.born_timestamp
    return {
        "unique_id": own.get(props.UNIQ_KEY, ""),
        "offset_id": offset_id(host, record.log_offset),
        "half_queue_offset": record.queue_offset,
        "producer_group": own.get(props.PRODUCER_GROUP, ""),
        "topic": own.get(props.REAL_TOPIC, ""),
        "queue": own.get(props.REAL_QUEUE_ID, ""),
        "tags": own.get(props.TAGS, ""),
        "keys": own.get(props.KEYS, ""),
        "checks": checks_of(own),
        "next_check_ms": None if undecided_at is None else undecided_at.next_check_ms(own, born_ms),
        "born_ms": born_ms,
        "stored_ms": record.store_timestamp,
        "bytes": record.total_size,
    }
