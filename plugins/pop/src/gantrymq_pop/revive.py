"""State of one queue of the revive log: pending checkpoints, and which are due; copies of messages to redeliver.

    feed(offset, record)    add the records in the order of the log, each once
    due(now)                due checkpoints: the caller revives them, then calls `finished`
    position                the last entry with no pending checkpoint at or before it; it is committed

A checkpoint written by this broker is due when its invisible time is over: its acknowledgements are fed as they are
stored. A checkpoint delivered by a timer (a Java broker wrote it, or the handle was unknown) may have acknowledgements
later in that timer, so it waits until the timer's time has passed RocketMQ's margin of 2 s, or the timer was idle for
3 s.

A checkpoint that is fed a second time under its key replaces the first and keeps its acknowledgements. So one with a
long invisible time is written again at the end of the log, and the position can move (`lagging`).

Pure: time is an argument, and nothing is read or written.

A message is redelivered as a copy in the group's pop retry topic (`retry_copy`). The order of the copy's properties
follows Java's HashMap: either a map that holds the tag already and grows from 16 buckets, or an empty map sized for the
number of properties.

Source: apache/rocketmq broker/.../processor/PopReviveService.java (consumeReviveMessage and mergeAndRevive: the
margins; reviveRetry, addRetryTopicIfNotExist).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from typing import Final

from gantrymq.plugin.formats import RecordView, tags_code
from gantrymq.plugin.interfaces import BrokerConsumers, StoreMessage
from gantrymq.plugin.model import Queue, TopicConfig
from gantrymq.plugin.properties import MAX_BYTES, TAGS, java_map_order, ordered_text
from gantrymq_pop.checkpoints import Acknowledgement, Checkpoint, CheckpointKey, ReviveRecord

_FIRST_POP_TIME: Final = "1ST_POP_TIME"
_TAGGED_BUCKETS: Final = 16
_MARGIN_MS: Final = 2000
_SILENT_MS: Final = 3000
FAR: Final = 50_000  # a checkpoint more than this many entries before the end is written again


def retry_copy(record: RecordView, topic: str, pop_time: int, store_host: bytes) -> StoreMessage:
    """Return the copy of *record* for the retry topic *topic*."""
    found = dict(record.properties)
    first = [TAGS] if TAGS in found else []
    buckets = _TAGGED_BUCKETS if first else _buckets_for(len(found))
    found = {name: found[name] for name in (*first, *java_map_order(found))}
    if record.reconsume_times == 0 or _FIRST_POP_TIME not in found:
        found[_FIRST_POP_TIME] = str(pop_time)
    text = ordered_text(found, buckets)
    if len(text) > MAX_BYTES:
        del found[_FIRST_POP_TIME]  # no room in the properties
        text = ordered_text(found, buckets)
    return StoreMessage(
        topic,
        0,
        bytes(record.body),
        text,
        tags_code=tags_code(found.get(TAGS)),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=store_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times + 1,
    )


def _buckets_for(count: int) -> int:
    """Return the bucket count of an empty HashMap after putMapEntries with *count* entries."""
    wanted = int(count / 0.75 + 1) if count else _TAGGED_BUCKETS
    return 1 << (wanted - 1).bit_length()


def make_retry_topic(broker: BrokerConsumers, topic: str, group: str) -> None:
    """Create a retry topic with one queue, which the group reads from the first message."""
    if broker.topics.get(topic) is None:
        broker.topics.put(TopicConfig(topic, read_queues=1, write_queues=1))
        if broker.offsets.committed(group, Queue(topic, 0)) is None:
            broker.offsets.commit(group, Queue(topic, 0), 0)


class PendingCheckpoint:
    """A checkpoint with unacknowledged messages."""

    __slots__ = (
        "by_timer",
        "checkpoint",
        "counted",
        "due_ms",
        "finished",
        "left",
        "log_offset",
        "queue_offset",
        "reviving",
        "settling",
    )

    def __init__(
        self, checkpoint: Checkpoint, queue_offset: int, by_timer: bool, log_offset: int | None, due_ms: int
    ) -> None:
        self.checkpoint = checkpoint
        self.due_ms = due_ms
        self.log_offset = log_offset  # its messages have lower log offsets; None: unknown
        self.queue_offset = queue_offset  # of the checkpoint in the revive log
        self.by_timer = by_timer
        self.left = set(checkpoint.offsets)  # not acknowledged
        self.settling = set[int]()  # messages in `left` with an acknowledgement that is being stored
        self.counted = 0  # messages counted as in flight
        self.finished = False
        self.reviving = False

    @property
    def acknowledged(self) -> list[int]:
        """Acknowledged offsets."""
        return [offset for offset in self.checkpoint.offsets if offset not in self.left]


class ReviveQueue:
    """Pending checkpoints of one queue of the revive log."""

    def __init__(self, next_offset: int, in_flight: Counter[tuple[str, str]] | None = None) -> None:
        """Create an empty state.

        Args:
            next_offset: offset of the first entry to feed.
            in_flight: messages in flight by topic and group; updated by this object.
        """
        self._in_flight = Counter() if in_flight is None else in_flight
        self.next_offset = next_offset
        self._by_key: dict[CheckpointKey, PendingCheckpoint] = {}
        self._in_order: deque[PendingCheckpoint] = deque()  # by offset; the first is not finished
        self._due: list[
            tuple[int, int, PendingCheckpoint]
        ] = []  # a heap; finished ones stay in it until they are popped
        self._timer_ms = 0  # the latest time that a timer is known to have delivered up to
        self._timer_seen_ms = 0  # when that was
        self._now_ms = 0  # time of the last call

    def __len__(self) -> int:
        """Return the number of pending checkpoints."""
        return len(self._by_key)

    @property
    def position(self) -> int:
        """Offset of the last entry with no pending checkpoint at or before it, -1 for none."""
        return (self._in_order[0].queue_offset if self._in_order else self.next_offset) - 1

    def pending(self, key: CheckpointKey) -> PendingCheckpoint | None:
        """Return the pending checkpoint with *key*."""
        return self._by_key.get(key)

    def feed(self, queue_offset: int, record: ReviveRecord, now_ms: int) -> None:
        """Add the entry at `next_offset`."""
        assert queue_offset == self.next_offset, f"entry {queue_offset} where {self.next_offset} comes next"
        self.next_offset += 1
        self._follow_clock(now_ms)
        if record.by_timer:
            self._timer_ms = max(self._timer_ms, record.deliver_ms)
            self._timer_seen_ms = now_ms
        entry = record.entry
        if isinstance(entry, Checkpoint):
            due_ms = entry.due_by(now_ms)
            self._add(PendingCheckpoint(entry, queue_offset, record.by_timer, record.log_offset, due_ms))
        elif isinstance(entry, Acknowledgement):
            self.acknowledge(entry)

    def skip_to(self, queue_offset: int) -> None:
        """Skip the entries before *queue_offset*, which were deleted from the log."""
        self.next_offset = max(self.next_offset, queue_offset)

    def _add(self, pending: PendingCheckpoint) -> None:
        key = pending.checkpoint.key
        before = self._by_key.get(key)
        if before is not None:
            if not before.finished and before.checkpoint.offsets == pending.checkpoint.offsets:
                pending.left, pending.settling = before.left, before.settling
                pending.log_offset = before.log_offset
            before.finished = True
            self._count(before)
        self._by_key[key] = pending
        self._in_order.append(pending)
        heapq.heappush(self._due, (pending.due_ms, pending.queue_offset, pending))
        if not pending.left:
            self.finished(pending)
        self._count(pending)
        self._settle()

    def acknowledge(self, entry: Acknowledgement) -> None:
        """Acknowledge messages of a checkpoint; ignored if the checkpoint is unknown."""
        pending = self._by_key.get(entry.key)
        if pending is not None:
            pending.left.difference_update(entry.offsets)
            if not pending.left and not pending.reviving:
                self.finished(pending)
            self._count(pending)

    def due(self, now_ms: int, most: int) -> list[PendingCheckpoint]:
        """Return checkpoints to revive now, earliest first; each is returned once, until `again` or `finished`.

        A checkpoint with an acknowledgement that is being stored is not returned until that write is finished.
        """
        self._follow_clock(now_ms)
        found: list[PendingCheckpoint] = []
        waiting: list[tuple[int, int, PendingCheckpoint]] = []
        while self._due and self._due[0][0] <= now_ms and len(found) < most:
            entry = heapq.heappop(self._due)
            pending = entry[2]
            if pending.finished or pending.reviving:
                continue
            if pending.settling or (pending.by_timer and not self._timer_passed(pending, now_ms)):
                waiting.append(entry)
                continue
            pending.reviving = True
            found.append(pending)
        for entry in waiting:
            heapq.heappush(self._due, entry)
        return found

    def _follow_clock(self, now_ms: int) -> None:
        """Count invisible times that began later than *now_ms* from there, if the clock was set back."""
        before_ms, self._now_ms = self._now_ms, now_ms
        if now_ms >= before_ms:
            return
        self._timer_ms, self._timer_seen_ms = min(self._timer_ms, now_ms), min(self._timer_seen_ms, now_ms)
        pending = [entry[2] for entry in self._due if not entry[2].finished]
        for each in pending:
            each.due_ms = min(each.due_ms, each.checkpoint.due_by(now_ms))
        self._due = [(each.due_ms, each.queue_offset, each) for each in pending]
        heapq.heapify(self._due)

    def _timer_passed(self, pending: PendingCheckpoint, now_ms: int) -> bool:
        silent = now_ms - self._timer_seen_ms > _SILENT_MS
        passed_ms = now_ms if silent else self._timer_ms
        return passed_ms - pending.due_ms > _MARGIN_MS

    def next_due_ms(self) -> int | None:
        """Return the earliest due time, None without checkpoints."""
        while self._due and self._due[0][2].finished:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def again(self, pending: PendingCheckpoint) -> None:
        """Record that reviving failed; the checkpoint stays due."""
        pending.reviving = False
        if not pending.left:
            self.finished(pending)
        self._count(pending)
        if not pending.finished:
            heapq.heappush(self._due, (pending.due_ms, pending.queue_offset, pending))

    def finished(self, pending: PendingCheckpoint) -> None:
        """Remove a checkpoint: all its messages are acknowledged or redelivered."""
        pending.finished = True
        if self._by_key.get(pending.checkpoint.key) is pending:
            del self._by_key[pending.checkpoint.key]
        self._count(pending)
        self._settle()

    def lagging(self) -> PendingCheckpoint | None:
        """Return the checkpoint that holds back the position and should be written again; None if there is none."""
        if not self._in_order or self.next_offset - self._in_order[0].queue_offset <= FAR:
            return None
        first = self._in_order[0]
        return None if first.reviving or first.settling else first

    def _count(self, pending: PendingCheckpoint) -> None:
        """Update the in-flight count of a checkpoint."""
        left = 0 if pending.finished else len(pending.left)
        if left != pending.counted:
            place = pending.checkpoint.key.topic, pending.checkpoint.key.group
            self._in_flight[place] += left - pending.counted
            pending.counted = left
            if not self._in_flight[place]:
                del self._in_flight[place]

    def _settle(self) -> None:
        order = self._in_order
        while order and order[0].finished:
            order.popleft()
        if len(self._due) > 1000 and len(self._due) > 4 * len(self._by_key):  # many finished long before they were due
            self._due = [entry for entry in self._due if not entry[2].finished]
            heapq.heapify(self._due)
