"""Committed offsets: queries, and commits, which are checked against the offset range of the queue.

A negative offset, or one greater than the maximum offset of a queue in this store, comes from a client bug or from a
deleted topic of the same name. RocketMQ stores it: the group then has a negative lag and skips new messages until the
queue has grown to that offset. Here such a commit is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.broker.counted_plugins import Listeners
from gantrymq.broker.tables import Tables
from gantrymq.errors import GroupNotExist, InvalidParameter, QueryNotFound, ServiceNotAvailable, TopicNotExist
from gantrymq.interfaces import LastPull, MessageStore
from gantrymq.model.names import LMQ_PREFIX
from gantrymq.model.queue import Queue


class OffsetCommits:
    """Checked access to committed offsets, for clients and plugins; `gantrymq.interfaces.Offsets`."""

    def __init__(self, store: MessageStore, tables: Tables, refusal: Callable[[], str | None]) -> None:
        """*refusal*: returns the reason why commits are currently refused, or None."""
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._refusal = refusal
        self._committed = Listeners[[str, Queue, int]]("committed offsets", tables.stats.plugin_failed)

    def end(self, queue: Queue) -> int | None:
        """Return the maximum offset of a queue; None if it is unknown or its messages may be kept elsewhere."""
        end = self._store.bounds(queue).max_offset
        topic = self._topics.get(queue.topic)
        if end == 0 and (topic is None or topic.attributes or queue.topic.startswith(LMQ_PREFIX)):
            return None
        return end

    def begin(self, group: str, queue: Queue, *, zero_if_new: bool) -> int:
        """Return the committed offset, or 0 for a new group if the queue still has its first message.

        RocketMQ 5.3.3 checks whether that message is in memory (always true on Java 17), so an empty queue has no
        offset.

        Raises:
            QueryNotFound: there is no offset, or it would be 0 without *zero_if_new*.
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
                "are gone; use the offset given by consumeFromWhere"
            )
        return 0

    def committed(self, group: str, queue: Queue) -> int | None:
        """Return the committed offset, or None."""
        return self._offsets.committed(group, queue)

    def of_group(self, topic: str, group: str) -> dict[int, int]:
        """Return a copy of the committed offsets of a group for a topic, by queue id."""
        return self._offsets.of_group(topic, group)

    def last_pull(self, group: str, queue: Queue) -> LastPull:
        """Return the last pull of the queue by the group; read-only."""
        return self._offsets.last_pull(group, queue)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics with committed offsets of a group."""
        return self._offsets.topics_of(group)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups with committed offsets for a topic."""
        return self._offsets.groups_of(topic)

    def pending_reset(self, group: str, queue: Queue) -> int | None:
        """Return the pending reset for the group's next pull, or None."""
        return self._offsets.pending_reset(group, queue)

    def take_reset(self, group: str, queue: Queue) -> int | None:
        """Return a pending reset once, or None."""
        return self._offsets.take_reset(group, queue)

    def reset(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set an offset, and a reset for the group's next pull."""
        self._offsets.reset(group, queue, queue_offset)

    def copy(self, topic: str, source: str, target: str) -> None:
        """Give *target* the committed offsets of *source* for a topic."""
        self._offsets.copy(topic, source, target)

    def on_committed(self, callback: Callable[[str, Queue, int], object]) -> Callable[[], None]:
        """Call *callback* with group, queue and queue offset after each commit."""
        return self._committed.add(callback)

    def forget(self, group: str, topic: str) -> dict[int, int]:
        """Remove the committed offsets of a group for a topic, and return them by queue id."""
        return self._offsets.forget(group, topic)

    def repeats(self, group: str, queue: Queue, queue_offset: int) -> bool:
        """Count a commit of a client and return True if it needs nothing else.

        Idle clients commit the same offsets every 5 s: the offset is stored already, and its refusal would change
        nothing either. False if a listener has to be called.
        """
        return not self._committed and self._offsets.repeats(group, queue, queue_offset)

    def commit_of_client(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Store an offset that a client commits with a request of its own.

        RocketMQ stores an offset for any queue id; here unknown queue ids are refused so that the table cannot grow.

        Raises:
            GroupNotExist, TopicNotExist: group or topic do not exist on this broker.
            InvalidParameter: the topic has no such queue.
            RequestError: same as `commit`.
        """
        if self._groups.get(group) is None:
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
            InvalidParameter: it is outside of ``[0, end]`` of the queue; the old offset is kept.
            ServiceNotAvailable: the offset file could not be written for too long; the old offset is kept.
        """
        end = self.end(queue)
        if queue_offset < 0 or (end is not None and queue_offset > end):
            there = "no offset is below 0" if end is None else f"the queue has offsets from 0 to its end at {end}"
            raise InvalidParameter(
                f"group {group} commits {queue_offset} in queue {queue}, but {there}; nothing was changed"
            )
        refusal = self._refusal()
        if refusal is not None:
            sentence = f"the commit of group {group} in queue {queue} is refused: {refusal}"
            raise ServiceNotAvailable(sentence)
        self._offsets.commit(group, queue, queue_offset)
        self._committed.call(group, queue, queue_offset)
