"""Block filters in memory, by queue, and the properties they must cover. Pure.

A topic that was deleted and created again starts its queues at 0, and its old filters do not cover the new messages.
Its configuration is then another object. So each filter is stored with the configuration it was added under, and is
dropped when the configuration changes; filters on disk are compared with the messages before use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from gantrymq.model.queue import Queue
from gantrymq_filter_sql92.blocks.block import Block

__all__ = ["MOST_BYTES", "MOST_KEPT", "MOST_NAMES", "BlockTable"]

MOST_KEPT: Final = 16_384  # filters; with 1,024 values each 50 MB
MOST_BYTES: Final = 64 * 1024 * 1024  # of all filters; fewer are kept if blocks are large or have many pairs
MOST_NAMES: Final = 16  # properties of one topic


class BlockTable:
    """Filters by queue and number, and the properties that filters of each topic must cover."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[Queue, int], Block] = OrderedDict()  # least recently used first
        self._bytes = 0
        self._topics: dict[str, object] = {}
        self._names: dict[str, dict[str, float]] = {}  # by topic: each name, and the time it was last used

    def __len__(self) -> int:
        return len(self._blocks)

    def is_of(self, topic: str, config: object) -> None:
        """Register the configuration of *topic*; filters added under another one are dropped."""
        if self._topics.get(topic) is not config:
            self.forget(topic)
            self._topics[topic] = config

    def get(self, queue: Queue, number: int) -> Block | None:
        """Return the filter of a block."""
        block = self._blocks.get((queue, number))
        if block is not None:
            self._blocks.move_to_end((queue, number))
        return block

    def add(self, queue: Queue, number: int, block: Block) -> None:
        """Add a filter; the least recently used ones may be evicted."""
        self._drop((queue, number))
        self._blocks[queue, number] = block
        self._bytes += block.byte_count
        while len(self._blocks) > MOST_KEPT or self._bytes > MOST_BYTES:
            self._drop(next(iter(self._blocks)))

    def forget(self, topic: str) -> None:
        """Drop the filters of *topic*."""
        for key in [key for key in self._blocks if key[0].topic == topic]:
            self._drop(key)
        self._topics.pop(topic, None)

    def deleted(self, topic: str) -> None:
        """Drop the filters of *topic* and its property names."""
        self.forget(topic)
        self._names.pop(topic, None)

    def forget_before(self, firsts: Mapping[Queue, int]) -> None:
        """Drop the filters of blocks before the given first block numbers of their queues."""
        for queue, number in [key for key in self._blocks if key[1] < firsts.get(key[0], 0)]:
            self._drop((queue, number))

    def truncated(self, log_offset: int) -> None:
        """Drop the filters of blocks whose last message is at or after *log_offset*: the log was truncated there."""
        for key in [key for key, block in self._blocks.items() if block.last.log_offset >= log_offset]:
            self._drop(key)

    def _drop(self, key: tuple[Queue, int]) -> None:
        gone = self._blocks.pop(key, None)
        if gone is not None:
            self._bytes -= gone.byte_count

    def want(self, topic: str, names: frozenset[str], now: float) -> None:
        """Record that an expression on *topic* compares these properties. *now*: monotonic s."""
        wanted = self._names.setdefault(topic, {})
        for name in names:
            wanted.pop(name, None)
            wanted[name] = now

    def names(self, topic: str, since: float) -> frozenset[str]:
        """Return the properties used after *since*; the most recently used ones if there are many."""
        wanted = self._names.get(topic, {})
        for name in [name for name, at in wanted.items() if at < since]:
            del wanted[name]
        return frozenset(list(wanted)[-MOST_NAMES:])
