"""Saving how far timers are: log and slots first, and what was delivered, then the checkpoint that tells of it.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (TimerFlushService, prepareTimerCheckPoint, start).
"""

from __future__ import annotations

import logging

from gantrymq.errors import StoreError
from gantrymq_schedule.timer.state import TimerState
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint

__all__ = ["Saving"]

log = logging.getLogger(__name__)

CLEAN_S = 30.0
IDLE_LOOK_S = 10.0
IDLE_BYTES = 64 * 1024 * 1024  # of the commit log without a saving, as a start after a kill reads them


class Saving:
    """Saves one broker's."""

    def __init__(self, state: TimerState, interval_s: float) -> None:
        """*interval_s*: between two savings, while something changes."""
        self._state = state
        self._interval_s = interval_s

    async def run(self) -> None:
        """Save now and then, and remove files of the timer log that nobody needs, until cancelled."""
        self._look()
        try:
            await self._save_again_and_again()
        finally:
            self._looking.cancel()

    def _look(self) -> None:
        """Have the progress saved while nothing happens to timed messages, but others are stored."""
        state = self._state
        self._looking = state.broker.world.clock.call_later(IDLE_LOOK_S, self._look)
        if state.delivered_from - state.progress.checkpoint.delivered_from > IDLE_BYTES:
            state.changed.set()

    async def _save_again_and_again(self) -> None:
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
                if world.clock.monotonic() - cleaned >= CLEAN_S:
                    cleaned = world.clock.monotonic()
                    await world.workers.run(state.files.clean, state.broker.store.state().min_log_offset)
            except (OSError, StoreError) as error:
                log.error("the progress of timed messages could not be saved, it is tried again: %s", error)
                await world.clock.sleep(self._interval_s)
                state.changed.set()

    async def save(self) -> None:
        """Save once; nothing while wheel and log are made again.

        Raises:
            OSError: the disk; the checkpoint before stays.
            StoreError: what was delivered could not be made durable.
        """
        state = self._state
        if state.rebuild is not None:
            return
        before, clock = state.progress.checkpoint, state.clock
        read_tick = clock.read_tick
        told = TimerCheckpoint(
            read_tick * clock.precision_ms,
            state.log_end,
            state.queue_offset,
            state.queue_offset,
            before.state_version,
            state.broker.world.clock.now_ms(),
            before.counter + 1,
            state.delivered_from,
            state.in_slots,
        )
        metrics = state.progress.metrics.encode()
        await state.broker.store.flushed(state.delivery.end)
        run = state.broker.world.workers.run
        await run(state.files.sync)
        await run(state.progress.save, told, metrics)
        if clock.held:
            state.wake.set()
        clock.saved_tick = read_tick
