"""Timed messages of one broker: taken in, kept in the wheel, delivered when they are due.

One task does it in turns: everything that came into the timer queue goes into wheel and log, then the slots that are
due are emptied, a batch a turn, oldest slot first, each in the order in which its messages came. A second task saves.

    a message        timer queue -> entry in the log, slot of the wheel -> real topic
    position         queue offset                                         read tick

Of a message that waits nothing is in memory. What a slot that is being emptied needs is: eight bytes for each message,
and the keys that are taken back in it.

After a crash the queue is read again from the saved offset, but for what stands in the log already, and slots are
emptied again from the saved tick, but for what stands in the commit log already (`delivery`): no message is lost, none
comes twice.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import attrs

from gantrymq.errors import GantryError, MessageIllegal, RefusedWith, ServiceNotAvailable, StoreError
from gantrymq.formats.record import RecordView, iter_records
from gantrymq.interfaces import Broker, GetLimit, GetStatus, StoreMessage
from gantrymq.model.java import string_hash
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.world.time_slices import TimeSlices
from gantrymq_schedule.lateness import Lateness
from gantrymq_schedule.timer import settings as keys
from gantrymq_schedule.timer.delivery import Delivery
from gantrymq_schedule.timer.messages import (
    DELETE_KEY,
    NEVER_WAITED,
    OUT_MS,
    TIMER_QUEUE,
    Waiting,
    asked_ms,
    delete_key,
    moved,
    returned,
    rolled,
    waiting_of,
)
from gantrymq_schedule.timer.progress import Progress
from gantrymq_schedule.timer.recall import answer_fields
from gantrymq_schedule.timer.recovery import recover
from gantrymq_schedule.timer.wheel_clock import REACH, WheelClock, accepted_ms
from gantrymq_schedule.timer.wheel_files import Chain, NewEntry, WheelFiles
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint
from gantrymq_store_files.timer_log import DEFAULT, DELETE, ROLL, TimerEntry
from gantrymq_store_files.timer_metrics import TopicCount
from gantrymq_store_files.timer_wheel import Slot

__all__ = ["Timers"]

log = logging.getLogger(__name__)

TAKEN_TOGETHER = 1000  # messages, from the timer queue
DELIVERED_TOGETHER = 500  # messages of one append
BYTES_TOGETHER = 4 * 1024 * 1024
WITHOUT_A_PAUSE = 64  # messages made
RETRY_S = 1.0
LOOK_S = 5.0  # at the wall clock, which may be set, while something waits
CLEAN_S = 30.0
NOTHING = 1 << 62  # a tick


@attrs.define
class _Due:
    """A slot that is being emptied."""

    tick: int
    chain: Chain
    markers: list[tuple[str, str]]  # delete key and topic of each
    deletes: frozenset[str]  # the keys
    found: set[str]  # those whose message was there
    done: int = 0


class Timers:
    """One broker's; may be started again after a stop."""

    def __init__(self) -> None:
        """Nothing is opened yet."""
        self.broker: Broker | None = None  # while the service runs
        self.lateness = Lateness()
        self._running = False

    # --- taking a message -------------------------------------------------------------------------------------------

    def move(self, message: StoreMessage, own: dict[str, str]) -> StoreMessage:
        """What to store in place of *message*, which asks for a time in its properties *own*.

        One whose time is past, or that waited already, stays as it is.

        Raises:
            MessageIllegal: its time is no number, or too far ahead, or it takes back a message whose time is past.
            RefusedWith: timers are off, or too many messages wait for that time (code 1).
            ServiceNotAvailable: the service does not run.
        """
        if OUT_MS in own or message.topic == TIMER_QUEUE.topic:
            return message
        broker = self.broker
        if broker is None:
            raise ServiceNotAvailable("timed messages are not taken yet: the service schedule has not started")
        settings = broker.settings
        if not settings.flag(keys.ENABLED):
            raise RefusedWith(1, f"timed messages are turned off here ({keys.ENABLED}=false); send it without a delay")
        now_ms = broker.world.clock.now_ms()
        deliver_ms = asked_ms(own, now_ms)
        longest_ms = settings.number(keys.LONGEST_S) * 1000
        if deliver_ms <= now_ms:
            if DELETE_KEY in own:
                raise MessageIllegal(f"the message to take back was due {now_ms - deliver_ms} ms ago")
            return message
        if deliver_ms - now_ms > longest_ms:
            raise MessageIllegal(
                f"a delay of {deliver_ms - now_ms} ms is longer than the longest one here, {longest_ms} ms "
                f"({keys.LONGEST_S})"
            )
        slot_ms = accepted_ms(deliver_ms, self._clock.precision_ms)
        self._refuse_crowded(slot_ms)
        made = moved(message, own, slot_ms)
        made.answer_fields = answer_fields(message.topic, self._broker_name, slot_ms, own)
        return made

    def _refuse_crowded(self, slot_ms: int) -> None:
        broker = self._started()
        most = broker.settings.number(keys.MOST_IN_SLOT)
        if most == 2**31 - 1:
            return
        slot = self._files.slot(slot_ms // self._clock.precision_ms)
        count = slot.count if slot is not None else 0
        share = 1000 * (count - most) / most
        if count > most and (count >= 2 * most or broker.world.random.randrange(1000) > 1000 - share):
            raise RefusedWith(
                1,
                f"{count} messages wait for the time {slot_ms} already, and {most} are taken "
                f"({keys.MOST_IN_SLOT}); choose another time, or send it again",
            )

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self, broker: Broker) -> None:
        """Bring the files together and begin.

        Raises:
            StoreLayoutError: the files are of another size than the settings say.
            StoreError: the commit log cannot be read.
            OSError: the disk.
        """
        self.broker = broker
        self._broker_name = broker.figures().broker
        settings, world = broker.settings, broker.world
        precision_ms = keys.precision(settings)
        longest_ms = settings.number(keys.LONGEST_S) * 1000
        now_tick = world.clock.now_ms() // precision_ms
        self._clock = WheelClock(precision_ms, settings.number(keys.WINDOW), now_tick, longest_ms)
        self._running = settings.flag(keys.ENABLED)
        if not self._running:
            return
        if broker.topic(TIMER_QUEUE.topic) is None:
            broker.create_topic(TopicConfig(TIMER_QUEUE.topic, 1, 1))
        root = store_root(broker)
        self._files = WheelFiles(world.files, root, settings.number(keys.FILE_BYTES), precision_ms)
        self._progress = Progress(world.files, root)
        self._delivery = Delivery(broker)
        await self._recover(broker)
        self._taken = 0  # messages, into the wheel
        self._due: _Due | None = None
        self._putting: asyncio.Task[None] | None = None  # messages of the slot that is being emptied
        self._next: int | None = None  # the first slot that may hold something; None: to be looked for
        self._began = broker.store.state().max_log_offset  # of the deliveries under way
        self._busy = False  # deliveries are under way
        self._again = False  # a sync failed
        self._wake, self._changed = asyncio.Event(), asyncio.Event()
        self._stop_hearing = broker.on_arrival(self._arrived, TIMER_QUEUE)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._save_now_and_then())]

    async def stop(self) -> None:
        """Save the progress. Idempotent."""
        if self.broker is None:
            return
        if self._running:
            self._running = False
            self._stop_hearing()
            self._wake.set()
            self._delivery.stopping = True
            turning, saving = self._tasks
            await asyncio.wait([turning])
            if self._putting is not None:
                await asyncio.gather(self._putting, return_exceptions=True)
            saving.cancel()
            await asyncio.wait([saving])
            try:
                await self._save()
            except (OSError, StoreError) as error:
                log.error("the progress of timed messages could not be saved: %s", error)
            self._files.close()
        self.broker = None

    async def _recover(self, broker: Broker) -> None:
        run = broker.world.workers.run
        saved = await run(self._progress.load)
        checkpoint, clock = self._progress.checkpoint, self._clock
        if saved and checkpoint.read_time_ms > 0:
            clock.read_tick = clock.write_tick = checkpoint.read_time_ms // clock.precision_ms
        elif self._files.starts():
            clock.read_tick = clock.write_tick = clock.read_tick - REACH + 60
        log_end = broker.store.state().max_log_offset
        found = await run(
            recover, self._files, broker.world.files, checkpoint.flushed_position, clock.read_tick, log_end
        )
        self._in_wheel, self._waiting, self._last_tick = found.in_wheel, found.waiting, found.last_tick
        if found.cut:
            log.warning("the timer log ends at %d; %d entries behind it were removed", self._files.end, found.cut)
        bounds = broker.bounds(TIMER_QUEUE)
        offset = max(checkpoint.queue_offset, bounds.min_offset)
        if offset > bounds.max_offset:
            log.warning("the timer queue ends at %d and was read up to %d", bounds.max_offset, offset)
        self._queue_offset = min(offset, bounds.max_offset)
        if checkpoint.delivered_from >= 0:
            await self._delivery.recall_from(checkpoint.delivered_from)

    # --- turns ------------------------------------------------------------------------------------------------------

    def _arrived(self, queue: Queue, end: int) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while self._running:
            try:
                if not await self._turn():
                    await self._wait()
            except (OSError, GantryError) as error:
                log.error("timed messages wait: %s", error)
                await self._started().world.clock.sleep(RETRY_S)
            except Exception:
                log.exception("timed messages wait: a bug")
                await self._started().world.clock.sleep(RETRY_S)

    async def _turn(self) -> bool:
        """Take in what came, then deliver a batch; whether there was something to do."""
        broker = self._started()
        self._wake.clear()
        now_ms = broker.world.clock.now_ms()
        end = broker.bounds(TIMER_QUEUE).max_offset
        took = self._queue_offset < end
        while self._queue_offset < end and self._running:
            await self._take_in(now_ms)
        if not self._running:
            return took
        self._clock.advance(now_ms)
        return await self._deliver() or took

    async def _wait(self) -> None:
        broker, clock = self._started(), self._clock
        timer = None
        if self._next is not None and self._next < NOTHING:
            left_s = ((self._next + 1) * clock.precision_ms - broker.world.clock.now_ms()) / 1000
            timer = broker.world.clock.call_later(min(max(left_s, 0.0), LOOK_S), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # --- into the wheel ---------------------------------------------------------------------------------------------

    async def _take_in(self, now_ms: int) -> None:
        broker, clock = self._started(), self._clock
        bounds = broker.bounds(TIMER_QUEUE)
        if self._queue_offset < bounds.min_offset:
            log.warning("timed messages %d to %d left the log unread", self._queue_offset, bounds.min_offset)
            self._queue_offset = bounds.min_offset
        found = await broker.get(TIMER_QUEUE, self._queue_offset, GetLimit(TAKEN_TOGETHER, BYTES_TOGETHER))
        if found.status is not GetStatus.FOUND:
            if found.next_offset <= self._queue_offset:
                raise StoreError(f"{TIMER_QUEUE} at {self._queue_offset}: {found.status.name}")
            self._queue_offset = found.next_offset
            return
        entries: list[NewEntry] = []
        past: list[tuple[RecordView, Waiting]] = []
        changes: Counter[str] = Counter()
        slices = TimeSlices(broker.world.clock, WITHOUT_A_PAUSE)
        for buffer in found.buffers:
            for record in iter_records(buffer):
                await slices.item_done()
                if self._in_wheel and record.log_offset in self._in_wheel:
                    continue
                waiting = waiting_of(record)
                if waiting is None:
                    log.error("the message at %d of the commit log names no time; it is left out", record.log_offset)
                    continue
                place = clock.place(waiting.slot_ms, now_ms)
                if place is None:
                    past.append((record, waiting))
                    continue
                magic = DEFAULT | (ROLL if place.rolls else 0) | (DELETE if waiting.deletes is not None else 0)
                topic_hash = string_hash(waiting.topic)
                entries.append(NewEntry(place.tick, magic, record.log_offset, record.total_size, topic_hash))
                changes[waiting.topic] += -1 if waiting.deletes is not None else 1
        if past:
            await self._deliver_past(past, now_ms)
        if entries:
            await broker.world.workers.run(self._files.append, entries, clock.write_ms)
            self._taken += len(entries)
            self._last_tick = max(self._last_tick, max(entry.tick for entry in entries))
            if self._next is not None:
                self._next = min(self._next, min(entry.tick for entry in entries))
        self._count(changes, now_ms)
        self._queue_offset = found.next_offset
        if self._in_wheel and self._queue_offset >= bounds.max_offset:
            self._in_wheel = set()
        self._busy = self._due is not None
        self._changed.set()

    async def _deliver_past(self, past: list[tuple[RecordView, Waiting]], now_ms: int) -> None:
        """Messages whose slot is past when they come: at once, and none that takes another back."""
        self._begin()
        await self._put_made()
        made = [returned(record, waiting, NEVER_WAITED, now_ms) for record, waiting in past if waiting.deletes is None]
        await self._delivery.put(made)

    def _begin(self) -> None:
        """Deliveries begin: after a crash they are looked for from here on."""
        if not self._busy:
            self._busy = True
            self._began = self._started().store.state().max_log_offset

    # --- out of the wheel -------------------------------------------------------------------------------------------

    async def _deliver(self) -> bool:
        run, clock = self._started().world.workers.run, self._clock
        due = self._due
        if due is None:
            if self._next is None:
                end = self._last_tick + 1
                found = await run(self._files.next_busy, clock.read_tick, end)
                self._next = found if found < end else NOTHING
            before = clock.read_tick
            tick = clock.next_due(self._next)
            if tick is None:
                return False
            if clock.read_tick != before:
                self._changed.set()
            chain = await run(self._files.chain, tick)
            if chain.broken_at is not None:
                log.error("slot %d of the timer wheel names no entry of its own at %d", tick, chain.broken_at)
            self._begin()
            markers = await self._markers(chain.markers)
            due = self._due = _Due(tick, chain, markers, frozenset(key for key, _ in markers), set())
        if due.done < len(due.chain.positions):
            await self._deliver_batch(due)
        if due.done >= len(due.chain.positions):
            await self._put_made()
            self._emptied(due)
        self._changed.set()
        return True

    async def _deliver_batch(self, due: _Due) -> None:
        broker = self._started()
        part = due.chain.positions[due.done : due.done + DELIVERED_TOGETHER]
        entries = await broker.world.workers.run(self._files.entries, part)
        size = 0
        for number, entry in enumerate(entries):
            size += entry.size
            if size > BYTES_TOGETHER and number:
                entries, part = entries[:number], part[:number]
                break
        now_ms = broker.world.clock.now_ms()
        made: list[StoreMessage] = []
        changes: Counter[str] = Counter()
        slices = TimeSlices(broker.world.clock, 1)
        for number, (entry, record) in enumerate(zip(entries, await self._records(entries), strict=True)):
            if number % WITHOUT_A_PAUSE == 0:
                await slices.item_done()
            waiting = waiting_of(record) if record is not None else None
            if record is None or waiting is None:
                log.error("a timed message of %d bytes at %d is not in the commit log", entry.size, entry.log_offset)
                continue
            if due.deletes and waiting.deletes is None:
                key = delete_key(waiting.topic, waiting.unique_id)
                if key in due.deletes:
                    due.found.add(key)
                    continue
            changes[waiting.topic] += 1 if waiting.deletes is not None else -1
            if entry.rolls:
                made.append(rolled(record, entry.written_ms, now_ms))
            else:
                made.append(returned(record, waiting, entry.written_ms, now_ms))
        await self._put_made()
        late_ms = max(0, now_ms - (due.tick + 1) * self._clock.precision_ms)
        self.lateness.delivered(len(made), late_ms * len(made), late_ms, broker.world.clock.monotonic())
        self._putting = asyncio.get_running_loop().create_task(self._delivery.put(made))
        self._count(changes, now_ms)
        due.done += len(part)

    async def _put_made(self) -> None:
        """Wait until what was made is stored; meanwhile the next ones are made."""
        if self._putting is not None:
            await self._putting
            self._putting = None

    def _count(self, changes: Counter[str], now_ms: int) -> None:
        for topic, change in changes.items():
            self._waiting += change
            self._progress.metrics.add(topic, change, now_ms)

    async def _records(self, entries: list[TimerEntry]) -> list[RecordView | None]:
        """The messages of *entries*; those that are not in memory are read together."""
        store = self._started().store
        slices = TimeSlices(self._started().world.clock, 1)
        found: list[RecordView | None] = []
        cold = []
        for number, entry in enumerate(entries):
            seen = store.view(entry.log_offset)
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

    async def _markers(self, entries: list[TimerEntry]) -> list[tuple[str, str]]:
        """Keys that are taken back, and their topics."""
        found: list[tuple[str, str]] = []
        for start in range(0, len(entries), DELIVERED_TOGETHER):
            for record in await self._records(entries[start : start + DELIVERED_TOGETHER]):
                waiting = waiting_of(record) if record is not None else None
                if waiting is not None and waiting.deletes is not None:
                    found.append((waiting.deletes, waiting.topic))
        return found

    def _emptied(self, due: _Due) -> None:
        now_ms = self._started().world.clock.now_ms()
        for key, topic in due.markers:
            if key in due.found:
                due.found.remove(key)
            else:  # it took nothing back, or not alone
                self._waiting += 1
                self._progress.metrics.add(topic, 1, now_ms)
        self._clock.delivered(due.tick)
        self._due, self._next, self._busy = None, None, False
        if self._delivery.known and self._clock.read_tick >= self._clock.write_tick:
            self._delivery.known.clear()

    # --- saving -----------------------------------------------------------------------------------------------------

    async def _save_now_and_then(self) -> None:
        broker = self._started()
        interval_s = broker.settings.number(keys.FLUSH_MS) / 1000
        cleaned = broker.world.clock.monotonic()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await broker.world.clock.sleep(interval_s)
            try:
                await self._save()
                if broker.world.clock.monotonic() - cleaned >= CLEAN_S:
                    cleaned = broker.world.clock.monotonic()
                    await broker.world.workers.run(self._files.clean, broker.store.state().min_log_offset)
            except (OSError, StoreError) as error:
                log.error("the progress of timed messages could not be saved, it is tried again: %s", error)
                self._changed.set()

    async def _save(self) -> None:
        """Make log and slots durable, then tell of it; what was delivered has to be durable before."""
        broker = self._started()
        end, clock = self._files.end, self._clock
        before = self._progress.checkpoint
        log_end = broker.store.state().max_log_offset
        told = TimerCheckpoint(
            clock.read_tick * clock.precision_ms,
            end,
            self._queue_offset,
            self._queue_offset,
            before.state_version,
            broker.world.clock.now_ms(),
            before.counter + 1,
            self._began if self._busy else log_end,
        )
        metrics = self._progress.metrics.encode()
        await broker.store.flushed(self._delivery.end)
        run = broker.world.workers.run
        if self._again:
            await run(self._files.write_again, before.flushed_position)
        try:
            await run(self._files.sync)
        except OSError:
            self._again = True
            raise
        self._again = False
        await run(self._progress.save, told, metrics)

    # --- for others -------------------------------------------------------------------------------------------------

    @property
    def enabled(self) -> bool:
        """Whether timed messages are taken and delivered."""
        return self._running

    def checkpoint(self) -> TimerCheckpoint:
        """What was saved last."""
        return self._progress.checkpoint

    def metrics_json(self) -> Mapping[str, object]:
        """How many messages of each topic wait, as request 61 tells it."""
        return self._progress.metrics.to_json()

    def topics(self) -> Mapping[str, TopicCount]:
        """How many messages of each topic wait."""
        return self._progress.metrics.topics

    @property
    def read_tick(self) -> int:
        """The first slot that was not emptied."""
        return self._clock.read_tick

    @property
    def precision_ms(self) -> int:
        """Milliseconds of a slot."""
        return self._clock.precision_ms

    async def next_slot(self, tick: int) -> Slot | None:
        """The first slot of *tick* or later that holds something."""
        files, run = self._files, self._started().world.workers.run
        return await run(lambda: next(files.busy(tick, self._last_tick + 1), None))

    async def back_from(self, tick: int, at: int, most: int) -> list[tuple[TimerEntry, RecordView | None]]:
        """Up to *most* entries of a slot from position *at* to older ones, with their messages."""
        entries = await self._started().world.workers.run(self._files.back_from, tick, at, most)
        return list(zip(entries, await self._records(entries), strict=True))

    def figures(self) -> dict[str, int]:
        """How far timers are: messages that wait, seconds behind, messages that are not in the wheel yet, counts."""
        if not self._running:
            return dict.fromkeys(("waiting", "behind_s", "queue_behind", "taken", "delivered", "given_up"), 0)
        broker, clock = self._started(), self._clock
        now_tick = broker.world.clock.now_ms() // clock.precision_ms
        late = now_tick - self._due.tick if self._due is not None else 0
        return {
            "waiting": max(0, self._waiting),
            "behind_s": max(0, late) * clock.precision_ms // 1000,
            "queue_behind": broker.bounds(TIMER_QUEUE).max_offset - self._queue_offset,
            "taken": self._taken,
            "delivered": self._delivery.delivered,
            "given_up": self._delivery.given_up,
        }

    def _started(self) -> Broker:
        assert self.broker is not None, "the service is not started"
        return self.broker


def store_root(broker: Broker) -> Path:
    """The folder of the store."""
    return broker.state_folder("schedule").parents[1]
