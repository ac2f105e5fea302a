"""What the parts of one broker's timers share while they run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import attrs

from gantrymq.formats.record import RecordView
from gantrymq.interfaces import Broker
from gantrymq.world.time_slices import TimeSlices
from gantrymq_schedule.timer.crowds import Crowds
from gantrymq_schedule.timer.delivery import Delivery
from gantrymq_schedule.timer.progress import Progress
from gantrymq_schedule.timer.rebuild import Rebuild
from gantrymq_schedule.timer.wheel_clock import WheelClock
from gantrymq_schedule.timer.wheel_files import WheelFiles
from gantrymq_store_files.timer_log import TimerEntry

__all__ = ["NOTHING", "WITHOUT_A_PAUSE", "TimerState"]

WITHOUT_A_PAUSE = 64  # messages read, or made
NOTHING = 1 << 62  # a tick


@attrs.define(eq=False)
class TimerState:
    """Positions, counts and tools."""

    broker: Broker
    clock: WheelClock
    files: WheelFiles
    progress: Progress
    delivery: Delivery
    crowds: Crowds
    last_tick: int = -1  # the last slot that may hold something
    next_busy: int | None = None  # the first one; None: to be looked for
    queue_offset: int = 0  # of the timer queue, next to be taken in
    log_end: int = 0  # of the timer log when that offset was reached
    waiting: int = 0  # messages
    in_slots: int = 0  # sum of the counts of the slots from the read tick on, of entries before `log_end`
    rebuild: Rebuild | None = None  # while wheel and log are made again: nothing is saved
    taken: int = 0  # messages, since the start
    emptying: bool = False  # a slot is under way
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)  # something is to be saved
    wake: asyncio.Event = attrs.field(factory=asyncio.Event)  # there may be something to do
    _began: int | None = None  # commit log offset where the deliveries under way began

    def count(self, changes: Mapping[str, int], now_ms: int) -> None:
        """So many more messages wait, by topic."""
        for topic, change in changes.items():
            self.waiting += change
            metrics, broker = self.progress.metrics, self.broker
            gone = topic not in metrics.topics and broker.topic(topic) is None and broker.store.dropped_at(topic) > 0
            if not gone:  # else it was forgotten when it was deleted
                metrics.add(topic, change, now_ms)

    def forget(self, topic: str, group: str) -> None:
        """A topic, or a group, was deleted."""
        self.progress.metrics.forget(topic, self.broker.world.clock.now_ms())
        self.changed.set()

    def begin(self) -> None:
        """Deliveries begin: after a crash they are looked for from here on."""
        if self._began is None:
            self._began = self.broker.store.state().max_log_offset

    def ended(self) -> None:
        """The positions tell of all deliveries."""
        self._began = None

    @property
    def delivered_from(self) -> int:
        """From where in the commit log there may be deliveries that no position tells of."""
        return self.broker.store.state().max_log_offset if self._began is None else self._began

    async def records(self, entries: Sequence[TimerEntry]) -> list[RecordView | None]:
        """The messages of *entries*, None for one that is gone; those that are not in memory are read together."""
        store = self.broker.store
        slices = TimeSlices(self.broker.world.clock, 1)
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
