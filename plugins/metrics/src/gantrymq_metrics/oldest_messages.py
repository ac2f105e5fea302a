"""Store times of the oldest unconsumed messages of groups, reading at most READS messages per scrape.

A store time is cached until the group moves in that queue. If more messages would have to be read, the remaining queues
keep their previous store time, which overstates their lag, and are read first the next time.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from gantrymq.plugin.interfaces import BrokerConsumers
from gantrymq.plugin.model import Queue
from gantrymq.plugin.world import TimeSlices

READS: Final = 2000
_TOGETHER: Final = 16  # reads before the event loop is yielded
_KNOWN_TOGETHER: Final = 500  # cached store times before the event loop is yielded

Pair = tuple[str, str]  # topic and group


class _Known:
    """Cached store times of one group on one topic."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}  # by queue id
        self.stored_ms: dict[int, int] = {}


class OldestMessages:
    """Store times by topic and group and by queue."""

    def __init__(self) -> None:
        self._known: dict[Pair, _Known] = {}
        self._waiting: dict[Pair, list[int]] = {}  # queues that exceeded the limit the last time

    def stored_ms(self, pair: Pair) -> Mapping[int, int]:
        """Return the known store times (ms) of the messages that the last `read` wanted, by queue id."""
        known = self._known.get(pair)
        return {} if known is None else known.stored_ms

    async def read(self, broker: BrokerConsumers, wanted: Mapping[Pair, Mapping[int, int]]) -> None:
        """Read the messages at the queue offsets in *wanted*, and forget all others."""
        slices = TimeSlices(broker.world.clock, _KNOWN_TOGETHER)
        before, self._known = self._known, {}
        first: dict[Pair, list[int]] = {}
        others: dict[Pair, list[int]] = {}
        for pair, offsets in wanted.items():
            known = self._known[pair] = before.get(pair) or _Known()
            for queue_id in [each for each in known.offsets if each not in offsets]:
                del known.offsets[queue_id], known.stored_ms[queue_id]
            waited = set(self._waiting.get(pair, ()))
            for queue_id, queue_offset in offsets.items():
                if known.offsets.get(queue_id) != queue_offset:
                    (first if queue_id in waited else others).setdefault(pair, []).append(queue_id)
                await slices.item_done()
        self._waiting = await self._read(broker, wanted, chain(first.items(), others.items()))

    async def _read(
        self, broker: BrokerConsumers, wanted: Mapping[Pair, Mapping[int, int]], order: chain[tuple[Pair, list[int]]]
    ) -> dict[Pair, list[int]]:
        """Read in this order, and return what exceeds READS."""
        slices, left = TimeSlices(broker.world.clock, _TOGETHER), READS
        for pair, queue_ids in order:
            known = self._known[pair]
            for queue_id in queue_ids[:left]:
                queue_offset = wanted[pair][queue_id]
                stored_ms = await broker.lags.stored_ms(Queue(pair[0], queue_id), queue_offset)
                if stored_ms is None:
                    known.offsets.pop(queue_id, None)
                    known.stored_ms.pop(queue_id, None)
                else:
                    known.offsets[queue_id], known.stored_ms[queue_id] = queue_offset, stored_ms
                await slices.item_done()
            if len(queue_ids) > left:
                waiting = {pair: queue_ids[left:]}
                for pair, queue_ids in order:
                    waiting.setdefault(pair, []).extend(queue_ids)
                return waiting
            left -= len(queue_ids)
        return {}
