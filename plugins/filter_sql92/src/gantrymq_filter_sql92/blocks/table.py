"""Which block filters are in memory, by queue, and what is asked of them. Pure.

A topic that was deleted and made anew begins its queues again, and its old filters know nothing of the new messages.
The configuration of a topic is another object then, so filters are kept with the one that they were taken in under, and
let go when it changes; what is on disk is compared with the messages before it is believed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from gantrymq.model.queue import Queue
from gantrymq_filter_sql92.blocks.block import Block

__all__ = ["MOST_BYTES", "MOST_KEPT", "MOST_NAMES", "BlockTable"]

MOST_KEPT: Final = 16_384  # filters; with 1,024 values each 50 MB
MOST_BYTES: Final = 64 * 1024 * 1024  # of all filters' bits: fewer are kept where blocks are large or have many pairs
MOST_NAMES: Final = 16  # properties of one topic


class BlockTable:
    """Filters by queue and number, and the properties that they are to know."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[Queue, int], Block] = OrderedDict()  # least recently used first
        self._bytes = 0
        self._topics: dict[str, object] = {}
        self._names: dict[str, dict[str, float]] = {}  # by topic: each name, and when it was wanted last

    def __len__(self) -> int:
        return len(self._blocks)

    def is_of(self, topic: str, config: object) -> None:
        """Filters of *topic* are wanted while *config* is its configuration; those from under another one are gone."""
        if self._topics.get(topic) is not config:
            self.forget(topic)
            self._topics[topic] = config

    def get(self, queue: Queue, number: int) -> Block | None:
        """The filter of a block."""
        block = self._blocks.get((queue, number))
        if block is not None:
            self._blocks.move_to_end((queue, number))
        return block

    def add(self, queue: Queue, number: int, block: Block) -> None:
        """Take a filter in; those that were used longest ago may have to go."""
        self._drop((queue, number))
        self._blocks[queue, number] = block
        self._bytes += block.byte_count
        while len(self._blocks) > MOST_KEPT or self._bytes > MOST_BYTES:
            self._drop(next(iter(self._blocks)))

    def forget(self, topic: str) -> None:
        """Let go of the filters of *topic*."""
        for key in [key for key in self._blocks if key[0].topic == topic]:
            self._drop(key)
        self._topics.pop(topic, None)

    def deleted(self, topic: str) -> None:
        """Let go of the filters of *topic*, and of what was asked of them."""
        self.forget(topic)
        self._names.pop(topic, None)

    def forget_before(self, firsts: Mapping[Queue, int]) -> None:
        """Let go of the filters of blocks before the first ones of their queues, by number."""
        for queue, number in [key for key in self._blocks if key[1] < firsts.get(key[0], 0)]:
            self._drop((queue, number))

    def _drop(self, key: tuple[Queue, int]) -> None:
        gone = self._blocks.pop(key, None)
        if gone is not None:
            self._bytes -= gone.byte_count

    def want(self, topic: str, names: frozenset[str], now: float) -> None:
        """An expression on *topic* compares these properties. *now*: monotonic s."""
        wanted = self._names.setdefault(topic, {})
        for name in names:
            wanted.pop(name, None)
            wanted[name] = now

    def names(self, topic: str, since: float) -> frozenset[str]:
        """The properties that were wanted after *since*, those that were wanted last where there are many."""
        wanted = self._names.get(topic, {})
        for name in [name for name, at in wanted.items() if at < since]:
            del wanted[name]
        return frozenset(list(wanted)[-MOST_NAMES:])
