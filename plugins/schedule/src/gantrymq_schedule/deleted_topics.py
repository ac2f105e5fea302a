"""Messages whose topic was deleted while they waited, and does not exist when they are due: they are left out.

RocketMQ stores them into queues of a topic that nobody can read. What the broker does not know for another reason, such
as a topics.json that was lost, is stored all the same. The store knows deletions, also those before a restart.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from gantrymq.interfaces import Broker

__all__ = ["DeletedTopics"]

log = logging.getLogger(__name__)

MOST_NAMED: Final = 3  # in one line of the log
TOLD_S: Final = 10.0  # after the first that is told with it


class DeletedTopics:
    """Tells which topics are deleted, and how many messages were left out for that."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._left_out: Counter[str] = Counter()  # by topic, not told yet

    def has(self, topic: str, log_offset: int) -> bool:
        """Whether to leave out a message of *topic* that waits at *log_offset*; if so, it is counted."""
        if self._broker.topic(topic) is not None or log_offset >= self._broker.store.dropped_at(topic):
            return False
        if not self._left_out:
            self._broker.world.clock.call_later(TOLD_S, self._tell)
        self._left_out[topic] += 1
        return True

    def _tell(self) -> None:
        count, topics = self._left_out.total(), sorted(self._left_out)
        self._left_out.clear()
        more = f" and {len(topics) - MOST_NAMED} others" if len(topics) > MOST_NAMED else ""
        log.warning(
            "%d delayed messages are not delivered, as their topics were deleted: %s%s",
            *(count, ", ".join(topics[:MOST_NAMED]), more),
        )
