"""Committed offsets of consumer groups.

The table is saved to consumerOffset.json every ``flushConsumerOffsetInterval`` and at shutdown. Changes since the last
save are tracked, because encoding the whole table takes long. Positions of pulls and pending resets are kept only in
memory. Entries of one topic or group can be found without a scan.

Source: apache/rocketmq broker/.../offset/ConsumerOffsetManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from gantrymq.interfaces import LastPull
from gantrymq.model.data_version import DataVersion
from gantrymq.model.queue import Queue

AT = "@"
MOST_LEFT = 1000
_SILENT_S = 60.0  # a pull is held for up to 30 s, and clients repeat it at once

_Place = tuple[str, int]  # group and queue id
_NEVER = LastPull()


class OffsetChanges(NamedTuple):
    """Changes of the table since the last save: removed entries, then added or changed ones."""

    gone: tuple[str, ...]  # may include entries that exist again
    changed: Iterator[tuple[str, dict[int, int]]]  # copies entries lazily, without those removed meanwhile


class ConsumerOffsets:
    """Committed offsets: ``topic@group`` to queue id to the next offset to consume."""

    def __init__(self, version_step: int, now_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        """*version_step*: number of commits per increment of the data version."""
        self._table: dict[str, dict[int, int]] = {}
        self._keys_of: dict[str, dict[str, None]] = {}  # topic to its keys in the table
        self._keys_of_group: dict[str, dict[str, None]] = {}
        self._version_step = version_step
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._commits = 0
        self._pulled: dict[str, dict[_Place, LastPull]] = {}  # by topic; neither this nor _resets has empty tables
        self._resets: dict[str, dict[_Place, int]] = {}
        self._left: dict[str, None] = {}  # deleted topics with pending resets, oldest first
        self._changed: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        self.version = DataVersion()
        self.dirty = False  # whether the table differs from the file

    @property
    def table(self) -> dict[str, dict[int, int]]:
        """The table itself, read-only; for request 43."""
        return self._table

    def load(self, table: dict[str, dict[int, int]], version: DataVersion) -> None:
        """Use *table*, the content of consumerOffset.json. All entries count as changed."""
        self._table, self.version = table, version
        self._keys_of, self._keys_of_group = {}, {}
        for key in table:
            self._add_key(key)
        self._changed, self._gone = dict.fromkeys(table), {}

    def empty(self) -> ConsumerOffsets:
        """Return an empty table with the same settings, to be loaded in a thread for `replace`."""
        return ConsumerOffsets(self._version_step, self._now_ms, self._monotonic)

    def replace(self, other: ConsumerOffsets) -> None:
        """Take over the entries and the version of *other*, which is not used any more. Pulls and resets are kept."""
        gone = self._table.keys() - other._table.keys()
        self._table, self.version = other._table, other.version
        self._keys_of, self._keys_of_group = other._keys_of, other._keys_of_group
        self._changed, self._gone = other._changed, dict.fromkeys((*self._gone, *gone))
        self.dirty = True

    def take_changes(self) -> OffsetChanges:
        """Return the changes since the last call, for a save. The table then counts as saved.

        Added entries are in the order of the table.
        """
        changed, gone = self._changed, self._gone
        self._changed, self._gone, self.dirty = {}, {}, False
        table = self._table
        return OffsetChanges(tuple(gone), ((key, table[key].copy()) for key in changed if key in table))

    def committed(self, group: str, queue: Queue) -> int | None:
        """Return the committed offset, or None."""
        queues = self._table.get(queue.topic + AT + group)
        return None if queues is None else queues.get(queue.queue_id)

    def repeats(self, group: str, queue: Queue, queue_offset: int) -> bool:
        """Count a commit and return True if its offset is stored already."""
        queues = self._table.get(queue.topic + AT + group)
        if queues is None or self._resets or queues.get(queue.queue_id) != queue_offset:
            return False
        self._count_commit()
        return True

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Store an offset, which may be lower than the old one, as in RocketMQ. Ignored while a reset is pending."""
        topic, queue_id = queue
        if self._resets and (group, queue_id) in self._resets.get(topic, ()):
            return
        key = topic + AT + group
        queues = self._table.get(key)
        if queues is None:
            queues = self._new(key, {})
        if queues.get(queue_id) != queue_offset:  # clients repeat their offsets every 5 s; that needs no save
            queues[queue_id] = queue_offset
            self._changed[key] = None
            self.dirty = True
            if (pulls := self._pulled.get(topic)) is not None and (last := pulls.get((group, queue_id))) is not None:
                last.moved_at = self._monotonic()
            else:  # before any pull: by a tool perhaps; a second change is by a member that goes on with what it holds
                self._last(group, topic, queue_id)
        self._count_commit()

    def _count_commit(self) -> None:
        self._commits += 1
        if self._commits % self._version_step == 0:
            self.version.next(self._now_ms())

    def pulled(self, group: str, queue: Queue, next_offset: int, at: float, by: tuple[str, int] | None) -> LastPull:
        """Record a pull: the next offset, its time and its client."""
        last = self._last(group, *queue)
        if last.next_offset < 0 or by != last.by or at - last.at > _SILENT_S:
            last.moved_at = at
        last.next_offset, last.at, last.by = next_offset, at, by
        return last

    def _last(self, group: str, topic: str, queue_id: int) -> LastPull:
        """Return the last pull for a change."""
        table = self._pulled.get(topic)
        if table is None:
            table = self._pulled[topic] = {}
        last = table.get((group, queue_id))
        if last is None:
            last = table[group, queue_id] = LastPull()
        return last

    def last_pull(self, group: str, queue: Queue) -> LastPull:
        """Return the last pull of the queue by the group; read-only."""
        return self._pulled.get(queue.topic, {}).get((group, queue.queue_id), _NEVER)

    def pending_reset(self, group: str, queue: Queue) -> int | None:
        """Return the pending reset for the group's next pull, or None."""
        return self._resets.get(queue.topic, {}).get((group, queue.queue_id))

    def reset(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Reset an offset. Commits are ignored until the group's next pull has taken the reset.

        What was pulled before does not count as handed out any more: the next pull begins at the offset.
        """
        self.take_reset(group, queue)
        last = self._pulled.get(queue.topic, {}).get((group, queue.queue_id))
        if last is not None and last.next_offset >= 0:
            last.next_offset = queue_offset
        self.commit(group, queue, queue_offset)
        self._resets.setdefault(queue.topic, {})[group, queue.queue_id] = queue_offset

    def take_reset(self, group: str, queue: Queue, asked: int | None = None) -> int | None:
        """Return a pending reset once, or None.

        For a topic that was deleted and created again, return None if the pull already *asked* for that offset. Other
        resets are returned in any case, as by a Java broker.
        """
        if not self._resets:
            return None
        waiting = self._resets.get(queue.topic)
        if waiting is None:
            return None
        found = waiting.pop((group, queue.queue_id), None)
        if not waiting:
            del self._resets[queue.topic]
        return None if found == asked and queue.topic in self._left else found

    def cut_back(self, end: Callable[[Queue], int | None]) -> Iterator[list[str]]:
        """Clamp offsets to the end of their queue; otherwise new messages would be skipped.

        With asynchronous flush, a power failure may lose messages that a group has consumed and committed. So may a
        new master, whose log was not copied as far as its tables.

        Args:
            end: returns the maximum offset of a queue, None if unknown.

        Returns:
            An iterator with, for each topic and group, a list with a sentence for each changed offset.
        """
        for key, queues in list(self._table.items()):
            topic, _, group = key.partition(AT)
            said: list[str] = []
            for queue_id, committed in queues.items():
                last = end(Queue(topic, queue_id))
                if last is not None and committed > last:
                    queues[queue_id] = last
                    said.append(
                        f"group {group} had committed {committed} in queue {topic}/{queue_id}, which ends at {last}: "
                        f"{committed - last} consumed messages are lost, it continues at {last}"
                    )
            if said:
                self._changed[key] = None
                self.dirty = True
            yield said

    def copy(self, topic: str, source: str, target: str) -> None:
        """Copy the offsets of group *source* for *topic* to group *target*, if there are any."""
        queues = self._table.get(topic + AT + source)
        if queues is not None:
            self._new(topic + AT + target, dict(queues))

    def of_group(self, topic: str, group: str) -> dict[int, int]:
        """Return a copy of the committed offsets of *group* for *topic*, by queue id."""
        return dict(self._table.get(topic + AT + group, ()))

    def forget_topic(self, topic: str) -> None:
        """Remove the committed offsets for a deleted topic.

        Consumers that still use its offsets would skip the first messages of a new topic with the same name, so their
        first pull from it gets a reset to 0. These resets are kept for the last MOST_LEFT deleted topics.
        """
        readers = dict.fromkeys(self._pulled.pop(topic, ()), 0)
        for key in self._keys_of.get(topic, ()):
            readers.update(((key.partition(AT)[2], queue_id), 0) for queue_id in self._table[key])
        self._drop(self._keys_of.get(topic, ()))
        self._left.pop(topic, None)
        self._resets.pop(topic, None)
        if readers:
            self._left[topic] = None
            self._resets[topic] = readers
        if len(self._left) > MOST_LEFT:
            oldest = next(iter(self._left))
            del self._left[oldest]
            self._resets.pop(oldest, None)

    def forget_group(self, group: str) -> None:
        """Remove the committed offsets of a deleted group."""
        self._drop(self._keys_of_group.get(group, ()))
        kept: list[dict[str, dict[_Place, Any]]] = [self._pulled, self._resets]
        for tables in kept:
            for topic, table in list(tables.items()):
                for place in [place for place in table if place[0] == group]:
                    del table[place]
                if not table:
                    del tables[topic]

    def forget(self, group: str, topic: str) -> dict[int, int]:
        """Remove the committed offsets of *group* for *topic*, with its pulls and resets there. Return the offsets."""
        key = topic + AT + group
        found = self._table.get(key, {})
        if found:
            self._drop([key])
        kept: list[dict[str, dict[_Place, Any]]] = [self._pulled, self._resets]
        for tables in kept:
            table = {place: each for place, each in tables.pop(topic, {}).items() if place[0] != group}
            if table:
                tables[topic] = table
        return found

    def topics_of(self, group: str) -> list[str]:
        """Return the topics with committed offsets of a group."""
        return [key.partition(AT)[0] for key in self._keys_of_group.get(group, ())]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups with committed offsets for a topic."""
        return [group for key in self._keys_of.get(topic, ()) if (group := _group(key)) is not None]

    def _new(self, key: str, queues: dict[int, int]) -> dict[int, int]:
        """Add *queues* to the table."""
        self._table[key] = queues
        self._add_key(key)
        self._changed[key] = None
        self.dirty = True
        return queues

    def _add_key(self, key: str) -> None:
        self._keys_of.setdefault(key.partition(AT)[0], {})[key] = None
        group = _group(key)
        if group is not None:
            self._keys_of_group.setdefault(group, {})[key] = None

    def _drop(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            del self._table[key]
            for index, name in ((self._keys_of, key.partition(AT)[0]), (self._keys_of_group, _group(key))):
                if name is not None:
                    del index[name][key]
                    if not index[name]:
                        del index[name]
            self._changed.pop(key, None)
            self._gone[key] = None
            self.dirty = True


def _group(key: str) -> str | None:
    """Return the group of a key of the table; None if it has no group."""
    parts = key.split(AT)
    return parts[1] if len(parts) >= 2 else None
