"""Committed offsets of consumer groups.

The table is what consumerOffset.json holds; it is saved every ``flushConsumerOffsetInterval`` and at stop.

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
        """Store an offset; lower ones are taken too, as RocketMQ does."""
        self._table.setdefault(queue.topic + AT + group, {})[queue.queue_id] = queue_offset
        self.dirty = True
        self._commits += 1
        if self._commits % self._version_step == 0:
            self.version.next(self._now_ms())

    def forget_topic(self, topic: str) -> None:
        """Drop what groups committed for a deleted topic."""
        self._drop(key for key in list(self._table) if key.partition(AT)[0] == topic)

    def forget_group(self, group: str) -> None:
        """Drop what a deleted group committed."""
        self._drop(key for key in list(self._table) if key.split(AT)[1:2] == [group])

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
