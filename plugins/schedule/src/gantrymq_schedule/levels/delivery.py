"""Delivers messages of the delay levels when they are due, and saves the offsets.

One task serves all levels, one slice at a time, so that a burst does not block the event loop and is delivered in the
order of due times. A position moves when the messages before it are acknowledged, and is saved when they are durable.

A message that the store refuses permanently (no REAL_TOPIC, too long) is skipped with a log line; a Java broker retries
it for ever, and nothing after it is delivered. Every other failure is retried.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Final

from gantrymq.errors import GantryError, MessageIllegal, RequestError
from gantrymq.plugin.config_files import load, save
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import Broker, PutResult, PutStatus, StoreMessage
from gantrymq.plugin.model import ACTING_STEP, Queue, Role
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.world import wait_set
from gantrymq_schedule.due_message import DeletedTopics, Lateness
from gantrymq_schedule.levels.due import read_due, real_message
from gantrymq_schedule.levels.positions import DELAY_OFFSETS, DelayOffsetsFile, LevelPositions, due_at
from gantrymq_schedule.levels.resume import SavedLevel, find_delivered
from gantrymq_schedule.levels.table import level_of, queue_of
from gantrymq_schedule.settings import FLUSH_INTERVAL

log = logging.getLogger(__name__)

_TOGETHER_MS: Final = 5  # messages due within this time of each other are delivered together
_AGAIN_S: Final = 0.1  # retry delay after the store refused
_AFTER_A_BUG_S: Final = 10.0


class LevelDelivery:
    """Delivery of one broker's levels; `start` once, `stop` once."""

    def __init__(self, broker: Broker, folder: Path, delays_ms: Sequence[int]) -> None:
        """Create it without reading any file.

        Args:
            folder: folder of delayOffset.json.
            delays_ms: delays of the levels, the first is level 1.
        """
        self._broker = broker
        self._clock = broker.world.clock
        self._path = folder / DELAY_OFFSETS
        self._delays_ms = tuple(delays_ms)
        self.positions = LevelPositions()
        self.lateness = Lateness()
        self.left_behind = 0  # messages skipped because they cannot be stored
        self._file = DelayOffsetsFile()
        self._deleted = DeletedTopics(broker)
        self._unsaved = False
        self._told = ""  # the problem in the last warning
        self._waits: dict[int, PutStatus] = {}  # by level, how the store refused its next message
        self._log_end = 0  # log offset after the last delivered message
        self._stored: dict[int, set[int]] = {}  # by level, queue offsets after its position that are delivered
        self._hearing: list[Callable[[], None]] = []
        self._wake: asyncio.Event = asyncio.Event()
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    # --- start and stop ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the saved offsets and start delivering.

        Raises:
            FormatError: the file and its backup cannot be read; the message says what to do.
        """
        broker = self._broker
        members = await broker.world.workers.run(load, broker.world.files, self._path, log.warning)
        self._file = DelayOffsetsFile.from_json(members or {})
        if broker.role.current is Role.ACTING_MASTER:
            self._file.version.counter += ACTING_STEP
        there = {level_of(queue) for queue in broker.store.queues() if queue.topic == SCHEDULE_TOPIC}
        for level in sorted(there | set(range(1, len(self._delays_ms) + 1))):
            queue = queue_of(level)
            low, high = broker.store.bounds(queue)
            known = level <= len(self._delays_ms)
            delay_ms = self._delays_ms[level - 1] if known else None
            position = max(self._file.offsets.get(level, 0), low)
            if position > high:
                log.warning(
                    "%s says %d for delay level %d, but its queue ends at %d; "
                    "the log is searched for what was delivered",
                    *(self._path, position, level, high),
                )
                position = low
            self.positions.add_level(level, delay_ms, position, high)
            if known:
                self._hearing.append(broker.messages.on_arrival(self._arrived, queue))
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._deliver_all()), loop.create_task(self._save_periodically())]

    async def stop(self) -> None:
        """Finish the running append and save the offsets."""
        self._stopping = True
        self._wake.set()
        for end in self._hearing:
            end()
        if self._tasks:
            deliver, saving = self._tasks
            # Not cancelled: its append may be stored already, and the messages would be delivered again.
            await asyncio.wait([deliver])
            saving.cancel()
            await asyncio.wait([saving])
            await self._save()

    def offsets_text(self) -> str:
        """Return the text of delayOffset.json as it would be saved now."""
        return self._file.to_text()

    def _arrived(self, queue: Queue, end: int) -> None:
        if self.positions.arrived(level_of(queue), end):
            self._wake.set()

    # --- delivery ---------------------------------------------------------------------------------------------------

    async def _deliver_all(self) -> None:
        while not self._stopping and not await self._guarded(self._resume()):
            pass
        while not self._stopping:
            now_ms = self._clock.now_ms()
            ready = self.positions.ready(now_ms)
            if ready is not None:
                await self._guarded(self._deliver(*ready))
                await self._clock.sleep(0)
            else:
                wait_ms = self.positions.wait_ms(now_ms)
                await self._pause(None if wait_ms is None else max(wait_ms, _TOGETHER_MS) / 1000)

    async def _guarded(self, step: Coroutine[None, None, None]) -> bool:
        """Run *step* and return whether it succeeded; pause after a failure."""
        try:
            await step
            self._told = ""
            return True
        except GantryError as error:
            if str(error) != self._told:
                self._told = str(error)
                log.warning("delayed messages wait: %s; retrying", error)
            await self._pause(_AGAIN_S)
        except Exception:
            log.exception("delayed messages wait because of a bug; retrying")
            await self._pause(_AFTER_A_BUG_S)
        return False

    async def _pause(self, seconds: float | None) -> None:
        """Wait for a message or for the timeout."""
        self._wake.clear()
        if self._stopping:
            return
        if seconds is None:
            await self._wake.wait()
        else:
            await wait_set(self._clock, self._wake, seconds)

    async def _resume(self) -> None:
        """Skip the messages that were delivered before a kill."""
        levels = [
            SavedLevel(level, position, self.positions.delay_ms(level))
            for level, position, end, _ in self.positions.levels()
            if position < end
        ]
        log_end = self._broker.store.state().published_offset
        found = await find_delivered(self._broker, levels, self._delays_ms, lambda: self._stopping)
        for level, resumed in found.items():
            count = resumed.position - self.positions.position(level)
            if count or resumed.beyond:
                log.info(
                    "delay level %d: %d messages were delivered before the stop", level, count + len(resumed.beyond)
                )
                self._stored[level] = resumed.beyond
                self._move(level, resumed.position)
                self._log_end = log_end

    async def _deliver(self, level: int, until_ms: int) -> None:
        """Deliver a slice of *level*: messages due at *until_ms* or earlier."""
        queue, start, delay_ms = queue_of(level), self.positions.position(level), self.positions.delay_ms(level)
        due = await read_due(self._broker, queue, start, until_ms, delay_ms, self._delays_ms)
        if not due.records and due.time_ms is None and due.position <= start:
            self._move(level, due.position)
            self.positions.ended(level, due.position)
            return
        for sentence in due.unreadable:
            self.left_behind += 1
            log.error("a delayed message cannot be read and is not delivered: %s", sentence)
        stored = self._stored.setdefault(level, set())
        waited: list[tuple[RecordView, int]] = []
        messages: list[StoreMessage] = []
        for record, time_ms in due.records:
            if record.queue_offset in stored:
                continue
            try:
                message = real_message(record)
            except MessageIllegal as error:
                self._leave_behind(record, str(error))
                continue
            if self._deleted.has(message.topic, record.log_offset):
                continue
            messages.append(message)
            waited.append((record, time_ms))
        position, next_ms = due.position, due.time_ms
        refusal: PutResult | None = None
        for (record, _), result in zip(waited, await self._store(messages), strict=True):
            if result.status is PutStatus.OK:
                stored.add(record.queue_offset)
                self._log_end = max(self._log_end, result.end)
            elif result.status.is_illegal:
                self._leave_behind(record, result.problem)
            elif refusal is None:
                refusal, position, next_ms = result, record.queue_offset, None
        self._count([time_ms for record, time_ms in waited if record.queue_offset in stored], delay_ms)
        self._stored[level] = {offset for offset in stored if offset >= position}
        before_ms = due.records[-1][1] if due.records else 0
        # A level that waits comes after the others, which may be for topics that can be stored.
        self._move(level, position, next_ms, before_ms if refusal is None else self._clock.now_ms())
        if refusal is None:
            self._waits.pop(level, None)
            return
        if refusal.status is not self._waits.get(level):  # its text may change with each try
            self._waits[level] = refusal.status
            why = refusal.problem or refusal.status.name
            log.warning("messages of delay level %d wait: the store refuses them: %s; retrying", level, why)
        await self._pause(_AGAIN_S)

    def _move(self, level: int, position: int, time_ms: int | None = None, before_ms: int = 0) -> None:
        self._unsaved = self._unsaved or self._file.offsets.get(level) != position
        self._file.offsets[level] = position
        self.positions.advance(level, position, time_ms, before_ms)

    def _leave_behind(self, record: RecordView, why: str) -> None:
        self.left_behind += 1
        log.error("the delayed message at log offset %d is not delivered: %s", record.log_offset, why)

    def _count(self, times_ms: list[int], delay_ms: int | None) -> None:
        if times_ms:
            now_ms = self._clock.now_ms()
            late = [max(0, now_ms - due_at(time_ms, now_ms, delay_ms)) for time_ms in times_ms]
            self.lateness.delivered(len(late), sum(late), max(late), self._clock.monotonic())

    # --- storing ----------------------------------------------------------------------------------------------------

    async def _store(self, messages: Sequence[StoreMessage]) -> Sequence[PutResult]:
        """Store *messages* as one append, or one by one if the broker refuses one of them. Return a result for each.

        Raises:
            StoreError: it is unknown whether they were stored.
        """
        if not messages:
            return ()
        try:
            return await self._broker.messages.put_all(messages, skip_interceptors=True)
        except RequestError as error:
            if len(messages) == 1 or error.retriable:
                status = PutStatus.SERVICE_NOT_AVAILABLE if error.retriable else PutStatus.MESSAGE_ILLEGAL
                return [PutResult(status, -1, -1, 0, 0, str(error))] * len(messages)
        return [(await self._store([message]))[0] for message in messages]

    # --- saving the offsets -----------------------------------------------------------------------------------------

    async def _save_periodically(self) -> None:
        while True:
            await self._clock.sleep(self._broker.settings.number(FLUSH_INTERVAL) / 1000)
            await self._save()

    async def _save(self) -> None:
        """Save changed offsets once the delivered messages are durable; failures are logged and retried."""
        if not self._unsaved:
            return
        # Before anything is awaited, so that a change during the write is saved next time.
        self._unsaved = False
        self._file.version.next(self._clock.now_ms())
        text, world = self._file.to_text(), self._broker.world
        try:
            # Otherwise a crash could lose messages that the saved offsets count as delivered.
            await self._broker.store.flushed(self._log_end)
            await world.workers.run(save, world.files, self._path, text)
        except (GantryError, OSError) as error:
            self._unsaved = True
            log.warning("%s cannot be written: %s; it is tried again", self._path, error)
