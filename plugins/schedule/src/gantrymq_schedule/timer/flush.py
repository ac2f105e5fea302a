"""Periodic save of the timers: first timer log, slots and delivered messages, then the checkpoint that covers them.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (TimerFlushService, prepareTimerCheckPoint, start).
"""

from __future__ import annotations

import asyncio
import logging

from gantrymq.errors import StoreError
from gantrymq_schedule.timer.state import TimerState
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint

log = logging.getLogger(__name__)

_CLEAN_S = 30.0
IDLE_LOOK_S = 10.0
IDLE_BYTES = 64 * 1024 * 1024  # growth of the commit log that forces a save; a start after a kill reads this part


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
