"""Filters of a query that reduce what is read. Spark applies all of them again, so extra rows are harmless.

    topic, brokerName, queueId    =, IN                    queues to skip
    queueOffset                   =, <, <=, >, >=          ends of ranges
    storeTimestamp                =, <, <=, >, >=          ends of ranges, by the broker's offset lookup by time
    tags                          =, IN                    tag expression, unless the options have a filter

Store times ascend within a queue as long as its broker's clock does; brokers rely on that too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import attrs

from gantrymq.plugin.model import ALL, MessageQueue

_KINDS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "In": "in",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_QUEUE_COLUMNS: dict[str, tuple[str, type]] = {  # column: field of PushedFilters, type
    "topic": ("topics", str),
    "brokerName": ("brokers", str),
    "queueId": ("queue_ids", int),
}


@attrs.frozen
class PushedFilters:
    """The remaining scan; ends are exclusive."""

    topics: frozenset[Any] | None = None
    brokers: frozenset[Any] | None = None
    queue_ids: frozenset[Any] | None = None
    first_offset: int = 0
    end_offset: int | None = None
    first_ms: int | None = None
    end_ms: int | None = None
    expression: str = ALL

    def wants(self, queue: MessageQueue) -> bool:
        """Return whether *queue* can have matching rows."""
        pairs = ((self.topics, queue.topic), (self.brokers, queue.broker_name), (self.queue_ids, queue.queue_id))
        return all(wanted is None or value in wanted for wanted, value in pairs)


def push_filters(filters: Iterable[Any]) -> PushedFilters:
    """Return the scan that remains after *filters* (pyspark's, all of which must hold)."""
    found = PushedFilters()
    for each in filters:
        kind = _KINDS.get(type(each).__name__)
        column: tuple[str, ...] = getattr(each, "attribute", ())
        if kind is None or len(column) != 1:
            continue
        values = tuple(each.value) if kind == "in" else (each.value,)
        if column[0] in _QUEUE_COLUMNS and kind in ("=", "in"):
            field, of = _QUEUE_COLUMNS[column[0]]
            if all(type(value) is of for value in values):
                before = getattr(found, field)
                both = frozenset(values) if before is None else before & frozenset(values)
                changed: dict[str, Any] = {field: both}
                found = attrs.evolve(found, **changed)
        elif column[0] == "queueOffset" and kind != "in" and type(values[0]) is int:
            found = _offsets(found, kind, values[0])
        elif column[0] == "storeTimestamp" and kind != "in" and isinstance(values[0], datetime):
            found = _times(found, kind, values[0])
        elif column[0] == "tags" and kind in ("=", "in") and found.expression == ALL and _are_tags(values):
            found = attrs.evolve(found, expression=" || ".join(sorted(values)))
    return found


def _offsets(found: PushedFilters, kind: str, value: int) -> PushedFilters:
    first, end = found.first_offset, found.end_offset
    if kind in ("=", ">", ">="):
        first = max(first, value + (kind == ">"))
    if kind in ("=", "<", "<="):
        limit = max(0, value + (kind != "<"))
        end = limit if end is None else min(end, limit)
    return attrs.evolve(found, first_offset=first, end_offset=end)


def _times(found: PushedFilters, kind: str, moment: datetime) -> PushedFilters:
    """Convert to milliseconds, rounded so that no row is missed."""
    micros = _micros(moment)
    first, end = found.first_ms, found.end_ms
    if kind in ("=", ">", ">="):
        begin = max(0, micros // 1000 + (kind == ">" and micros % 1000 == 0))
        first = begin if first is None else max(first, begin)
    if kind in ("=", "<", "<="):
        limit = max(0, -(-micros // 1000) + (kind != "<" and micros % 1000 == 0))
        end = limit if end is None else min(end, limit)
    return attrs.evolve(found, first_ms=first, end_ms=end)


def _micros(moment: datetime) -> int:
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _are_tags(values: tuple[Any, ...]) -> bool:
    """Return whether a tag expression can name all *values*."""
    return bool(values) and all(
        type(value) is str and value and value == value.strip() and "||" not in value and value != ALL
        for value in values
    )
