"""Which queue a message goes to when the application does not say.

The next one in turn, beginning at a random place for every topic; after a failure, the next one at another broker.

Source: apache/rocketmq client/.../impl/producer/TopicPublishInfo.java (selectOneMessageQueue),
client/.../common/ThreadLocalIndex.java.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from gantrymq.model.queue import MessageQueue

__all__ = ["QueueTurns"]

_MASK = 0x7FFFFFFF


class QueueTurns:
    """Takes turns over the queues of every topic of one producer."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._next: dict[str, int] = {}

    def choose(self, topic: str, queues: Sequence[MessageQueue], avoid: Collection[str] = ()) -> MessageQueue:
        """Return the next queue, if possible of a broker that is not in *avoid*.

        Args:
            topic: whose turn it is.
            queues: at least one.
            avoid: names of brokers that just failed.
        """
        for _ in queues:
            queue = queues[self._turn(topic) % len(queues)]
            if queue.broker_name not in avoid:
                return queue
        return queues[self._turn(topic) % len(queues)]

    def _turn(self, topic: str) -> int:
        turn = self._next.get(topic)
        if turn is None:
            turn = self._chance.getrandbits(31)
        self._next[topic] = (turn + 1) & _MASK
        return turn
