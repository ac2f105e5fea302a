"""Committed offsets: what a group is told of its own, and commits, checked against the queue.

Nobody can have read what was never there.

An offset below zero, or behind the end of a queue that this store keeps, comes from a client's mistake or from another
life of the topic. RocketMQ stores it: the group then counts as a negative number of messages behind, and passes over
new ones until the queue has grown so far. Here it is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.broker.tables.all_tables import Tables
from gantrymq.errors import GroupNotExist, InvalidParameter, QueryNotFound, ServiceNotAvailable, TopicNotExist
from gantrymq.interfaces import MessageStore
from gantrymq.model.names import LMQ_PREFIX
from gantrymq.model.queue import Queue

__all__ = ["OffsetCommits"]


class OffsetCommits:
    """Takes the commits of clients and plugins."""

    def __init__(self, store: MessageStore, tables: Tables, refusal: Callable[[], str | None]) -> None:
        """*refusal*: why no commit is taken now, None while they are."""
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._refusal = refusal

    def end(self, queue: Queue) -> int | None:
        """Where a queue ends; None for one that this store may keep elsewhere or not know at all."""
        end = self._store.bounds(queue).max_offset
        topic = self._topics.get(queue.topic)
        if end == 0 and (topic is None or topic.attributes or queue.topic.startswith(LMQ_PREFIX)):
            return None
        return end

    def begin(self, group: str, queue: Queue, *, zero_if_new: bool) -> int:
        """Where a group reads on: what it committed, or 0 for a new group on a queue that still has its first message.

        5.3.3 looks whether that message is in memory (on Java 17 each is), so an empty queue has no offset to tell.

        Raises:
            QueryNotFound: there is no offset; never 0 without *zero_if_new*.
        """
        committed = self._offsets.committed(group, queue)
        if committed is not None:
            return committed
        if not zero_if_new:
            raise QueryNotFound(f"consumer group {group} has no offset for {queue} yet")
        bounds = self._store.bounds(queue)
        if bounds.min_offset > 0 or bounds.max_offset == 0:
            raise QueryNotFound(
                f"consumer group {group} has no offset for {queue} yet, and the queue is empty or its first messages "
                "are gone; start from where consumeFromWhere says"
            )
        return 0

    def commit_of_client(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Store an offset that a client commits by itself.

        RocketMQ stores an offset for any queue id; here the table does not grow by such.

        Raises:
            GroupNotExist, TopicNotExist: this broker does not know them.
            InvalidParameter: the topic has no such queue.
            RequestError: as `commit`.
        """
        if self._groups.known(group) is None:
            raise GroupNotExist(f"Group {group} not exist!")
        topic = self._topics.get(queue.topic)
        if topic is None:
            raise TopicNotExist(f"Topic {queue.topic} not exist!")
        queues = max(topic.read_queues, topic.write_queues)
        if not 0 <= queue.queue_id < queues:
            raise InvalidParameter(
                f"queueId {queue.queue_id} is outside topic {queue.topic}, with {queues} queues; nothing was committed"
            )
        self.commit(group, queue, queue_offset)

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
