"""State shared by the parts of one broker's timers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import attrs

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.world import TimeSlices
from gantrymq_schedule.timer.checkpoint_files import TimerCheckpointFiles
from gantrymq_schedule.timer.delivery import TimerDelivery
from gantrymq_schedule.timer.handover import TimerHandover
from gantrymq_schedule.timer.rebuild import WheelRebuild
from gantrymq_schedule.timer.slot_counts import SlotCounts
from gantrymq_schedule.timer.wheel_clock import WheelClock
from gantrymq_schedule.timer.wheel_files import WheelFiles
from gantrymq_store_files.timer_log import TimerEntry

WITHOUT_A_PAUSE = 64  # messages read or built before the event loop is yielded
NOTHING = 1 << 62  # tick that stands for an empty wheel


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
