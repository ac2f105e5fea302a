"""Builds block filters, keeps them, and uses them in pulls.

A block gets its filter when it is complete while some group filters its topic by an equality, or later, when a pull
would have used it. Filters are built one at a time, in a thread, from properties read in short steps; each build is
followed by a pause of the same length. A pull never waits for a filter: without one it reads the block.

A filter from disk is compared with the last message of its block before it is used. Filters are removed with retention,
with their topic, and when they are damaged; all of them can be deleted at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from gantrymq.errors import StoreError
from gantrymq.interfaces import Broker, MessageFilter
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq.model.subscription import Subscription
from gantrymq.world import Timer
from gantrymq_filter_sql92.blocks.block import Block, build_block
from gantrymq_filter_sql92.blocks.counters import BlockCounters, block_metrics
from gantrymq_filter_sql92.blocks.files import BlockFiles
from gantrymq_filter_sql92.blocks.property_reader import last_message, property_texts
from gantrymq_filter_sql92.blocks.settings import ENABLED, ENTRIES, ERROR_PERCENT
from gantrymq_filter_sql92.blocks.skipping import EVERYTHING, SkippingFilter
from gantrymq_filter_sql92.blocks.table import BlockTable
from gantrymq_filter_sql92.equalities import required_equalities
from gantrymq_filter_sql92.expression import CompiledExpression

__all__ = ["BlockFilters"]

log = logging.getLogger(__name__)

TICK_S: Final = 1.0
CLEAN_TICKS: Final = 600
WANTED_S: Final = 600.0  # s that a topic counts as filtered after a pull
MOST_KEYS_CHECKED: Final = 1024  # blocks per call: 1 ms
MOST_WAITING: Final = 8192  # blocks waiting for a filter
LOADED_AT_ONCE: Final = 64  # files


class _Work(NamedTuple):
    queue: Queue
    number: int


class BlockFilters:
    """The service ``filter_blocks``; may be started again after a stop."""

    name = "filter_blocks"
    roles = frozenset(Role)  # also on a replica

    def __init__(self) -> None:
        self.counts = BlockCounters()
        self._table = BlockTable()
        self._broker: Broker | None = None
        self._waiting: dict[_Work, None] = {}  # in the order of requests
        self._asked: dict[Queue, tuple[float, int]] = {}  # time of the last pull, number of complete blocks
        self._working: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._truncations = 0  # of the log: filters made from the messages before one are not used after it
        self._end_listening: Callable[[], None] = lambda: None
        self._ticks = 0
        self._clean_due = False
        self._told = False  # whether writing files failed, which is logged once

    # --- called by filters ------------------------------------------------------------------------------------------

    def filter_of(
        self, subscription: Subscription, expression: CompiledExpression, inner: MessageFilter
    ) -> MessageFilter:
        """Return the filter of a subscription, which checks the equalities its *expression* requires before *inner*."""
        if subscription.topic.startswith(RETRY_PREFIX):  # filters by the original topics of the messages
            return inner
        matches = getattr(inner, "match_properties", expression.matches)
        matching = getattr(inner, "match_slice", expression.matching)
        return SkippingFilter(inner, matches, matching, required_equalities(expression.tree), self, self.counts)

    def candidates(self, asker: SkippingFilter, queue: Queue, queue_offset: int) -> tuple[int, int]:
        """As `gantrymq.interfaces.PropertiesFilter.candidates`; budget 3 us, and 1 us per key of each skipped block."""
        broker, keys = self._broker, asker.keys
        if broker is None or keys is None or not broker.settings.flag(ENABLED):
            return queue_offset, EVERYTHING
        table, counts = self._table, self.counts
        table.is_of(queue.topic, broker.topics.get(queue.topic))
        number = queue_offset // self._entries
        left = max(1, MOST_KEYS_CHECKED // max(1, len(keys)))
        known = False
        while left:
            left -= 1
            block = table.get(queue, number)
            known = block is not None and asker.names <= block.names
            if block is None or not known:
                self._missing(asker, queue, number)
                break
            counts.checked += 1
            if block.may_hold(keys):
                break
            counts.skipped += 1
            known = False
            number += 1
        start = number * self._entries
        if asker.reads(queue, number, from_start=queue_offset <= start, known=known):
            counts.false_positives += 1
        return max(queue_offset, start), start + self._entries

    def _missing(self, asker: SkippingFilter, queue: Queue, number: int) -> None:
        """Record that a pull would have used the filter of a block."""
        assert self._broker is not None
        now, complete = self._broker.world.clock.monotonic(), self._complete(queue)
        self._table.want(queue.topic, asker.names, now)
        _, noted = self._asked.get(queue, (now, complete))
        self._asked[queue] = now, noted
        if number < complete:
            self._wait_for(_Work(queue, number))

    def _complete(self, queue: Queue) -> int:
        """Return the number of complete blocks of a queue, from offset 0 on."""
        assert self._broker is not None
        return self._broker.store.bounds(queue).max_offset // self._entries

    # --- life cycle -------------------------------------------------------------------------------------------------

    async def start(self, broker: Broker) -> None:
        """Start building filters."""
        self._entries = broker.settings.number(ENTRIES)
        folder = broker.state_folder("filter_sql92") / "blocks"
        self._files = BlockFiles(broker.world.files, folder, self._entries)
        for figure in block_metrics(self.counts, lambda: len(self._table)):
            broker.metrics.register(figure)
        broker.topics.on_deleted(self._table.deleted)
        if (raw_log := broker.store.raw_log) is not None:
            self._end_listening = raw_log.on_truncated(self._truncated)
        self._broker = broker
        self._timer = broker.world.clock.call_later(TICK_S, self._tick)

    async def stop(self) -> None:
        """Stop using filters. Idempotent."""
        self._broker = None
        self._end_listening()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        self._asked.clear()
        if self._working is not None:
            await asyncio.wait([self._working])
        self._table = BlockTable()

    def _truncated(self, log_offset: int) -> None:
        self._truncations += 1
        self._table.truncated(log_offset)

    def _tick(self) -> None:
        broker = self._broker
        assert broker is not None
        self._timer = broker.world.clock.call_later(TICK_S, self._tick)
        self._ticks += 1
        if broker.settings.flag(ENABLED):
            self._see_complete(broker.world.clock.monotonic())
        if self._ticks % CLEAN_TICKS == 1:
            self._clean_due = True
            self._begin()

    def _see_complete(self, now: float) -> None:
        """Return the complete blocks of recently pulled queues."""
        for queue, (at, noted) in list(self._asked.items()):
            complete = self._complete(queue)
            if now - at > WANTED_S:
                del self._asked[queue]
            elif complete != noted:
                self._asked[queue] = at, complete
                for number in range(noted, complete):
                    self._wait_for(_Work(queue, number))

    # --- building ---------------------------------------------------------------------------------------------------

    def _wait_for(self, work: _Work) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._waiting[work] = None
            self._begin()

    def _begin(self) -> None:
        if self._working is None:
            self._working = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while (self._waiting or self._clean_due) and (broker := self._broker) is not None:
                if self._clean_due:
                    self._clean_due = False
                    await self._clean(broker)
                    continue
                work = next(iter(self._waiting))
                clock = broker.world.clock
                began = clock.monotonic()
                try:
                    await self._serve(broker, work)
                except (StoreError, OSError) as error:
                    self._tell(f"the filter of block {work.number} of {work.queue} cannot be made: {error}")
                finally:
                    self._waiting.pop(work, None)
                await clock.sleep(clock.monotonic() - began)
        except Exception:
            log.exception("block filters: making them failed")
        finally:
            self._working = None

    async def _serve(self, broker: Broker, work: _Work) -> None:
        """Load the filter of a block and the following filters on disk; build it if there is none."""
        queue, number = work
        names = self._table.names(queue.topic, broker.world.clock.monotonic() - WANTED_S)
        topic = broker.topics.get(queue.topic)
        if topic is None or not names or not self._lacks(queue, number, names):
            return
        loaded, damaged = await broker.world.workers.run(self._files.load, queue, number, LOADED_AT_ONCE)
        self.counts.dropped += damaged
        for block in loaded:
            await self._take_in(broker, queue, block)
        if self._lacks(queue, number, names):
            known, truncations = self._table.get(queue, number), self._truncations
            block_made = await self._made(broker, queue, number, names | (known.names if known else frozenset()))
            same = broker.topics.get(queue.topic) is topic and truncations == self._truncations
            if block_made is not None and same and self._broker is broker:
                self._table.is_of(queue.topic, topic)
                self._table.add(queue, number, block_made)
                self.counts.made += 1
                try:
                    await broker.world.workers.run(self._files.save, queue, block_made)
                except OSError as error:
                    self._tell(f"block filters cannot be written and are kept in memory: {error}")

    def _lacks(self, queue: Queue, number: int, names: frozenset[str]) -> bool:
        block = self._table.get(queue, number)
        return block is None or not names <= block.names

    async def _take_in(self, broker: Broker, queue: Queue, block: Block) -> None:
        """Use a filter from disk if its block still ends with the same message."""
        number, topic = block.first // self._entries, broker.topics.get(queue.topic)
        if not self._lacks(queue, number, block.names):
            return
        truncations = self._truncations
        last = await last_message(broker.store, queue, block.first + block.entries - 1)
        same = broker.topics.get(queue.topic) is topic and truncations == self._truncations
        if not same or self._broker is not broker:
            return
        if last == block.last:
            self._table.is_of(queue.topic, topic)
            self._table.add(queue, number, block)
        else:
            self.counts.dropped += 1
            await broker.world.workers.run(self._files.remove, queue, block.first)

    async def _made(self, broker: Broker, queue: Queue, number: int, names: frozenset[str]) -> Block | None:
        """Build the filter of a complete block; None if messages are missing."""
        first = number * self._entries
        last = await last_message(broker.store, queue, first + self._entries - 1)
        texts = await property_texts(broker.store, queue, first, self._entries) if last is not None else None
        if last is None or texts is None:
            return None
        percent = broker.settings.number(ERROR_PERCENT)
        return await broker.world.workers.run(build_block, first, self._entries, last, texts, names, percent)

    async def _clean(self, broker: Broker) -> None:
        """Remove filters of expired messages and of deleted topics and queues."""
        run = broker.world.workers.run
        firsts: dict[Queue, int] = {}
        try:
            for queue in await run(self._files.queues):
                topic, bounds = broker.topics.get(queue.topic), broker.store.bounds(queue)
                gone = topic is None or not bounds.max_offset
                await run(self._files.clean, queue, None if gone else bounds.min_offset)
                firsts[queue] = bounds.min_offset // self._entries
            self._table.forget_before(firsts)
        except OSError as error:
            self._tell(f"block filters cannot be removed: {error}")

    def _tell(self, problem: str) -> None:
        if not self._told:
            log.warning("%s", problem)
        self._told = True
