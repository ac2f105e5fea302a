"""Delivery of due slots from the timer wheel, oldest first; the messages of a slot in the order of their arrival.

The recall markers of a slot are applied first. A batch is built while the previous one is being stored. Memory for the
current slot: eight bytes per message, and the keys of its recalls.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (dequeue, TimerDequeueGetMessageService).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

import attrs

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import StoreMessage
from gantrymq.plugin.model import string_hash
from gantrymq.plugin.world import TimeSlices
from gantrymq_schedule.due_message import Lateness
from gantrymq_schedule.timer.messages import TimedMessage, delete_key, due_message, rolled_message, timed_message_of
from gantrymq_schedule.timer.state import NOTHING, WITHOUT_A_PAUSE, TimerState
from gantrymq_schedule.timer.wheel_clock import SlotPlacement
from gantrymq_schedule.timer.wheel_files import NewEntry, SlotChain, WheelDamage
from gantrymq_store_files.timer_log import DEFAULT, DELETE, ROLL, TimerEntry

log = logging.getLogger(__name__)

_TOGETHER = 500  # messages per append
_BYTES_TOGETHER = 4 * 1024 * 1024


@attrs.define
class _Due:
    """The slot that is being delivered."""

    tick: int
    chain: SlotChain
    markers: list[tuple[str, str]]  # delete key and topic of each recall
    deletes: frozenset[str]  # delete keys of the recalls
    found: set[str]  # delete keys with a matching message
    done: int = 0


class TimerDequeuer:
    """Delivers the due slots of one broker."""

    def __init__(self, state: TimerState, lateness: Lateness) -> None:
        """*lateness*: statistics to update."""
        self._state = state
        self._lateness = lateness
        self._due: _Due | None = None
        self._putting: asyncio.Task[None] | None = None
        self._made_of: list[tuple[StoreMessage, int]] = []  # messages that are put, and their queue offsets
        self._unsure: list[StoreMessage] = []  # those of them that are not known to be stored

    @property
    def tick(self) -> int | None:
        """The slot that is being delivered, None between two slots."""
        return None if self._due is None else self._due.tick

    async def deliver(self) -> bool:
        """Deliver one batch. Return whether there was anything to do.

        Raises:
            OSError: wheel or timer log cannot be read.
            StoreError: the commit log cannot be read, or the broker stopped before everything was stored.
            WheelDamage: the next slot cannot be read.
        """
        due = self._due
        if due is None:
            due = self._due = await self._next()
            if due is None:
                return False
            self._state.dequeuing = True
        if due.done < len(due.chain.positions):
            await self._batch(due)
        if due.done >= len(due.chain.positions):
            await self.stored()
            self._finish_slot(due)
        self._state.changed.set()
        return True

    async def stored(self) -> None:
        """Wait until all built messages are stored. Raises StoreError if the broker stops before."""
        if self._putting is not None:
            await self._putting
            self._putting = None

    async def partly(self) -> tuple[int, int] | None:
        """Return how far the present slot was delivered, as a pair of `handover.TimerHandover`; None if unknown.

        Raises:
            OSError: the timer log cannot be read.
        """
        due, state, run = self._due, self._state, self._state.broker.world.workers.run
        if due is None:
            return None
        left = {id(each) for each in self._unsure}
        offsets = [offset for message, offset in self._made_of if id(message) in left]
        oldest: TimerEntry | None = None  # of those that were not put: log and queue have the same order
        for start in range(due.done, len(due.chain.positions), _TOGETHER):
            entries = await run(state.files.entries, due.chain.positions[start : start + _TOGETHER])
            oldest = min(entries if oldest is None else [oldest, *entries], key=lambda each: each.log_offset)
        if oldest is not None:
            record = (await state.records([oldest]))[0]
            if record is None:
                return None
            offsets.append(record.queue_offset)
        return (due.tick + 1) * state.clock.precision_ms, min(offsets, default=state.queue_offset)

    async def _next(self) -> _Due | None:
        """Return the next due slot, None if no slot is due."""
        state = self._state
        run, clock = state.broker.world.workers.run, state.clock
        if state.next_busy is None:
            end = state.last_tick + 1
            found = await run(state.files.next_busy, clock.read_tick, end)
            state.next_busy = found if found < end else NOTHING
        tick = clock.next_due(state.next_busy)
        if tick is None:
            return None  # passing empty slots alone needs no save
        chain = await run(state.files.chain, tick)
        if chain.broken_at is not None:
            problem = f"slot {tick} of the timer wheel has no valid entry at {chain.broken_at}"
            if chain.broken_at >= min(await run(state.files.starts), default=0):
                raise WheelDamage(problem)
            log.error("%s; its file was removed, as its messages have left the commit log", problem)
        state.begin()
        markers = await self._markers(chain.markers)
        return _Due(tick, chain, markers, frozenset(key for key, _ in markers), set())

    async def _markers(self, entries: Sequence[TimerEntry]) -> list[tuple[str, str]]:
        """Return delete key and topic of the recall markers *entries*."""
        found: list[tuple[str, str]] = []
        for start in range(0, len(entries), _TOGETHER):
            for record in await self._state.records(entries[start : start + _TOGETHER]):
                waiting = timed_message_of(record) if record is not None else None
                if waiting is not None and waiting.deletes is not None:
                    found.append((waiting.deletes, waiting.topic))
        return found

    async def _batch(self, due: _Due) -> None:
        """Build the next messages, and start storing them once the previous batch is stored."""
        world = self._state.broker.world
        part = due.chain.positions[due.done : due.done + _TOGETHER]
        entries = await world.workers.run(self._state.files.entries, part)
        size = 0
        for number, entry in enumerate(entries):
            size += entry.size
            if size > _BYTES_TOGETHER and number:
                entries, part = entries[:number], part[:number]
                break
        now_ms = world.clock.now_ms()
        made_at = self._state.broker.store.state().max_log_offset
        made_of, changes = await self._made(due, entries, now_ms)
        await self.stored()
        self._made_of, made = made_of, [message for message, _ in made_of]
        self._unsure = list(made)
        late_ms = max(0, now_ms - (due.tick + 1) * self._state.clock.precision_ms)
        self._lateness.delivered(len(made), late_ms * len(made), late_ms, world.clock.monotonic())
        self._putting = asyncio.get_running_loop().create_task(self._state.delivery.put(made, made_at, self._unsure))
        self._state.count(changes, now_ms)
        due.done += len(part)

    async def _made(
        self, due: _Due, entries: Sequence[TimerEntry], now_ms: int
    ) -> tuple[list[tuple[StoreMessage, int]], Counter[str]]:
        """Return the messages to store with their offsets in the timer queue, and changes of the counts by topic."""
        made: list[tuple[StoreMessage, int]] = []
        changes: Counter[str] = Counter()
        again: list[tuple[RecordView, TimedMessage]] = []
        slices = TimeSlices(self._state.broker.world.clock, 1)
        deleted = self._state.delivery.deleted
        for number, (entry, record) in enumerate(zip(entries, await self._state.records(entries), strict=True)):
            if number % WITHOUT_A_PAUSE == 0:
                await slices.item_done()
            waiting = timed_message_of(record) if record is not None else None
            if record is None or waiting is None:
                log.error("a timed message of %d bytes at %d is not in the commit log", entry.size, entry.log_offset)
                continue
            if due.deletes and waiting.deletes is None:
                key = delete_key(waiting.topic, waiting.unique_id)
                if key in due.deletes:
                    if key in due.found:  # the message was sent twice: one recall removes both
                        changes[waiting.topic] -= 1
                    due.found.add(key)
                    continue
            changes[waiting.topic] += 1 if waiting.deletes is not None else -1
            if waiting.deletes is None and deleted.has(waiting.topic, record.log_offset):
                continue  # checked for rolled messages too: their copy would be newer than the deletion
            if entry.rolls and self._state.acting:
                changes[waiting.topic] += 1
                again.append((record, waiting))
            elif entry.rolls:
                made.append((rolled_message(record, entry.written_ms, now_ms), record.queue_offset))
            else:
                made.append((due_message(record, waiting, entry.written_ms, now_ms), record.queue_offset))
        if again:
            await self._keep(again, due.tick, now_ms)
        return made, changes

    async def _keep(self, rolled: Sequence[tuple[RecordView, TimedMessage]], before: int, now_ms: int) -> None:
        """Put rolled messages of an acting master, which cannot store a copy of them, into a later slot themselves.

        That is the slot of the message, if it is after the slot *before*, even if earlier ones made it late: in a later
        one, a returning master would take the message as delivered once the read time is past its slot.
        """
        state, entries = self._state, []
        first_ms = state.clock.write_ms
        for record, waiting in rolled:
            tick = max(waiting.slot_ms // state.clock.precision_ms, before + 1)
            place = state.clock.place(waiting.slot_ms, now_ms)
            if place is None or tick < state.clock.write_tick:
                place = SlotPlacement(tick, rolls=False)
                first_ms = min(first_ms, tick * state.clock.precision_ms)
            magic = DEFAULT | (ROLL if place.rolls else 0) | (DELETE if waiting.deletes is not None else 0)
            topic_hash = string_hash(waiting.topic)
            entries.append(NewEntry(place.tick, magic, record.log_offset, record.total_size, topic_hash))
        await state.broker.world.workers.run(state.files.append, entries, first_ms)
        state.slot_counts.taken(entries)
        state.last_tick = max(state.last_tick, max(entry.tick for entry in entries))
        state.in_slots += sum(-1 if entry.magic & DELETE else 1 for entry in entries)

    def _finish_slot(self, due: _Due) -> None:
        state = self._state
        changes: Counter[str] = Counter()
        for key, topic in due.markers:
            if key in due.found:
                due.found.remove(key)
            else:  # the recall matched no message, or another recall removed it
                changes[topic] += 1
        state.count(changes, state.broker.world.clock.now_ms())
        state.in_slots -= due.chain.slot_count
        state.clock.delivered(due.tick)
        state.slot_counts.cleared(due.tick)
        self._due, state.next_busy, state.dequeuing = None, None, False
        state.ended()
        if state.clock.read_tick >= state.clock.write_tick:
            state.delivery.known.clear()
