"""consumerOrderInfo.json, saved every five seconds, as in RocketMQ, and at stop.

Source: apache/rocketmq broker/.../offset/ConsumerOrderInfoManager.java, BrokerController.java
(initializeBrokerScheduledTasks).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from gantrymq.errors import FormatError
from gantrymq.plugin.config_files import load, pretty, save
from gantrymq.plugin.interfaces import BrokerConsumers
from gantrymq_pop.order_info import OrderTable

log = logging.getLogger(__name__)

FILE: Final = "consumerOrderInfo.json"


class OrderFile:
    """The file of the table of ordered pops."""

    def __init__(self, broker: BrokerConsumers, folder: Path, table: OrderTable) -> None:
        """*folder*: ``config`` of the store."""
        self._broker = broker
        self._path = folder / FILE
        self._table = table

    def load(self) -> None:
        """Load the table. Raises FormatError if file and backup cannot be read."""
        try:
            self._table.load(load(self._broker.world.files, self._path, log.warning) or {})
        except (ValueError, TypeError, AttributeError) as error:
            raise FormatError(f"{self._path}: {error!r}; repair the file, or move it away") from error

    def text(self) -> str:
        """Return the text of the file as it would be saved now."""
        return pretty(self._table.to_json())

    async def save(self) -> None:
        """Save the table if it changed; a failed save is retried the next time."""
        broker, table = self._broker, self._table
        topics = broker.topics.view

        def there(key: tuple[str, str, int]) -> bool:
            topic = topics.get(key[0])
            return topic is not None and key[2] < topic.read_queues and broker.groups.get(key[1]) is not None

        table.clean(there, broker.world.clock.now_ms())
        if not table.dirty:
            return
        table.dirty = False
        text = self.text()
        try:
            await broker.world.workers.run(save, broker.world.files, self._path, text)
        except OSError as error:
            table.dirty = True
            log.warning("%s cannot be written: %s; it is tried again", self._path, error.strerror or error)
