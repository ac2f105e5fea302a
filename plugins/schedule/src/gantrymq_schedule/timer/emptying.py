"""Out of the wheel: slots that are due, oldest first, each in the order in which its messages came.

What a slot takes back counts first. A batch is made while the one before it is stored. Of a slot that is being emptied
there is in memory: eight bytes for each message, and the keys that are taken back in it.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (dequeue, TimerDequeueGetMessageService).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

import attrs

from gantrymq.interfaces import StoreMessage
from gantrymq.world.time_slices import TimeSlices
from gantrymq_schedule.lateness import Lateness
from gantrymq_schedule.timer.messages import delete_key, returned, rolled, waiting_of
from gantrymq_schedule.timer.state import NOTHING, WITHOUT_A_PAUSE, TimerState
from gantrymq_schedule.timer.wheel_files import Chain, WheelDamage
from gantrymq_store_files.timer_log import TimerEntry

__all__ = ["Emptying"]

log = logging.getLogger(__name__)

TOGETHER = 500  # messages of one append
BYTES_TOGETHER = 4 * 1024 * 1024


@attrs.define
class _Due:
    """A slot that is being emptied."""

    tick: int
    chain: Chain
    markers: list[tuple[str, str]]  # delete key and topic of each
    deletes: frozenset[str]  # the keys
    found: set[str]  # those whose message was there
    done: int = 0


class Emptying:
    """Delivers what is due on one broker."""

    def __init__(self, state: TimerState, lateness: Lateness) -> None:
        """*lateness*: counts on."""
        self._state = state
        self._lateness = lateness
        self._due: _Due | None = None
        self._putting: asyncio.Task[None] | None = None

    @property
    def tick(self) -> int | None:
        """The slot under way."""
        return None if self._due is None else self._due.tick

    async def deliver(self) -> bool:
        """Deliver a batch; whether there was something to do.

        Raises:
            OSError: wheel or log cannot be read.
            StoreError: the commit log cannot be read, or the broker stops before all of it is stored.
            WheelDamage: the next slot cannot be read.
        """
        due = self._due
        if due is None:
            due = self._due = await self._next()
            if due is None:
                return False
            self._state.emptying = True
        if due.done < len(due.chain.positions):
            await self._batch(due)
        if due.done >= len(due.chain.positions):
            await self.stored()
            self._emptied(due)
        self._state.changed.set()
        return True

    async def stored(self) -> None:
        """Wait until everything that was made is stored. Raises StoreError: the broker stops before."""
        if self._putting is not None:
            await self._putting
            self._putting = None

    async def _next(self) -> _Due | None:
        """The next slot that is due."""
        state = self._state
        run, clock = state.broker.world.workers.run, state.clock
        if state.next_busy is None:
            end = state.last_tick + 1
            found = await run(state.files.next_busy, clock.read_tick, end)
            state.next_busy = found if found < end else NOTHING
        tick = clock.next_due(state.next_busy)
        if tick is None:
            return None  # that empty slots are past is not worth a save
        chain = await run(state.files.chain, tick)
        if chain.broken_at is not None:
            problem = f"slot {tick} of the timer wheel names no entry of its own at {chain.broken_at}"
            if chain.broken_at >= min(await run(state.files.starts), default=0):
                raise WheelDamage(problem)
            log.error("%s; its file was removed, as its messages have left the commit log", problem)
        state.begin()
        markers = await self._markers(chain.markers)
        return _Due(tick, chain, markers, frozenset(key for key, _ in markers), set())

    async def _markers(self, entries: Sequence[TimerEntry]) -> list[tuple[str, str]]:
        """Keys that are taken back, and their topics."""
        found: list[tuple[str, str]] = []
        for start in range(0, len(entries), TOGETHER):
            for record in await self._state.records(entries[start : start + TOGETHER]):
                waiting = waiting_of(record) if record is not None else None
                if waiting is not None and waiting.deletes is not None:
                    found.append((waiting.deletes, waiting.topic))
        return found

    async def _batch(self, due: _Due) -> None:
        """Make the next messages, and have them stored once those before them are."""
        world = self._state.broker.world
        part = due.chain.positions[due.done : due.done + TOGETHER]
        entries = await world.workers.run(self._state.files.entries, part)
        size = 0
        for number, entry in enumerate(entries):
            size += entry.size
            if size > BYTES_TOGETHER and number:
                entries, part = entries[:number], part[:number]
                break
        now_ms = world.clock.now_ms()
        made_at = self._state.broker.store.state().max_log_offset
        made, changes = await self._made(due, entries, now_ms)
        await self.stored()
        late_ms = max(0, now_ms - (due.tick + 1) * self._state.clock.precision_ms)
        self._lateness.delivered(len(made), late_ms * len(made), late_ms, world.clock.monotonic())
        self._putting = asyncio.get_running_loop().create_task(self._state.delivery.put(made, made_at))
        self._state.count(changes, now_ms)
        due.done += len(part)

    async def _made(
        self, due: _Due, entries: Sequence[TimerEntry], now_ms: int
    ) -> tuple[list[StoreMessage], Counter[str]]:
        """What to store, and by how much more of each topic wait."""
        made: list[StoreMessage] = []
        changes: Counter[str] = Counter()
        slices = TimeSlices(self._state.broker.world.clock, 1)
        deleted = self._state.delivery.deleted
        for number, (entry, record) in enumerate(zip(entries, await self._state.records(entries), strict=True)):
            if number % WITHOUT_A_PAUSE == 0:
                await slices.item_done()
            waiting = waiting_of(record) if record is not None else None
            if record is None or waiting is None:
                log.error("a timed message of %d bytes at %d is not in the commit log", entry.size, entry.log_offset)
                continue
            if due.deletes and waiting.deletes is None:
                key = delete_key(waiting.topic, waiting.unique_id)
                if key in due.deletes:
                    if key in due.found:  # sent twice: one recall takes both
                        changes[waiting.topic] -= 1
                    due.found.add(key)
                    continue
            changes[waiting.topic] += 1 if waiting.deletes is not None else -1
            if waiting.deletes is None and deleted.has(waiting.topic, record.log_offset):
                continue  # a copy for the next round would be newer than the deletion
            if entry.rolls:
                made.append(rolled(record, entry.written_ms, now_ms))
            else:
                made.append(returned(record, waiting, entry.written_ms, now_ms))
        return made, changes

    def _emptied(self, due: _Due) -> None:
        state = self._state
        changes: Counter[str] = Counter()
        for key, topic in due.markers:
            if key in due.found:
                due.found.remove(key)
            else:  # it took nothing back, or not alone
                changes[topic] += 1
        state.count(changes, state.broker.world.clock.now_ms())
        state.in_slots -= due.chain.slot_count
        state.clock.delivered(due.tick)
        state.crowds.emptied(due.tick)
        self._due, state.next_busy, state.emptying = None, None, False
        state.ended()
        if state.clock.read_tick >= state.clock.write_tick:
            state.delivery.known.clear()
