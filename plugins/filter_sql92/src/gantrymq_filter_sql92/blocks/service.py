"""Keeps the block filters of the running broker: settings, events of the store, metrics."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.interfaces import Broker, MetricFamily
from gantrymq.plugin.model import Role
from gantrymq_filter_sql92.blocks.block_filters import BlockFilters, SkippingMessages
from gantrymq_filter_sql92.blocks.keys import required_keys
from gantrymq_filter_sql92.blocks.settings import BYTES, VALUES
from gantrymq_filter_sql92.filter import MatchingMessages

__all__ = ["BlockFilterService"]


class BlockFilterService:
    """The service ``block_filters``; may be started again after a stop, without filters."""

    name = "block_filters"
    roles = frozenset(Role)  # also on a replica

    def __init__(self) -> None:
        self._broker: Broker | None = None
        self._filters: BlockFilters | None = None
        self._revision = -1
        self._cancel: Callable[[], None] = lambda: None

    def filter_of(self, found: MatchingMessages) -> MatchingMessages:
        """Return the filter of an expression that uses block filters, if the expression allows that."""
        required = required_keys(found.expression.tree)
        return found if required is None else SkippingMessages(found.expression, required, self._current)

    async def start(self, broker: Broker) -> None:
        """Start without filters."""
        self._broker, self._revision = broker, -1
        self._filters = filters = BlockFilters()
        self._cancel = broker.topics.on_deleted(filters.deleted)
        for figure in self._metrics(filters):
            broker.metrics.register(figure)

    async def stop(self) -> None:
        """Forget the filters. Idempotent."""
        self._cancel()
        self._broker = self._filters = None

    def _current(self) -> BlockFilters | None:
        broker, filters = self._broker, self._filters
        if broker is not None and filters is not None and self._revision != broker.settings.revision:
            self._revision = broker.settings.revision
            filters.limit(broker.settings.number(BYTES), broker.settings.number(VALUES))
        return filters

    def _metrics(self, filters: BlockFilters) -> list[Callable[[], MetricFamily]]:
        def asked() -> MetricFamily:
            text = "Block filters that SQL92 pulls asked: hit: the block was skipped; miss: it was read."
            values: dict[tuple[str, ...], float] = {("hit",): filters.hits, ("miss",): filters.misses}
            return MetricFamily("gantrymq_filter_blocks_asked_total", text, ("outcome",), values, counter=True)

        def size() -> MetricFamily:
            self._current()  # applies a lower limit
            text = "Memory of block filters, bytes."
            return MetricFamily("gantrymq_filter_blocks_bytes", text, (), {(): filters.bytes})

        return [asked, size]
