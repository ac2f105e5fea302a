"""Dropping delayed messages for topics that were deleted after the message was stored and do not exist when it is due.

RocketMQ stores such messages into queues of a topic that cannot be read. A topic that is unknown for another reason,
such as a lost topics.json, still gets its messages. The store remembers deletions across restarts.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from gantrymq.plugin.interfaces import BrokerStorage

log = logging.getLogger(__name__)

_MOST_NAMED: Final = 3  # in one line of the log
_LOG_AFTER_S: Final = 10.0  # from the first dropped message to the log line that counts them


class DeletedTopics:
    """Detects deleted topics, and logs how many messages were dropped because of them."""

    def __init__(self, broker: BrokerStorage) -> None:
        self._broker = broker
        self._dropped: Counter[str] = Counter()  # by topic, not logged yet

    def has(self, topic: str, log_offset: int) -> bool:
        """Return whether to drop the message for *topic* stored at *log_offset*, and count it if so."""
        if self._broker.topics.get(topic) is not None:
            return False
        if log_offset >= self._broker.store_capabilities.dropped_at(topic):
            return False
        if not self._dropped:
            self._broker.world.clock.call_later(_LOG_AFTER_S, self._log_dropped)
        self._dropped[topic] += 1
        return True

    def _log_dropped(self) -> None:
        count, topics = self._dropped.total(), sorted(self._dropped)
        self._dropped.clear()
        more = f" and {len(topics) - _MOST_NAMED} others" if len(topics) > _MOST_NAMED else ""
        log.warning(
            "%d delayed messages are not delivered, as their topics were deleted: %s%s",
            *(count, ", ".join(topics[:_MOST_NAMED]), more),
        )
