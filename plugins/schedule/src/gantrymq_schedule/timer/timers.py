"""Timed messages of one broker: taken in, kept in the wheel, delivered when they are due.

One task does it in turns: everything that came into the timer queue goes into wheel and log (`taking_in`), then the
slots that are due are emptied, a batch a turn (`emptying`). A second task saves (`saving`).

    a message        timer queue -> entry in the log, slot of the wheel -> real topic
    position         queue offset                                         read tick

Of a message that waits nothing is in memory.

After a crash the queue is read again from the saved offset, but for what stands in the log already, and slots are
emptied again from the saved tick, but for what stands in the commit log already (`delivery`): no message is lost, none
comes twice.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from gantrymq.errors import GantryError, ServiceNotAvailable, StoreError
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import Bounds, Broker, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_schedule.lateness import Lateness
from gantrymq_schedule.timer import settings as keys
from gantrymq_schedule.timer.acceptance import Acceptance
from gantrymq_schedule.timer.crowds import Crowds
from gantrymq_schedule.timer.delivery import Delivery
from gantrymq_schedule.timer.emptying import Emptying
from gantrymq_schedule.timer.messages import TIMER_QUEUE
from gantrymq_schedule.timer.progress import Progress
from gantrymq_schedule.timer.rebuild import Rebuild
from gantrymq_schedule.timer.recovery import Recovered, recover
from gantrymq_schedule.timer.saving import Saving
from gantrymq_schedule.timer.state import NOTHING, TimerState
from gantrymq_schedule.timer.taking_in import TakingIn
from gantrymq_schedule.timer.wheel_clock import IDLE_TICKS, REACH, WheelClock
from gantrymq_schedule.timer.wheel_files import WheelDamage, WheelFiles
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint
from gantrymq_store_files.timer_log import TimerEntry
from gantrymq_store_files.timer_metrics import TopicCount
from gantrymq_store_files.timer_wheel import SLOTS, Slot

__all__ = ["Timers"]

log = logging.getLogger(__name__)

RETRY_S = 1.0
LOOK_S = 5.0  # at the wall clock, which may be set, while something waits


class Timers:
    """One broker's; may be started again after a stop."""

    def __init__(self) -> None:
        """Nothing is opened yet."""
        self.broker: Broker | None = None  # while the service runs
        self.lateness = Lateness()
        self._running = False
        self._damage = ""  # why wheel and log have to be made again
        self._turn_ms = 0  # slots before it are due in this turn, or were before

    def move(self, message: StoreMessage, own: dict[str, str]) -> StoreMessage:
        """What to store in place of *message*, which asks for a time in its properties *own*.

        One whose time is past, or that waited already, stays as it is.

        Raises:
            MessageIllegal: its time is no number, or too far ahead, or it takes back a message whose time is past.
            RefusedWith: timers are off, or too many messages wait for that time (code 1).
            ServiceNotAvailable: the service does not run.
        """
        if self.broker is None:
            raise ServiceNotAvailable("timed messages are not taken yet: the service schedule has not started")
        return self._acceptance.move(message, own)

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self, broker: Broker) -> None:
        """Bring the files together and begin.

        Raises:
            StoreLayoutError: the files are of another size than the settings say, or the slots of another length.
            StoreError: commit log, wheel or timer log cannot be read.
        """
        self._acceptance = Acceptance(broker, self._crowd)
        if not broker.settings.flag(keys.ENABLED):
            self.broker = broker
            return
        if broker.topic(TIMER_QUEUE.topic) is None:
            broker.create_topic(TopicConfig(TIMER_QUEUE.topic, 1, 1))
        try:
            self._state, self._taking = await _recovered(broker, "")
        except OSError as error:
            raise StoreError(
                f"the timed messages that wait cannot be read: {error}; start again once the disk is well"
            ) from error
        self.broker, self._running, self._damage = broker, True, ""
        self._make()
        if self._state.progress.checkpoint.delivered_from < 0:
            await self._save()  # or a kill before the first saving would leave nobody to say where deliveries began
        self._stop_hearing = broker.on_arrival(self._arrived, TIMER_QUEUE)
        broker.on_deleted(self._state.forget)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._saving.run())]

    def _make(self) -> None:
        """Make what works on the state."""
        self._emptying = Emptying(self._state, self.lateness)
        self._saving = Saving(self._state, self._state.broker.settings.number(keys.FLUSH_MS) / 1000)

    async def stop(self) -> None:
        """Save the progress. Idempotent."""
        self.broker = None
        if not self._running:
            return
        self._running = False
        self._stop_hearing()
        self._state.wake.set()
        self._state.delivery.stopping = True
        await asyncio.wait(self._tasks[:1])
        await self._end_saving()
        await self._save()
        self._state.files.close()

    async def _end_saving(self) -> None:
        await asyncio.gather(self._emptying.stored(), return_exceptions=True)
        saving = self._tasks.pop()
        saving.cancel()
        await asyncio.wait([saving])

    async def _save(self) -> None:
        try:
            await self._saving.save()
        except (OSError, StoreError) as error:
            log.error("the progress of timed messages could not be saved: %s", error)

    # --- turns ------------------------------------------------------------------------------------------------------

    def _arrived(self, queue: Queue, end: int) -> None:
        self._state.wake.set()

    async def _run(self) -> None:
        clock = self._state.broker.world.clock
        while self._running:
            try:
                if self._damage:
                    await self._begin_again()
                if not await self._turn():
                    await self._wait()
            except WheelDamage as error:
                self._damage = str(error)
            except (OSError, GantryError) as error:
                log.error("timed messages wait: %s", error)
                await clock.sleep(RETRY_S)
            except Exception:
                log.exception("timed messages wait: a bug")
                await clock.sleep(RETRY_S)

    async def _begin_again(self) -> None:
        """Make wheel and log again."""
        await self._end_saving()
        self._state.files.close()
        self._state, self._taking = await _recovered(self._state.broker, self._damage)
        self._make()
        self._tasks.append(asyncio.get_running_loop().create_task(self._saving.run()))
        self._damage = ""

    async def _turn(self) -> bool:
        """Take in what came, then deliver a batch; whether there was something to do."""
        self._state.wake.clear()
        if self._state.rebuild is not None and not self._state.rebuild.ready and not await self._read_deliveries():
            return False
        await self._state.crowds.follow(self.read_tick)
        now_ms = self._state.broker.world.clock.now_ms()
        self._turn_ms = max(self._turn_ms, now_ms)
        end = self._state.broker.bounds(TIMER_QUEUE).max_offset
        took = self._state.queue_offset < end
        while self._state.queue_offset < end and self._running:
            await self._taking.take_in(now_ms)
        if not self._running:
            return took
        if self._state.rebuild is not None:
            self._state.rebuild = None
            log.info("%d timed messages wait, after wheel and timer log were made again", self._state.waiting)
            self._state.changed.set()
        self._state.clock.advance(now_ms)
        delivered = await self._emptying.deliver()
        if self._state.clock.far:
            self._state.changed.set()
        return delivered or took

    async def _read_deliveries(self) -> bool:
        """Find out where the wheel begins that is made again, and what was delivered; False if the broker stops."""
        state, rebuild = self._state, Rebuild()
        if not await rebuild.read(state.broker, lambda: self._running):
            return False
        state.clock.begin_at(rebuild.begin_tick(state.broker.world.clock.now_ms(), self.precision_ms))
        state.delivery.known = rebuild.known
        state.rebuild = rebuild
        return True

    async def _wait(self) -> None:
        """Wait for a message, for the time of the next slot, or for a saving that lets the clock go on."""
        world, timer = self._state.broker.world, None
        busy = self._state.next_busy
        if busy is not None and not self._state.clock.held:
            left_s = ((busy + 1) * self.precision_ms - world.clock.now_ms()) / 1000
            look_s = LOOK_S if busy < NOTHING else IDLE_TICKS * self.precision_ms / 1000
            timer = world.clock.call_later(min(max(left_s, 0.0), look_s), self._state.wake.set)
        try:
            await self._state.wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # --- for others -------------------------------------------------------------------------------------------------

    @property
    def enabled(self) -> bool:
        """Whether timed messages are taken and delivered."""
        return self._running

    @property
    def read_tick(self) -> int:
        """The first slot that was not emptied."""
        return self._state.clock.read_tick

    @property
    def precision_ms(self) -> int:
        """Milliseconds of a slot."""
        return self._state.clock.precision_ms

    def checkpoint(self) -> TimerCheckpoint:
        """What was saved last."""
        return self._state.progress.checkpoint

    def metrics_json(self) -> Mapping[str, object]:
        """How many messages of each topic wait, as request 61 tells it."""
        return self._state.progress.metrics.to_json()

    def topics(self) -> Mapping[str, TopicCount]:
        """How many messages of each topic wait."""
        return self._state.progress.metrics.topics

    def in_time(self, slot_ms: int) -> bool:
        """Whether what is in the timer queue by now is in the slot of *slot_ms* before that is due."""
        if not self._running:
            return False
        tick = slot_ms // self.precision_ms
        return tick >= max(self._state.clock.write_tick, self._turn_ms // self.precision_ms)

    async def next_slot(self, tick: int) -> Slot | None:
        """The first slot of *tick* or later that holds something."""
        state = self._state
        return await state.broker.world.workers.run(lambda: next(state.files.busy(tick, state.last_tick + 1), None))

    async def back_from(self, tick: int, at: int, most: int) -> list[tuple[TimerEntry, RecordView | None]]:
        """Up to *most* entries of a slot, from position *at* to older ones, with their messages."""
        entries = await self._state.broker.world.workers.run(self._state.files.back_from, tick, at, most)
        return list(zip(entries, await self._state.records(entries), strict=True))

    def figures(self) -> dict[str, int]:
        """How far timers are: messages that wait, seconds behind, messages that are not in the wheel yet, counts."""
        if not self._running:
            return dict.fromkeys(("waiting", "behind_s", "queue_behind", "taken", "delivered", "given_up"), 0)
        state, tick = self._state, self._emptying.tick
        now_tick = state.broker.world.clock.now_ms() // self.precision_ms
        late = max(0, now_tick - tick) if tick is not None else 0
        return {
            "waiting": max(0, state.waiting),
            "behind_s": late * self.precision_ms // 1000,
            "queue_behind": self._taking.behind(),
            "taken": state.taken,
            "delivered": state.delivery.delivered,
            "given_up": state.delivery.given_up,
        }

    def _crowd(self, tick: int) -> int:
        return self._state.crowds.count(tick, self.read_tick)


async def _recovered(broker: Broker, damage: str) -> tuple[TimerState, TakingIn]:
    """The state as the files tell it; with *damage* they are not believed. Raises as `Timers.start`, and OSError."""
    settings, world = broker.settings, broker.world
    run, root, precision_ms = world.workers.run, broker.root, keys.precision(settings)
    files = WheelFiles(world.files, root, settings.number(keys.FILE_BYTES), precision_ms)
    progress = Progress(world.files, root)
    bounds, now_ms = broker.bounds(TIMER_QUEUE), world.clock.now_ms()
    damage = damage or await run(progress.load) or _senseless(progress.checkpoint, bounds, now_ms, precision_ms)
    checkpoint = TimerCheckpoint() if damage else progress.checkpoint
    read_tick = now_ms // precision_ms + 60 - REACH if damage else checkpoint.read_time_ms // precision_ms
    log_end = broker.store.state().max_log_offset
    found = await run(recover, files, world.files, checkpoint, read_tick, log_end)
    damage = damage or found.damage
    if damage:
        found, checkpoint, read_tick = Recovered(), TimerCheckpoint(), now_ms // precision_ms
        await run(progress.forget)
        await run(files.remove)
    if found.cut:
        log.warning("the timer log ends at %d; %d entries behind it were removed", files.end, found.cut)
    delivery = Delivery(broker)
    if checkpoint.delivered_from >= 0:
        await delivery.recall_from(checkpoint.delivered_from)
    clock = WheelClock(precision_ms, settings.number(keys.WINDOW), read_tick, settings.number(keys.LONGEST_S) * 1000)
    crowds = Crowds(broker, files)
    await crowds.follow(read_tick)
    state = TimerState(broker, clock, files, progress, delivery, crowds, found.last_tick)
    state.waiting = state.in_slots = found.waiting - found.came
    state.queue_offset = max(checkpoint.queue_offset, bounds.min_offset)
    state.log_end = min(checkpoint.flushed_position, files.end)
    if damage and bounds.min_offset < bounds.max_offset:
        log.warning("%s; the wheel of timed messages and its log are made again from the commit log", damage)
        state.rebuild = Rebuild()
    return state, TakingIn(state, found.in_wheel, found.came)


def _senseless(check: TimerCheckpoint, bounds: Bounds, now_ms: int, precision_ms: int) -> str:
    """Why a checkpoint cannot be right; empty if it can."""
    if check.queue_offset > bounds.max_offset:
        return f"timercheck claims {check.queue_offset} messages of the timer queue, which has {bounds.max_offset}"
    if check.queue_offset < 0 or check.flushed_position < 0 or check.read_time_ms > now_ms + SLOTS * precision_ms:
        return f"timercheck is damaged: {check}"
    return ""
