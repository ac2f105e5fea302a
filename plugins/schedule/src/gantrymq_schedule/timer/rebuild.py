"""Rebuild of wheel and timer log from the commit log, when they do not match ``timercheck``.

All messages of the timer queue are enqueued again, from the first one kept, except those that were delivered already:

- Slots are delivered in order. If the log has a delivery from slot R after a message with a slot at least `_MARGIN_MS`
  before R, that message was delivered. So only the deliveries of the last slots have to be kept in memory.
- What an acting master sent to other brokers is not in the log, but in `handover`.
- A rolled message was stored in the timer queue again, with TIMER_ROLL_TIMES one higher; only the copy is enqueued.

``timercheck`` is removed first and written once everything is in the wheel, so a crash restarts the rebuild.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView, iter_records
from gantrymq.plugin.interfaces import BrokerStorage, DispatchEntry, GetLimit
from gantrymq_schedule.timer.checkpoint_files import TimerHandover
from gantrymq_schedule.timer.messages import (
    TIMER_QUEUE,
    TimedMessage,
    delivery_key,
    due_key,
    next_roll_key,
    parse_slot,
)

log = logging.getLogger(__name__)

_MARGIN_MS = 60_000
_TOGETHER = 10_000  # log entries per step in the worker thread


class WheelRebuild:
    """Deliveries found in the commit log."""

    def __init__(self, handover: TimerHandover) -> None:
        """Create it; `read` has to be called next. *handover*: deliveries that are not in the log."""
        self._handover = handover
        self.known: Counter[tuple[str, ...]] = Counter()  # keys of deliveries from the last slots, and of rolled copies
        self.ready = False  # whether the log was read completely
        self._out_ms = -1  # newest slot with a delivery
        self._out_at = -1  # log offset of the last delivery from that slot
        self._first_ms: int | None = None  # oldest slot of any message
        self._pruned_ms = -1

    async def read(self, broker: BrokerStorage, running: Callable[[], bool]) -> bool:
        """Read the log from the first message of the timer queue on. Return False if *running* became false before.

        Raises:
            StoreError: the disk cannot be read.
        """
        store = broker.store
        bounds = broker.store.bounds(TIMER_QUEUE)
        await store.flushed(store.state().max_log_offset)
        found = await broker.messages.get(TIMER_QUEUE, bounds.min_offset, GetLimit(1))
        first = next((record.log_offset for each in found.buffers for record in iter_records(each)), None)
        end = store.state().max_log_offset
        begin = store.state().min_log_offset if first is None else first
        entries = iter(store.scan(begin, end) if bounds.max_offset > bounds.min_offset else ())
        while running():
            if not await broker.world.workers.run(self._note, entries):
                self.ready = True
                return True
        return False

    def _note(self, entries: Iterator[DispatchEntry]) -> bool:
        """Process the next *entries*. Return whether there were any. Runs in a worker."""
        batch = list(islice(entries, _TOGETHER))
        for entry in batch:
            if b"TIMER_OUT_MS" in entry.properties:
                self.note(entry.topic, entry.queue_id, entry.log_offset, entry.properties)
        return bool(batch)

    def note(self, topic: str, queue_id: int, log_offset: int, properties: bytes) -> None:
        """Process a message of the log that has TIMER_OUT_MS; called in the order of the log."""
        own = props.decode(properties)
        waited = parse_slot(own)
        if waited is None:
            return
        slot_ms, from_slot = waited
        if topic == TIMER_QUEUE.topic and (self._first_ms is None or slot_ms < self._first_ms):
            self._first_ms = slot_ms
        key = delivery_key(topic, queue_id, properties)
        if key is None:
            return
        self.known[key] += 1
        if from_slot and topic != TIMER_QUEUE.topic and slot_ms >= self._out_ms:
            self._out_ms, self._out_at = slot_ms, log_offset
            if slot_ms - self._pruned_ms > _MARGIN_MS:
                self._prune(slot_ms)

    def _prune(self, slot_ms: int) -> None:
        """Discard deliveries from slots that count as delivered completely."""
        self._pruned_ms = slot_ms
        self.known = Counter({key: count for key, count in self.known.items() if int(key[4]) >= self._begin_ms})

    @property
    def _begin_ms(self) -> int:
        return self._out_ms - _MARGIN_MS

    def begin_tick(self, now_ms: int, precision_ms: int) -> int:
        """Return the first slot that may not be delivered completely."""
        if self._out_ms >= 0:
            return max(0, self._begin_ms) // precision_ms
        return (now_ms if self._first_ms is None else min(now_ms, self._first_ms)) // precision_ms

    def is_out(self, record: RecordView, waiting: TimedMessage) -> bool:
        """Return whether *record* of the timer queue was delivered or rolled; call it once per record."""
        if waiting.slot_ms < self._begin_ms and record.log_offset < self._out_at:
            return True
        if self._handover.has(waiting.slot_ms, record.queue_offset):
            return True
        for key in (next_roll_key(record), due_key(record, waiting)):
            if self.known[key]:
                self.known[key] -= 1
                return True
        return False
