"""Timed messages of one broker: enqueued, kept in the wheel, delivered when they are due.

One task works in turns: it enqueues all new messages of the timer queue into wheel and log (`enqueue`), then delivers
due slots, one batch per turn (`dequeue`). A second task saves the state (`TimerFlusher`).

    a message        timer queue -> entry in the log, slot of the wheel -> real topic
    position         queue offset                                         read tick

Waiting messages need no memory.

After a crash the queue is read again from the saved offset, except for messages in the timer log already, and slots are
delivered again from the saved tick, except for messages in the commit log already (`delivery`): no message is lost or
delivered twice.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from gantrymq.errors import GantryError, ServiceNotAvailable, StoreError
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import Bounds, Broker, StoreMessage
from gantrymq.plugin.model import Queue, Role, TopicConfig
from gantrymq_schedule import settings as keys
from gantrymq_schedule.due_message import Lateness
from gantrymq_schedule.interceptor import TimerAcceptance
from gantrymq_schedule.timer.checkpoint_files import TAKEN_OVER, TimerCheckpointFiles, TimerHandover
from gantrymq_schedule.timer.delivery import TimerDelivery
from gantrymq_schedule.timer.dequeue import TimerDequeuer
from gantrymq_schedule.timer.enqueue import TimerEnqueuer
from gantrymq_schedule.timer.messages import TIMER_QUEUE
from gantrymq_schedule.timer.rebuild import WheelRebuild
from gantrymq_schedule.timer.recovery import WheelRecovery, recover
from gantrymq_schedule.timer.state import NOTHING, TimerFlusher, TimerState
from gantrymq_schedule.timer.wheel_clock import IDLE_TICKS, REACH, SlotCounts, WheelClock
from gantrymq_schedule.timer.wheel_files import WheelDamage, WheelFiles
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint
from gantrymq_store_files.timer_log import TimerEntry
from gantrymq_store_files.timer_metrics import TimerMetrics, TopicCount
from gantrymq_store_files.timer_wheel import SLOTS, Slot

log = logging.getLogger(__name__)

_ACTS: Final = "this slave begins to act for its master"

_RETRY_S = 1.0
_JAVA_MARGIN_MS: Final = 10_000  # for a clock that was adjusted
LOOK_S = 5.0  # interval of reading the wall clock, which may be set, while messages wait


class Timers:
    """Timers of one broker; may be started again after a stop."""

    def __init__(self) -> None:
        """Create it without opening any file."""
        self.broker: Broker | None = None  # while the service runs
        self.lateness = Lateness()
        self._running = False
        self._damage = ""  # why wheel and log have to be rebuilt
        self._turn_ms = 0  # latest time of a turn: slots before it may be due

    def move(self, message: StoreMessage, own: dict[str, str]) -> StoreMessage:
        """Return the message to store in place of *message*, which has a delivery time in its properties *own*.

        A message with a past time, or one that waited already, is returned unchanged.

        Raises:
            MessageIllegal: the time is not a number or too far ahead, or the message recalls one that was due before.
            RequestRefused: timers are disabled, or too many messages wait for that time (code 1).
            ServiceNotAvailable: the service is not running.
        """
        if self.broker is None:
            raise ServiceNotAvailable("timed messages are not accepted yet: the service schedule has not started")
        return self._acceptance.move(message, own)

    # --- start and stop ---------------------------------------------------------------------------------------------

    async def start(self, broker: Broker) -> None:
        """Recover the files and start the tasks.

        Raises:
            StoreLayoutError: the file sizes do not match the settings, or the slots have another length.
            StoreError: commit log, wheel or timer log cannot be read.
        """
        self._acceptance = TimerAcceptance(broker, self._slot_count)
        if not broker.settings.flag(keys.ENABLED):
            self.broker = broker
            return
        acting = broker.role.current is Role.ACTING_MASTER
        if broker.topics.get(TIMER_QUEUE.topic) is None and not acting:
            broker.topics.put(TopicConfig(TIMER_QUEUE.topic, 1, 1))
        try:
            damage = _ACTS if acting else ""
            self._state, self._enqueuer = await _open_state(broker, damage)
        except OSError as error:
            raise StoreError(
                f"the timed messages that wait cannot be read: {error}; start again when the disk works"
            ) from error
        self._create_workers()
        if self._state.checkpoint_files.checkpoint.delivered_from < 0:
            try:
                await self._save()  # after a kill before the first save it would be unknown where deliveries began
            except BaseException:
                self._state.files.close()
                raise
        self.broker, self._running, self._damage = broker, True, ""
        self._stop_hearing = broker.messages.on_arrival(self._arrived, TIMER_QUEUE)
        self._stop_hearing_deletions = broker.topics.on_deleted(self._forget)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._flusher.run())]

    def _create_workers(self) -> None:
        """Create the components that work on the state."""
        self._dequeuer = TimerDequeuer(self._state, self.lateness)
        self._flusher = TimerFlusher(self._state, self._state.broker.settings.number(keys.FLUSH_MS) / 1000)

    async def stop(self) -> None:
        """Stop the tasks and save the state. Idempotent."""
        self.broker = None
        if not self._running:
            return
        self._running = False
        self._stop_hearing()
        self._stop_hearing_deletions()
        self._state.wake.set()
        self._state.delivery.stopping = True
        await asyncio.wait(self._tasks[:1])
        await self._finish_slot()
        await self._end_saving()
        await self._save()
        self._state.files.close()

    async def _finish_slot(self) -> None:
        """On an acting master, deliver the rest of the slot, or note for its master what was sent of it."""
        if not self._state.acting:
            return
        try:
            while self._dequeuer.tick is not None:
                await self._dequeuer.deliver()
        except (OSError, GantryError) as error:
            log.warning("timed messages that are due wait for the master: %s", error)
            try:
                self._state.partly = await self._dequeuer.partly()
            except (OSError, GantryError) as problem:
                log.warning("those that were sent to other brokers may come again from the master: %s", problem)

    async def _end_saving(self) -> None:
        await asyncio.gather(self._dequeuer.stored(), return_exceptions=True)
        saving = self._tasks.pop()
        saving.cancel()
        await asyncio.wait([saving])

    async def _save(self) -> None:
        try:
            await self._flusher.save()
        except (OSError, StoreError) as error:
            log.error("the state of timed messages could not be saved: %s", error)

    # --- turns ------------------------------------------------------------------------------------------------------

    def _arrived(self, queue: Queue, end: int) -> None:
        self._state.wake.set()

    def _forget(self, topic: str) -> None:
        self._state.forget(topic)  # of the present state: a rebuild replaces it

    async def _run(self) -> None:
        clock = self._state.broker.world.clock
        while self._running:
            try:
                if self._damage:
                    await self._rebuild()
                if not await self._turn():
                    await self._wait()
            except WheelDamage as error:
                self._damage = str(error)
            except (OSError, GantryError) as error:
                log.error("timed messages wait: %s", error)
                await clock.sleep(_RETRY_S)
            except Exception:
                log.exception("timed messages wait: a bug")
                await clock.sleep(_RETRY_S)

    async def _rebuild(self) -> None:
        """Restart with an empty wheel and log, to be rebuilt."""
        await self._end_saving()
        self._state.files.close()
        self._state, self._enqueuer = await _open_state(self._state.broker, self._damage)
        self._create_workers()
        self._tasks.append(asyncio.get_running_loop().create_task(self._flusher.run()))
        self._damage = ""

    async def _turn(self) -> bool:
        """Enqueue new messages, then deliver a batch. Return whether there was anything to do."""
        self._state.wake.clear()
        if self._state.rebuild is not None and not self._state.rebuild.ready and not await self._read_deliveries():
            return False
        await self._state.slot_counts.apply_limit(self.read_tick)
        now_ms = self._state.broker.world.clock.now_ms()
        if self._state.clock.was_set_back(now_ms) and self._state.rebuild is None and not self._enqueuer.rereads:
            if await self._dequeuer.deliver():
                return True
            await self._begin_again(now_ms // self.precision_ms)
            self._turn_ms = now_ms
        self._turn_ms = max(self._turn_ms, now_ms)
        end = self._state.broker.store.bounds(TIMER_QUEUE).max_offset
        took = self._state.queue_offset < end
        while self._state.queue_offset < end and self._running:
            await self._enqueuer.enqueue(now_ms)
        if not self._running:
            return took
        if self._state.rebuild is not None:
            self._state.rebuild = None
            log.info("%d timed messages wait, after wheel and timer log were rebuilt", self._state.waiting)
            self._state.changed.set()
        self._state.clock.advance(now_ms)
        delivered = await self._dequeuer.deliver()
        if self._state.clock.far:
            self._state.changed.set()
        return delivered or took

    async def _begin_again(self, tick: int) -> None:
        """Restart the wheel at *tick*, before its present slot, because the clock was set back.

        Everything up to the present slot is delivered. The slots in between are emptied, so that messages that are
        still to come can wait there, and the positions are saved before any message does.

        Raises:
            OSError: the disk cannot be read or written; the wheel stays at its slot.
            StoreError: the delivered messages could not be made durable.
            WheelDamage: the wheel cannot hold the slots of the waiting messages together with the new ones.
        """
        state, before = self._state, self._state.clock.read_tick
        back_s = (before - tick) * self.precision_ms // 1000
        if state.next_busy != NOTHING and state.last_tick >= tick + SLOTS:
            raise WheelDamage(f"the clock was set back by {back_s} s")
        log.warning("the clock was set back by %d s; timed messages are delivered by the new time", back_s)
        await self._flusher.save()
        await state.broker.world.workers.run(state.files.clear_between, tick, before)
        try:
            state.clock.begin_at(tick)
            await self._flusher.save()
        except BaseException:
            state.clock.begin_at(before)
            raise
        state.next_busy = None

    async def _read_deliveries(self) -> bool:
        """Find the first slot of the rebuilt wheel, and the deliveries so far. Return False if the broker stops."""
        state = self._state
        rebuild = WheelRebuild(state.handover)
        if not await rebuild.read(state.broker, lambda: self._running):
            return False
        now_ms = state.broker.world.clock.now_ms()  # which may have been set back since the last deliveries
        state.clock.begin_at(min(rebuild.begin_tick(now_ms, self.precision_ms), now_ms // self.precision_ms))
        state.delivery.known = rebuild.known
        state.rebuild = rebuild
        return True

    async def _wait(self) -> None:
        """Wait for a message, for the time of the next slot, or for a save that lets the wheel clock advance."""
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

    # --- queries ----------------------------------------------------------------------------------------------------

    @property
    def enabled(self) -> bool:
        """Whether timed messages are accepted and delivered."""
        return self._running

    @property
    def read_tick(self) -> int:
        """The first slot that is not delivered completely."""
        return self._state.clock.read_tick

    @property
    def precision_ms(self) -> int:
        """Length of a slot in milliseconds."""
        return self._state.clock.precision_ms

    def checkpoint(self) -> TimerCheckpoint:
        """Return the last saved checkpoint."""
        return self._state.checkpoint_files.checkpoint

    def metrics(self) -> TimerMetrics:
        """Return the numbers of waiting messages by topic, with their version."""
        return self._state.checkpoint_files.metrics

    def topics(self) -> Mapping[str, TopicCount]:
        """Return the number of waiting messages by topic."""
        return self.metrics().topics

    def in_time(self, slot_ms: int) -> bool:
        """Return whether everything in the timer queue now reaches the slot of *slot_ms* before it is due."""
        if not self._running:
            return False
        tick = slot_ms // self.precision_ms
        return tick >= max(self._state.clock.write_tick, self._turn_ms // self.precision_ms)

    async def next_slot(self, tick: int) -> Slot | None:
        """Return the first slot at *tick* or later that holds a message."""
        state = self._state
        return await state.broker.world.workers.run(lambda: next(state.files.busy(tick, state.last_tick + 1), None))

    async def back_from(self, tick: int, at: int, most: int) -> list[tuple[TimerEntry, RecordView | None]]:
        """Return up to *most* entries of a slot with their messages, from position *at* to older ones."""
        entries = await self._state.broker.world.workers.run(self._state.files.back_from, tick, at, most)
        return list(zip(entries, await self._state.records(entries), strict=True))

    def stats(self) -> dict[str, int]:
        """Return waiting messages, delay in seconds, messages not enqueued yet, and counters."""
        if not self._running:
            return dict.fromkeys(("waiting", "behind_s", "queue_behind", "taken", "delivered", "given_up"), 0)
        state, tick = self._state, self._dequeuer.tick
        now_tick = state.broker.world.clock.now_ms() // self.precision_ms
        late = max(0, now_tick - tick) if tick is not None else 0
        return {
            "waiting": max(0, state.waiting),
            "behind_s": late * self.precision_ms // 1000,
            "queue_behind": self._enqueuer.behind(),
            "taken": state.taken,
            "delivered": state.delivery.delivered,
            "given_up": state.delivery.given_up,
        }

    def _slot_count(self, tick: int) -> int:
        return self._state.slot_counts.count(tick, self.read_tick)


async def _open_state(broker: Broker, damage: str) -> tuple[TimerState, TimerEnqueuer]:
    """Recover the state from the files; if *damage* is set, discard them. Raises as `Timers.start`, and OSError."""
    settings, world = broker.settings, broker.world
    run, root, precision_ms = world.workers.run, broker.root, keys.precision(settings)
    files = WheelFiles(world.files, root, settings.number(keys.FILE_BYTES), precision_ms)
    checkpoint_files = TimerCheckpointFiles(world.files, root)
    bounds, now_ms = broker.store.bounds(TIMER_QUEUE), world.clock.now_ms()
    damage = (
        damage
        or await run(checkpoint_files.load)
        or _implausible(checkpoint_files.checkpoint, bounds, now_ms, precision_ms)
    )
    checkpoint = TimerCheckpoint() if damage else checkpoint_files.checkpoint
    read_tick = now_ms // precision_ms + 60 - REACH if damage else checkpoint.read_time_ms // precision_ms
    log_end = broker.store.state().max_log_offset
    found = await run(recover, files, world.files, checkpoint, read_tick, log_end)
    damage = damage or found.damage
    if damage:
        found, checkpoint, read_tick = WheelRecovery(), TimerCheckpoint(), now_ms // precision_ms
        await run(checkpoint_files.forget)
        await run(files.remove)
    if found.cut:
        log.warning("the timer log ends at %d; %d entries after it were removed", files.end, found.cut)
    delivery = TimerDelivery(broker)
    if checkpoint.delivered_from >= 0:
        await delivery.recall_from(checkpoint.delivered_from)
    elif not damage:  # a checkpoint of a Java broker; what it delivered since is stored after the time of its slot
        await delivery.recall_since(checkpoint.read_time_ms - _JAVA_MARGIN_MS)
    clock = WheelClock(precision_ms, settings.number(keys.WINDOW), read_tick)
    slot_counts = SlotCounts(broker, files)
    await slot_counts.apply_limit(read_tick)
    state = TimerState(broker, clock, files, checkpoint_files, delivery, slot_counts, found.last_tick)
    state.acting = broker.role.current is Role.ACTING_MASTER
    state.waiting = state.in_slots = found.waiting - found.came
    state.queue_offset = max(checkpoint.queue_offset, bounds.min_offset)
    state.log_end = min(checkpoint.flushed_position, files.end)
    if damage and bounds.min_offset < bounds.max_offset:
        level = logging.INFO if damage in (_ACTS, TAKEN_OVER) else logging.WARNING
        log.log(level, "%s; the timer wheel and its log are rebuilt from the commit log", damage)
        state.handover = await run(TimerHandover.read, world.files, root)
        state.rebuild = WheelRebuild(state.handover)
    return state, TimerEnqueuer(state, found.in_wheel, found.came)


def _implausible(check: TimerCheckpoint, bounds: Bounds, now_ms: int, precision_ms: int) -> str:
    """Return why a checkpoint cannot be valid, empty if it can."""
    if check.queue_offset > bounds.max_offset:
        return f"timercheck claims {check.queue_offset} messages of the timer queue, which has {bounds.max_offset}"
    if check.queue_offset < 0 or check.flushed_position < 0 or check.read_time_ms > now_ms + SLOTS * precision_ms:
        return f"timercheck is damaged: {check}"
    return ""
