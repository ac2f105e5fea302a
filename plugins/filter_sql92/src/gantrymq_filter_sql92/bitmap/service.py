"""Keeps the filters of groups and adds their bits to new messages.

The file determines the meaning of bits: after a crash the groups are known as the file has them. Therefore a topic's
new messages get no bits while a change of its filters is not on disk. Messages without bits are always evaluated.

Source: apache/rocketmq broker/.../client/DefaultConsumerIdsChangeListener.java, BrokerController.java
(initializeBrokerScheduledTasks).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gantrymq.errors import GantryError, StoreError
from gantrymq.plugin.interfaces import Broker, BrokerEnvironment, ClientChannel, Heartbeat, MessageFilter, SliceFilter
from gantrymq.plugin.model import Role, Subscription
from gantrymq.plugin.names import RETRY_PREFIX
from gantrymq.plugin.world import Timer, TimeSlices
from gantrymq_filter_sql92.bitmap.filter_data import BloomFilter, FilterData
from gantrymq_filter_sql92.bitmap.filter_table import FILE, MOST_FILTERS, FilterTable, load_table, save_table
from gantrymq_filter_sql92.bitmap.message_filter import (
    BitMapCounters,
    BitMapFilter,
    EvaluationTime,
    Matches,
    RetryFilter,
    TopicBits,
    bit_map_metrics,
)
from gantrymq_filter_sql92.bitmap.queue_entries import QueueEntries

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0
_MOST_READY: Final = MOST_FILTERS + 1000  # expressions; unused ones are evicted first
_LEAST_READY: Final = 16  # expressions to keep beyond the number of filters
_COMPILED_A_TURN: Final = 16
_CLEAN_TICKS: Final = 10  # s between saves of changes that do not affect the meaning of bits


class FilterBitMap:
    """The service ``filter_bitmap``; may be started again after a stop."""

    name = "filter_bitmap"
    roles = frozenset(Role)  # also on a replica

    def __init__(self, type_name: str, compiled: Callable[[str], Matches]) -> None:
        """*compiled*: compile an expression to a predicate; raises a GantryError if it is invalid."""
        self.counts = BitMapCounters()
        self.queue_entries = QueueEntries(self._data)
        self._type_name = type_name
        self._compiled = compiled
        self._broker: Broker | None = None
        self._ready: dict[str, Matches | None] = {}  # by expression; None: it does not compile
        self._unwritten: set[str] = set()  # topics with filters that differ from those on disk
        self._saving: asyncio.Task[None] | None = None
        self._starting: set[asyncio.Task[None]] = set()  # topics that get bits again, after a time without
        self._timer: Timer | None = None
        self._ticks = 0
        self._latest_ms = 0

    # --- called by the filter type ----------------------------------------------------------------------------------

    def filter_of(self, subscription: Subscription, expression: SliceFilter) -> MessageFilter:
        """Return the *expression* of a subscription, combined with the bits of its group if there are any."""
        topic, group = subscription.topic, subscription.group
        found = BitMapFilter(expression, subscription.expression, lambda: self._data(topic, group), self.counts)
        if topic.startswith(RETRY_PREFIX):
            return RetryFilter(found, self._filters_retries, lambda first: self._matches_of_first(first, group))
        return found

    def _data(self, topic: str, group: str) -> FilterData | None:
        return self._table.get(topic, group) if self._broker is not None else None

    def _filters_retries(self) -> bool:
        return self._broker is not None and self._broker.settings.flag("filterSupportRetry")

    def _matches_of_first(self, topic: str, group: str) -> Matches | None:
        data = self._data(topic, group)
        return None if data is None else self._matches_of(data)

    # --- life cycle -------------------------------------------------------------------------------------------------

    async def start(self, broker: Broker) -> None:
        """Load the filters from disk and start.

        Raises:
            StoreError: consumerFilter.json cannot be read.
        """
        self._folder = broker.root / "config"
        self._table = table = FilterTable(self._bloom(broker), self._type_name, self._compiles)
        world = broker.world
        try:
            await world.workers.run(load_table, world.files, self._folder, table, world.clock.now_ms())
        except OSError as error:
            path = self._folder / FILE
            raise StoreError(f"{path} cannot be read: {error.strerror or error}; repair or move it away") from error
        self._time = EvaluationTime(world.clock.monotonic)
        self._broker = broker
        self.queue_entries.start(broker)
        self._size_shown()
        self._revision, self._makes = broker.settings.revision, broker.settings.flag("enableCalcFilterBitMap")
        await self._make_for_all()
        broker.clients.on_heartbeat(self._heard)
        broker.clients.on_group_changed(self._group_changed)
        broker.topics.on_deleted(lambda topic: self._deleted(topic, ""))
        broker.groups.on_deleted(lambda group: self._deleted("", group))
        for figure in bit_map_metrics(self.counts):
            broker.metrics.register(figure)
        self._timer = world.clock.call_later(_TICK_S, self._tick)

    async def stop(self) -> None:
        """Stop adding bits, and save unsaved changes. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        broker = self._broker
        if broker is None:
            return
        self._makes = False
        self._stop_making()
        if under_way := self._starting | ({self._saving} if self._saving is not None else set()):
            await asyncio.wait(under_way)
        if self._table.unsaved:
            await self._save()
        self._broker = None
        self.queue_entries.stop()

    def _tick(self) -> None:
        assert self._broker is not None
        clock = self._broker.world.clock
        self._timer = clock.call_later(_TICK_S, self._tick)
        self._ticks += 1
        self._now_ms(self._broker)
        if self._revision != self._broker.settings.revision:
            self._settings_changed()
        if self._ticks % _CLEAN_TICKS == 0:
            self._table.clean(self._now_ms(self._broker), self._broker.settings.number("filterDataCleanTimeSpan"))
            self._act(save=self._table.unsaved)
            if len(self._ready) > 2 * self._table.count + _LEAST_READY:
                self._forget_unused()
        elif self._unwritten:
            self._act(save=True)

    def _now_ms(self, broker: BrokerEnvironment) -> int:
        """Return the wall time, but never less than before, so that no message of this run has a later store time.

        A group born at an earlier time than an already stored message would be denied that message.
        """
        now_ms = broker.world.clock.now_ms()
        if now_ms >= self._latest_ms:
            self._latest_ms = now_ms
            return now_ms
        return self._latest_ms + int(_TICK_S * 1000)  # the last check was up to a tick before the clock stepped back

    # --- events -----------------------------------------------------------------------------------------------------

    def _heard(self, heartbeat: Heartbeat, connection: ClientChannel) -> None:
        """Apply the subscriptions of a client's heartbeat."""
        broker = self._broker
        if broker is None:
            return
        if self._revision != broker.settings.revision:
            self._settings_changed()
        for consumer in heartbeat.consumers:
            if consumer.subscriptions is not None:
                self._table.register(consumer.group, consumer.subscriptions, self._now_ms(broker))
        self._act()

    def _group_changed(self, group: str) -> None:
        broker = self._broker
        if broker is not None and not broker.clients.consumers(group):
            self._table.gone(group, self._now_ms(broker))

    def _deleted(self, topic: str, group: str) -> None:
        if self._broker is not None:
            self._table.deleted(topic, group)
            self._act()

    def _settings_changed(self) -> None:
        broker = self._broker
        assert broker is not None
        settings = broker.settings
        bloom, makes = self._bloom(broker), settings.flag("enableCalcFilterBitMap")
        if bloom != self._table.bloom:
            self._table.resize(bloom, self._now_ms(broker))
            self._size_shown()
            self._act()
        if makes != self._makes:
            self._makes = makes
            if not makes:
                self._stop_making()
            else:
                task = asyncio.get_running_loop().create_task(self._make_for_all())
                self._starting.add(task)
                task.add_done_callback(self._starting.discard)
        self._revision = settings.revision

    def _size_shown(self) -> None:
        """Apply the setting of the map size, as a Java broker does."""
        assert self._broker is not None
        self._broker.settings.set("bitMapLengthConsumeQueueExt", self._table.bloom.bit_count, "the filter bit map")

    @staticmethod
    def _bloom(broker: BrokerEnvironment) -> BloomFilter:
        settings = broker.settings
        return BloomFilter.for_groups(
            settings.number("expectConsumerNumUseFilter"), settings.number("maxErrorRateOfBloomFilter")
        )

    # --- bits -------------------------------------------------------------------------------------------------------

    def _act(self, *, save: bool = False) -> None:
        """Stop adding bits for topics with changed filters until the change is on disk."""
        assert self._broker is not None
        changed, self._table.changed = self._table.changed, set()
        for topic in changed:
            self._broker.bit_maps.pop(topic, None)
        self._unwritten |= changed
        if (changed or save) and self._saving is None:
            self._saving = asyncio.get_running_loop().create_task(self._save_all())

    async def _save_all(self) -> None:
        try:
            while await self._save() and self._unwritten:
                pass
        finally:
            self._saving = None

    async def _save(self) -> bool:
        """Write the table and return whether that succeeded. A failed save is retried at the next tick."""
        broker, table = self._broker, self._table
        assert broker is not None
        topics, self._unwritten = self._unwritten, set()
        table.unsaved = False
        try:
            await broker.world.workers.run(save_table, broker.world.files, self._folder, table.snapshot())
        except OSError as error:
            table.unsaved = True
            self._unwritten |= topics
            log.warning("%s cannot be written: %s; it is tried again", self._folder / FILE, error.strerror or error)
            return False
        if self._timer is not None:
            for topic in topics:
                self._make_for(topic)
        return True

    async def _make_for_all(self) -> None:
        """Add bits to new messages of every topic that needs them; compiling may take a while."""
        assert self._broker is not None
        slices = TimeSlices(self._broker.world.clock, _COMPILED_A_TURN)
        for expression in self._table.expressions() if self._makes else ():
            self._get_ready(expression)
            await slices.item_done()
        for topic in self._table.topics():
            self._make_for(topic)
            await slices.item_done()

    def _stop_making(self) -> None:
        assert self._broker is not None
        for topic in self._table.topics():
            self._broker.bit_maps.pop(topic, None)

    def _make_for(self, topic: str) -> None:
        """Add bits to new messages of a topic that needs them."""
        assert self._broker is not None
        filters = self._table.of_topic(topic)
        if self._makes and filters and topic not in self._unwritten:
            self._broker.bit_maps[topic] = TopicBits(filters.values(), self._matches_of, self._time, self.counts)
        else:
            self._broker.bit_maps.pop(topic, None)

    def _compiles(self, expression: str) -> bool:
        return self._get_ready(expression) is not None

    def _matches_of(self, data: FilterData) -> Matches | None:
        return self._get_ready(data.expression) if data.type == self._type_name else None

    def _get_ready(self, expression: str) -> Matches | None:
        if expression not in self._ready:
            if len(self._ready) > _MOST_READY:
                self._forget_unused()
            try:
                self._ready[expression] = self._compiled(expression)
            except GantryError as error:
                self._ready[expression] = None
                log.warning("a group subscribes by an expression that is refused: %s", error)
        return self._ready[expression]

    def _forget_unused(self) -> None:
        known = self._table.expressions()
        self._ready = {each: ready for each, ready in self._ready.items() if each in known}
