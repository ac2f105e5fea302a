"""Commits of offsets, checked against the queue: nobody can have read what was never there.

An offset below zero, or behind the end of a queue that this store keeps, comes from a client's mistake or from another
life of the topic. RocketMQ stores it: the group then counts as a negative number of messages behind, and passes over
new ones until the queue has grown so far. Here it is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.broker.tables.offsets import ConsumerOffsets
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import InvalidParameter, ServiceNotAvailable
from gantrymq.interfaces import MessageStore
from gantrymq.model.names import LMQ_PREFIX
from gantrymq.model.queue import Queue

__all__ = ["Committing"]


class Committing:
    """Takes the commits of clients and plugins."""

    def __init__(
        self, store: MessageStore, topics: TopicTable, offsets: ConsumerOffsets, refusal: Callable[[], str | None]
    ) -> None:
        """*refusal*: why no commit is taken now, None while they are."""
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._refusal = refusal

    def end(self, queue: Queue) -> int | None:
        """Where a queue ends; None for one that this store may keep elsewhere or not know at all."""
        end = self._store.bounds(queue).max_offset
        topic = self._topics.get(queue.topic)
        if end == 0 and (topic is None or topic.attributes or queue.topic.startswith(LMQ_PREFIX)):
            return None
        return end

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Store an offset.

        Raises:
            InvalidParameter: it is outside of ``[0, end]`` of the queue; the one before stays.
            ServiceNotAvailable: the file of the offsets could not be written for too long; the one before stays.
        """
        end = self.end(queue)
        if queue_offset < 0 or (end is not None and queue_offset > end):
            there = "no offset is below 0" if end is None else f"the queue has offsets from 0 to its end at {end}"
            raise InvalidParameter(
                f"group {group} commits {queue_offset} in queue {queue}, but {there}; nothing was changed"
            )
        refusal = self._refusal()
        if refusal is not None:
            sentence = f"the commit of group {group} in queue {queue} is not taken: {refusal}"
            raise ServiceNotAvailable(sentence)
        self._offsets.commit(group, queue, queue_offset)
