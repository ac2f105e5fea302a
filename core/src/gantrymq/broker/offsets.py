"""Committed offsets of consumer groups.

The table is what consumerOffset.json holds; it is saved every ``flushConsumerOffsetInterval`` and at stop. How far
groups have pulled, and resets that a group has not met yet, are kept in memory only.

Source: apache/rocketmq broker/.../offset/ConsumerOffsetManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gantrymq.model.data_version import DataVersion
from gantrymq.model.queue import Queue

AT = "@"


class ConsumerOffsets:
    """``topic@group`` to queue id to the next offset to consume."""

    def __init__(self, version_step: int, now_ms: Callable[[], int]) -> None:
        """*version_step*: commits between two steps of the data version."""
        self._table: dict[str, dict[int, int]] = {}
        self._version_step = version_step
        self._now_ms = now_ms
        self._commits = 0
        self._pulled: dict[tuple[str, Queue], int] = {}
        self._resets: dict[tuple[str, Queue], int] = {}
        self.version = DataVersion()
        self.dirty = False  # whether the table differs from the file

    @property
    def table(self) -> dict[str, dict[int, int]]:
        """The table itself, for persistence and for request 43."""
        return self._table

    def load(self, table: dict[str, dict[int, int]], version: DataVersion) -> None:
        """Take over what was read from consumerOffset.json."""
        self._table = {key: dict(queues) for key, queues in table.items()}
        self.version = version

    def committed(self, group: str, queue: Queue) -> int | None:
        """The offset, or None when the group never committed one."""
        queues = self._table.get(queue.topic + AT + group)
        return None if queues is None else queues.get(queue.queue_id)

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Store an offset; lower ones are taken too, as RocketMQ does. Ignored while a reset waits."""
        if self._resets and (group, queue) in self._resets:
            return
        self._table.setdefault(queue.topic + AT + group, {})[queue.queue_id] = queue_offset
        self.dirty = True
        self._commits += 1
        if self._commits % self._version_step == 0:
            self.version.next(self._now_ms())

    def pulled(self, group: str, queue: Queue, next_offset: int) -> None:
        """Note where the group's next pull begins. Budget: 0.2 us."""
        self._pulled[group, queue] = next_offset

    def next_pull(self, group: str, queue: Queue) -> int:
        """Where the group's next pull begins, -1 when it has not pulled since the start."""
        return self._pulled.get((group, queue), -1)

    def reset(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set an offset from outside; it holds against commits until the group's next pull has met it."""
        self._resets.pop((group, queue), None)
        self.commit(group, queue, queue_offset)
        self._resets[group, queue] = queue_offset

    def take_reset(self, group: str, queue: Queue) -> int | None:
        """The offset that a pull must be told, once; None when there was no reset. Budget: 0.1 us."""
        return self._resets.pop((group, queue), None) if self._resets else None

    def cut_back(self, end: Callable[[Queue], int | None]) -> list[str]:
        """Set offsets behind the end of their queue to it, or new messages would be passed over unread.

        A power cut may take messages of asynchronous flush that a group had read and committed.

        Args:
            end: of a queue; None for one that is not known.

        Returns:
            A sentence for each offset that was changed.
        """
        said: list[str] = []
        for key, queues in self._table.items():
            topic, _, group = key.partition(AT)
            for queue_id, committed in queues.items():
                last = end(Queue(topic, queue_id))
                if last is not None and committed > last:
                    queues[queue_id] = last
                    self.dirty = True
                    said.append(
                        f"group {group} had committed {committed} in queue {topic}/{queue_id}, which ends at {last} "
                        f"after the crash: {committed - last} messages that it had read are gone, it goes on at {last}"
                    )
        return said

    def copy(self, topic: str, source: str, target: str) -> None:
        """Give group *target* what *source* committed for *topic*; nothing happens when that is nothing."""
        queues = self._table.get(topic + AT + source)
        if queues is not None:
            self._table[topic + AT + target] = dict(queues)
            self.dirty = True

    def lowest(self, topic: str, without: Iterable[str], min_offset: Callable[[int], int]) -> dict[int, int]:
        """Queue id to the lowest offset that any group but *without* committed, of those that are still there."""
        found: dict[int, int] = {}
        for group in self.groups_of(topic):
            if group in without:
                continue
            for queue_id, queue_offset in self._table[topic + AT + group].items():
                if queue_offset >= min_offset(queue_id):
                    found[queue_id] = min(queue_offset, found.get(queue_id, queue_offset))
        return found

    def forget_topic(self, topic: str) -> None:
        """Drop what groups committed for a deleted topic."""
        self._drop(key for key in list(self._table) if key.partition(AT)[0] == topic)
        self._drop_in_memory(lambda group, queue: queue.topic == topic)

    def forget_group(self, group: str) -> None:
        """Drop what a deleted group committed."""
        self._drop(key for key in list(self._table) if key.split(AT)[1:2] == [group])
        self._drop_in_memory(lambda owner, queue: owner == group)

    def topics_of(self, group: str) -> list[str]:
        """Topics a group committed offsets for."""
        return [topic for topic, owner in self._keys() if owner == group]

    def groups_of(self, topic: str) -> list[str]:
        """Groups that committed offsets for a topic."""
        return [owner for name, owner in self._keys() if name == topic]

    def _keys(self) -> Iterator[tuple[str, str]]:
        for key in self._table:
            parts = key.split(AT)
            if len(parts) >= 2:
                yield parts[0], parts[1]

    def _drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self._table[key]
            self.dirty = True

    def _drop_in_memory(self, gone: Callable[[str, Queue], bool]) -> None:
        for table in (self._pulled, self._resets):
            for key in [key for key in table if gone(*key)]:
                del table[key]
