"""Messages that are due while their topic does not exist any more: they went with it.

RocketMQ stores them all the same, into queues of a topic that nobody can read. A topic that was made anew under the
name before they are due gets them.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from gantrymq.interfaces import Broker
from gantrymq.model.light_queues import is_light
from gantrymq.model.names import is_system_topic

__all__ = ["DeletedTopics"]

log = logging.getLogger(__name__)

MOST_NAMED: Final = 3  # in one line of the log
TOLD_S: Final = 10.0  # after the first that is told with it


class DeletedTopics:
    """Tells which topics are deleted, and how many messages were left out for that."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._left_out: Counter[str] = Counter()  # by topic, not told yet

    def has(self, topic: str) -> bool:
        """Whether a message of *topic* is to be left out; it is counted then."""
        if self._broker.topic(topic) is not None or is_system_topic(topic) or is_light(topic):
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
            "%d delayed messages are not delivered, as their topics do not exist: %s%s",
            *(count, ", ".join(topics[:MOST_NAMED]), more),
        )
