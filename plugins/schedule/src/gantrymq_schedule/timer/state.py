"""State of one broker's timers, and its periodic save.

A save writes timer log, slots and delivered messages first, then the checkpoint that covers them.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (TimerFlushService, prepareTimerCheckPoint, start).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import attrs

from gantrymq.errors import StoreError
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.world import TimeSlices
from gantrymq_schedule.timer.checkpoint_files import TimerCheckpointFiles, TimerHandover
from gantrymq_schedule.timer.delivery import TimerDelivery
from gantrymq_schedule.timer.rebuild import WheelRebuild
from gantrymq_schedule.timer.wheel_clock import SlotCounts, WheelClock
from gantrymq_schedule.timer.wheel_files import WheelFiles
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint
from gantrymq_store_files.timer_log import TimerEntry

WITHOUT_A_PAUSE = 64  # messages read or built before the event loop is yielded
NOTHING = 1 << 62  # tick that stands for an empty wheel
log = logging.getLogger(__name__)
_CLEAN_S = 30.0
IDLE_LOOK_S = 10.0
IDLE_BYTES = 64 * 1024 * 1024  # growth of the commit log that forces a save; a start after a kill reads this part


@attrs.define(eq=False)
class TimerState:
    """Positions, counts and components."""

    broker: Broker
    clock: WheelClock
    files: WheelFiles
    checkpoint_files: TimerCheckpointFiles
    delivery: TimerDelivery
    slot_counts: SlotCounts
    last_tick: int = -1  # the last slot that may hold a message
    next_busy: int | None = None  # the first slot that holds one; None: unknown
    queue_offset: int = 0  # next message of the timer queue to enqueue
    log_end: int = 0  # end of the timer log when that offset was reached
    waiting: int = 0  # number of waiting messages
    in_slots: int = 0  # sum of the slot counts from the read tick on, of entries before `log_end`
    handover: TimerHandover = attrs.field(factory=TimerHandover)
    acting: bool = False  # this broker is an acting master: the wheel is rebuilt at its start, and later by its master
    partly: tuple[int, int] | None = None  # at its end: how far it delivered the present slot, a pair of `handover`
    rebuild: WheelRebuild | None = None  # during a rebuild of wheel and log; nothing is saved then
    taken: int = 0  # messages enqueued since the start
    dequeuing: bool = False  # whether a slot is being delivered
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)  # there are changes to save
    wake: asyncio.Event = attrs.field(factory=asyncio.Event)  # there may be work to do
    _began: int | None = None  # commit log offset where the current deliveries began

    def count(self, changes: Mapping[str, int], now_ms: int) -> None:
        """Add *changes* to the numbers of waiting messages by topic."""
        for topic, change in changes.items():
            self.waiting += change
            metrics, broker = self.checkpoint_files.metrics, self.broker
            gone = (
                topic not in metrics.topics
                and broker.topics.get(topic) is None
                and broker.store_capabilities.dropped_at(topic) > 0
            )
            if not gone:  # the count of a deleted topic was removed at the deletion
                metrics.add(topic, change, now_ms)

    def forget(self, topic: str) -> None:
        """Remove the count of a deleted topic."""
        self.checkpoint_files.metrics.forget(topic, self.broker.world.clock.now_ms())
        self.changed.set()

    def begin(self) -> None:
        """Mark the start of deliveries: after a crash they are searched for from this log offset on."""
        if self._began is None:
            self._began = self.broker.store.state().max_log_offset

    def ended(self) -> None:
        """Mark that the positions cover all deliveries."""
        self._began = None

    @property
    def delivered_from(self) -> int:
        """Commit log offset from which on there may be deliveries that the positions do not cover."""
        return self.broker.store.state().max_log_offset if self._began is None else self._began

    async def records(self, entries: Sequence[TimerEntry]) -> list[RecordView | None]:
        """Return the messages of *entries*, None for deleted ones; those not in memory are read concurrently."""
        view = self.broker.store_capabilities.view
        slices = TimeSlices(self.broker.world.clock, 1)
        found: list[RecordView | None] = []
        cold = []
        for number, entry in enumerate(entries):
            seen = view(entry.log_offset)
            if seen is not None and not isinstance(seen, RecordView):
                cold.append((number, seen))
                seen = None
            found.append(seen)
            if number % WITHOUT_A_PAUSE == 0:
                await slices.item_done()
        read = await asyncio.gather(*(each for _, each in cold))
        for (number, _), record in zip(cold, read, strict=True):
            found[number] = record
        return [
            record if record is not None and record.total_size == entry.size else None
            for entry, record in zip(entries, found, strict=True)
        ]


class TimerFlusher:
    """Saves the timers of one broker."""

    def __init__(self, state: TimerState, interval_s: float) -> None:
        """*interval_s*: time between two saves while the state changes."""
        self._state = state
        self._interval_s = interval_s
        self._saving = asyncio.Lock()

    async def run(self) -> None:
        """Save periodically, and remove unused files of the timer log, until cancelled."""
        self._look()
        try:
            await self._save_periodically()
        finally:
            self._looking.cancel()

    def _look(self) -> None:
        """Request a save if other messages grew the commit log while the timers were idle."""
        state = self._state
        self._looking = state.broker.world.clock.call_later(IDLE_LOOK_S, self._look)
        if state.delivered_from - state.checkpoint_files.checkpoint.delivered_from > IDLE_BYTES:
            state.changed.set()

    async def _save_periodically(self) -> None:
        state = self._state
        world = state.broker.world
        cleaned = world.clock.monotonic()
        while True:
            await state.changed.wait()
            state.changed.clear()
            if not state.clock.held:
                await world.clock.sleep(self._interval_s)
            try:
                await self.save()
                if world.clock.monotonic() - cleaned >= _CLEAN_S:
                    cleaned = world.clock.monotonic()
                    await world.workers.run(state.files.clean, state.broker.store.state().min_log_offset)
            except (OSError, StoreError) as error:
                log.error("the state of timed messages could not be saved, retrying: %s", error)
                await world.clock.sleep(self._interval_s)
                state.changed.set()

    async def save(self) -> None:
        """Save once; do nothing during a rebuild.

        Raises:
            OSError: the disk cannot be written; the previous checkpoint stays.
            StoreError: the delivered messages could not be made durable.
        """
        async with self._saving:
            await self._save()

    async def _save(self) -> None:
        state = self._state
        if state.rebuild is not None:
            return
        before, clock, world = state.checkpoint_files.checkpoint, state.clock, state.broker.world
        read_tick = clock.read_tick
        new_checkpoint = TimerCheckpoint(
            read_tick * clock.precision_ms,
            state.log_end,
            state.queue_offset,
            state.queue_offset,
            before.state_version,
            world.clock.now_ms(),
            world.clock.now_ms()
            if state.acting
            else before.counter + 1,  # a returning master compares it with its own, a number of saves
            state.delivered_from,
            state.in_slots,
        )
        metrics = state.checkpoint_files.metrics.encode()
        await state.broker.store.flushed(state.delivery.end)
        run = world.workers.run
        await run(state.files.sync)
        await run(state.checkpoint_files.save, new_checkpoint, metrics)
        if state.acting and state.delivery.delivered:
            whole = (new_checkpoint.read_time_ms, new_checkpoint.queue_offset)
            pairs = [whole] if state.partly is None else [state.partly, whole]
            await run(state.handover.written, world.files, state.broker.root, pairs)
        if clock.held:
            state.wake.set()
        clock.saved_tick = read_tick
