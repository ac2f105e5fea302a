"""Enqueueing messages of the timer queue into wheel and timer log.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (enqueue, putMessageToTimerWheel, doEnqueue).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence, Set

from gantrymq.errors import StoreError
from gantrymq.plugin.formats import RecordView, iter_records
from gantrymq.plugin.interfaces import GetLimit, GetResult, GetStatus
from gantrymq.plugin.model import string_hash
from gantrymq.plugin.world import TimeSlices
from gantrymq_schedule.timer.messages import NEVER_WAITED, TIMER_QUEUE, TimedMessage, due_message, timed_message_of
from gantrymq_schedule.timer.state import WITHOUT_A_PAUSE, TimerState
from gantrymq_schedule.timer.wheel_files import NewEntry
from gantrymq_store_files.timer_log import DEFAULT, DELETE, ROLL

log = logging.getLogger(__name__)

_TOGETHER = GetLimit(1000, 4 * 1024 * 1024)
PUT_TOGETHER = 500  # messages per append, as in `dequeue`

_Past = list[tuple[RecordView, TimedMessage]]


class TimerEnqueuer:
    """Reads the timer queue of one broker."""

    def __init__(self, state: TimerState, in_wheel: Set[int], came: int) -> None:
        """Create it without reading.

        Args:
            state: state of the broker's timers.
            in_wheel: log offsets of messages that are in the timer log already, although the queue is read there again.
            came: their share of the slot counts.
        """
        self._state = state
        self._in_wheel = in_wheel
        self._came = came  # sum of slot counts of entries after `TimerState.log_end`

    @property
    def rereads(self) -> bool:
        """Whether the messages to be read next are in the timer log already."""
        return bool(self._in_wheel)

    def behind(self) -> int:
        """Return how many messages of the timer queue are not enqueued yet."""
        return self._state.broker.store.bounds(TIMER_QUEUE).max_offset - self._state.queue_offset

    async def enqueue(self, now_ms: int) -> None:
        """Enqueue the next messages; deliver messages with a past slot directly, where recalls have no effect.

        Raises:
            StoreError: the queue cannot be read.
            OSError: the timer log cannot be written; the next call tries the same messages again.
        """
        state = self._state
        broker = state.broker
        bounds = broker.store.bounds(TIMER_QUEUE)
        if state.queue_offset < bounds.min_offset:
            log.warning(
                "timed messages %d to %d were deleted from the log before they were enqueued",
                state.queue_offset,
                bounds.min_offset,
            )
            state.queue_offset = bounds.min_offset
        found = await broker.messages.get(TIMER_QUEUE, state.queue_offset, _TOGETHER)
        if found.status is not GetStatus.FOUND:
            if found.next_offset <= state.queue_offset:
                raise StoreError(f"{TIMER_QUEUE} at {state.queue_offset}: {found.status.name}")
            state.queue_offset = found.next_offset
            return
        entries, past, changes = await self._sorted(found, now_ms)
        if entries:
            await broker.world.workers.run(state.files.append, entries, state.clock.write_ms)
            self._appended(entries)
        if past:
            state.begin()
            await self._deliver_at_once([each for each in past if each[1].deletes is None], now_ms)
        state.count(changes, now_ms)
        state.queue_offset = found.next_offset
        self._came += sum(-1 if entry.magic & DELETE else 1 for entry in entries)
        if not state.dequeuing:
            state.ended()
        if self._in_wheel and state.queue_offset >= bounds.max_offset:
            self._in_wheel = frozenset()
        if not self._in_wheel:  # otherwise a start after a kill would not find these messages in the log
            state.log_end = state.files.end
            state.in_slots, self._came = state.in_slots + self._came, 0
        state.changed.set()

    async def _sorted(self, found: GetResult, now_ms: int) -> tuple[list[NewEntry], _Past, Counter[str]]:
        """Return new log entries, messages with a past slot, and the change of the waiting messages by topic."""
        entries: list[NewEntry] = []
        past: _Past = []
        changes: Counter[str] = Counter()
        rebuild = self._state.rebuild
        slices = TimeSlices(self._state.broker.world.clock, WITHOUT_A_PAUSE)
        for buffer in found.buffers:
            for record in iter_records(buffer):
                await slices.item_done()
                waiting = timed_message_of(record)
                if waiting is None:
                    log.error(
                        "the message at %d of the commit log has no delivery time; it is skipped", record.log_offset
                    )
                    continue
                if record.log_offset in self._in_wheel:
                    changes[waiting.topic] += -1 if waiting.deletes is not None else 1
                    continue
                if rebuild is not None and rebuild.is_out(record, waiting):
                    continue
                place = self._state.clock.place(waiting.slot_ms, now_ms)
                if place is None:
                    past.append((record, waiting))
                    continue
                magic = DEFAULT | (ROLL if place.rolls else 0) | (DELETE if waiting.deletes is not None else 0)
                topic_hash = string_hash(waiting.topic)
                entries.append(NewEntry(place.tick, magic, record.log_offset, record.total_size, topic_hash))
                changes[waiting.topic] += -1 if waiting.deletes is not None else 1
        return entries, past, changes

    async def _deliver_at_once(self, past: _Past, now_ms: int) -> None:
        slices = TimeSlices(self._state.broker.world.clock, WITHOUT_A_PAUSE)
        for start in range(0, len(past), PUT_TOGETHER):
            made, made_at = [], self._state.broker.store.state().max_log_offset
            for record, waiting in past[start : start + PUT_TOGETHER]:
                if not self._state.delivery.deleted.has(waiting.topic, record.log_offset):
                    made.append(due_message(record, waiting, NEVER_WAITED, now_ms))
                await slices.item_done()
            await self._state.delivery.put(made, made_at)

    def _appended(self, entries: Sequence[NewEntry]) -> None:
        state = self._state
        state.taken += len(entries)
        state.slot_counts.taken(entries)
        state.last_tick = max(state.last_tick, max(entry.tick for entry in entries))
        if state.next_busy is not None:
            state.next_busy = min(state.next_busy, min(entry.tick for entry in entries))
