"""The lite topics of a broker by parent topic, and the removal of those that are unused.

A lite topic expires when no message was sent to it for ``lite.topic.expiration`` of its parent topic and for
``minLiteTTl``, whether its messages were consumed or not, as in RocketMQ. The times of the last messages are in memory;
after a start they are read from the store when they are needed.

Source: apache/rocketmq broker/.../lite/AbstractLiteLifecycleManager.java, LiteLifecycleManager.java.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.plugin.interfaces import BrokerStorage
from gantrymq.plugin.model import LIGHT_QUEUE_ID, Queue, lite_topic_of
from gantrymq.plugin.world import TimeSlices
from gantrymq_lite.attributes import expiration_minutes, is_lite

log = logging.getLogger(__name__)
_UNKNOWN: Final = -1
_TOGETHER: Final = 64


class LiteTopics:
    """The lite topics of one broker."""

    def __init__(self, broker: BrokerStorage, forget: Callable[[str], object]) -> None:
        """*forget* is called with each light queue that is removed."""
        self._broker = broker
        self._clock = broker.world.clock
        self._started_ms = self._clock.now_ms()
        self._forget = forget
        self._last_ms: dict[str, dict[str, int]] = {}  # by parent topic and light queue
        for queue in broker.store.queues():
            names = lite_topic_of(queue.topic)
            if names is not None and broker.store.bounds(queue).max_offset > 0:
                self._last_ms.setdefault(names[0], {})[queue.topic] = _UNKNOWN

    def sent(self, parent: str, light_queue: str) -> None:
        """Record that a message is sent to a lite topic, so that it does not expire before the message is there.

        A new lite topic is recorded when its first message has arrived: until then the store may refuse it.
        """
        queues = self._last_ms.get(parent, {})
        if light_queue in queues:
            queues[light_queue] = self._clock.now_ms()

    def arrived(self, light_queue: str) -> None:
        """Record that a lite topic has a new message."""
        names = lite_topic_of(light_queue)
        if names is not None:
            self._last_ms.setdefault(names[0], {})[light_queue] = self._clock.now_ms()

    def of(self, parent: str) -> list[str]:
        """Return the light queues of a parent topic."""
        return list(self._last_ms.get(parent, ()))

    def counts(self) -> Mapping[str, int]:
        """Return the number of lite topics by parent topic."""
        return {parent: len(queues) for parent, queues in self._last_ms.items()}

    async def remove_expired(self) -> None:
        """Remove the lite topics that are unused for too long."""
        shortest_ms = self._broker.settings.number("minLiteTTl")
        if self._clock.now_ms() - self._started_ms < shortest_ms:
            return  # producers and consumers may be connecting again
        slices = TimeSlices(self._clock, _TOGETHER)
        for parent in list(self._last_ms):
            topic = self._broker.topics.get(parent)
            minutes = expiration_minutes(topic) if topic is not None and is_lite(topic) else -1
            if minutes < 0:
                continue
            unused_ms = max(minutes * 60_000, shortest_ms)
            for light_queue in self.of(parent):
                if await self._is_unused(parent, light_queue, unused_ms):
                    await self.remove(parent, light_queue)
                await slices.item_done()

    async def _is_unused(self, parent: str, light_queue: str, unused_ms: int) -> bool:
        queues = self._last_ms.get(parent, {})
        if queues.get(light_queue) == _UNKNOWN:
            queue = Queue(light_queue, LIGHT_QUEUE_ID)
            end = self._broker.store.bounds(queue).max_offset
            try:
                last_ms = await self._broker.messages.store_time(queue, end - 1)
            except GantryError as error:
                log.warning("the last message of %s cannot be read, so it does not expire: %s", light_queue, error)
                return False
            if queues.get(light_queue) == _UNKNOWN:
                queues[light_queue] = max(last_ms, 0)  # 0: deleted with its log file
        last_ms = queues.get(light_queue, self._clock.now_ms())
        return self._clock.now_ms() - last_ms > unused_ms

    async def remove(self, parent: str, light_queue: str) -> None:
        """Remove a lite topic with its messages, and all offsets in it. Return when that is durable, or has failed."""
        queues = self._last_ms.get(parent, {})
        queues.pop(light_queue, None)
        if not queues:
            self._last_ms.pop(parent, None)
        removed = self._broker.store.drop(light_queue)
        self._forget(light_queue)
        try:
            await removed
        except GantryError as error:
            log.warning("the removal of the lite topic %s is not on the disk: %s", light_queue, error)

    async def remove_all(self, parent: str) -> None:
        """Remove the lite topics of a deleted topic."""
        for light_queue in self.of(parent):
            await self.remove(parent, light_queue)
