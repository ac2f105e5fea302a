"""One queue of the revive log, as far as it is read: which checkpoints wait, what of them is acknowledged, what is due.

    feed(offset, record)    records in the order of the log; each once
    due(now)                checkpoints whose time has come: whoever asked revives them, then says `finished`
    position                the last entry of the log before which nothing is open; what is committed

A checkpoint that this broker wrote is due when its time is over: its acknowledgements are fed as they are stored. One
that a timer delivered (a Java broker wrote it, or the handle was unknown) may have acknowledgements behind it in that
timer, so it waits for the timer's time to pass RocketMQ's own margin of 2 s, or for the timer to be silent for 3 s.

A checkpoint that comes a second time under its key takes the place of the first, with what was acknowledged: so one
with a long time is written again at the end of the log, and the position moves on (`lagging`).

Pure: time is an argument, and nothing is read or written.

Source of the margins: apache/rocketmq broker/.../processor/PopReviveService.java (consumeReviveMessage,
mergeAndRevive).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from typing import Final

from gantrymq_pop.checkpoints import Acknowledgement, Checkpoint, CheckpointKey, ReviveRecord

__all__ = ["PendingCheckpoint", "ReviveQueue"]

MARGIN_MS: Final = 2000
SILENT_MS: Final = 3000
FAR: Final = 50_000  # entries; a checkpoint further behind the end than this is written again


class PendingCheckpoint:
    """A checkpoint that is not finished."""

    __slots__ = (
        "by_timer",
        "checkpoint",
        "counted",
        "finished",
        "left",
        "log_offset",
        "queue_offset",
        "reviving",
        "settling",
    )

    def __init__(self, checkpoint: Checkpoint, queue_offset: int, by_timer: bool, log_offset: int | None) -> None:
        self.checkpoint = checkpoint
        self.log_offset = log_offset  # its messages lie before it in the log; None: not known
        self.queue_offset = queue_offset  # its own, in the revive log
        self.by_timer = by_timer
        self.left = set(checkpoint.offsets)  # not acknowledged
        self.settling = set[int]()  # of these, what is being put on record as acknowledged
        self.counted = 0  # messages of it that are counted as in flight
        self.finished = False
        self.reviving = False

    @property
    def acknowledged(self) -> list[int]:
        """Offsets that need not come back."""
        return [offset for offset in self.checkpoint.offsets if offset not in self.left]


class ReviveQueue:
    """What one queue of the revive log says."""

    def __init__(self, next_offset: int, in_flight: Counter[tuple[str, str]] | None = None) -> None:
        """A queue of which nothing is known yet.

        Args:
            next_offset: of the first entry that is fed.
            in_flight: topic and group to the messages that are out, kept up to date.
        """
        self._in_flight = Counter() if in_flight is None else in_flight
        self.next_offset = next_offset
        self._by_key: dict[CheckpointKey, PendingCheckpoint] = {}
        self._in_order: deque[PendingCheckpoint] = deque()  # by offset; the first is not finished
        self._due: list[
            tuple[int, int, PendingCheckpoint]
        ] = []  # a heap; finished ones are left in it until they come up
        self._timer_ms = 0  # the latest time that a timer is known to have delivered up to
        self._timer_seen_ms = 0  # when that was

    def __len__(self) -> int:
        """Checkpoints that wait."""
        return len(self._by_key)

    @property
    def position(self) -> int:
        """Offset of the last entry that is finished with all before it, -1 for none."""
        return (self._in_order[0].queue_offset if self._in_order else self.next_offset) - 1

    def pending(self, key: CheckpointKey) -> PendingCheckpoint | None:
        """The checkpoint that waits under *key*."""
        return self._by_key.get(key)

    def feed(self, queue_offset: int, record: ReviveRecord, now_ms: int) -> None:
        """Take the entry at `next_offset` in."""
        assert queue_offset == self.next_offset, f"entry {queue_offset} where {self.next_offset} comes next"
        self.next_offset += 1
        if record.by_timer:
            self._timer_ms = max(self._timer_ms, record.deliver_ms)
            self._timer_seen_ms = now_ms
        entry = record.entry
        if isinstance(entry, Checkpoint):
            self._add(PendingCheckpoint(entry, queue_offset, record.by_timer, record.log_offset))
        elif isinstance(entry, Acknowledgement):
            self.acknowledge(entry)

    def skip_to(self, queue_offset: int) -> None:
        """The entries before it are gone from the log."""
        self.next_offset = max(self.next_offset, queue_offset)

    def _add(self, pending: PendingCheckpoint) -> None:
        key = pending.checkpoint.key
        before = self._by_key.get(key)
        if before is not None:
            if not before.finished and before.checkpoint.offsets == pending.checkpoint.offsets:
                pending.left = before.left
                pending.log_offset = before.log_offset
            before.finished = True
            self._count(before)
        self._by_key[key] = pending
        self._in_order.append(pending)
        heapq.heappush(self._due, (pending.checkpoint.due_ms, pending.queue_offset, pending))
        if not pending.left:
            self.finished(pending)
        self._count(pending)
        self._settle()

    def acknowledge(self, entry: Acknowledgement) -> None:
        """Messages of a checkpoint need not come back; of one that is not known nothing is left to do."""
        pending = self._by_key.get(entry.key)
        if pending is not None:
            pending.left.difference_update(entry.offsets)
            if not pending.left and not pending.reviving:
                self.finished(pending)
            self._count(pending)

    def due(self, now_ms: int, most: int) -> list[PendingCheckpoint]:
        """Checkpoints to be revived now, the earliest first; each is told once, until `again` or `finished`.

        One with an acknowledgement that is being stored is not among them until that is settled.
        """
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

    def _timer_passed(self, pending: PendingCheckpoint, now_ms: int) -> bool:
        silent = now_ms - self._timer_seen_ms > SILENT_MS
        passed_ms = now_ms if silent else self._timer_ms
        return passed_ms - pending.checkpoint.due_ms > MARGIN_MS

    def next_due_ms(self) -> int | None:
        """When the earliest checkpoint is due, None without any. It may be one that is finished by now."""
        while self._due and self._due[0][2].finished:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def again(self, pending: PendingCheckpoint) -> None:
        """Reviving it did not work; it is due still."""
        pending.reviving = False
        if not pending.left:
            self.finished(pending)
        self._count(pending)
        if not pending.finished:
            heapq.heappush(self._due, (pending.checkpoint.due_ms, pending.queue_offset, pending))

    def finished(self, pending: PendingCheckpoint) -> None:
        """All its messages are acknowledged or were given back."""
        pending.finished = True
        if self._by_key.get(pending.checkpoint.key) is pending:
            del self._by_key[pending.checkpoint.key]
        self._count(pending)
        self._settle()

    def lagging(self) -> PendingCheckpoint | None:
        """The checkpoint that holds the position back by far, to be written again; None where there is none."""
        if not self._in_order or self.next_offset - self._in_order[0].queue_offset <= FAR:
            return None
        first = self._in_order[0]
        return None if first.reviving or first.settling else first

    def _count(self, pending: PendingCheckpoint) -> None:
        """Let what is in flight be right about a checkpoint."""
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
        if len(self._due) > 1000 and len(self._due) > 4 * len(self._by_key):  # finished long before they were due
            self._due = [entry for entry in self._due if not entry[2].finished]
            heapq.heapify(self._due)
