"""Putting wheel and timer log together again from the commit log, when they do not hold what ``timercheck`` claims.

All messages of the timer queue are taken in again, from the first that is kept on, except those that are out already:

- Slots are delivered in their order. If the log has a delivery of slot R after a message whose slot is `MARGIN_MS` or
  more before R, the message is out. So at most the deliveries of the last slots are kept in memory, to tell the others.
- A message that went round came into the timer queue again, with one more in TIMER_ROLL_TIMES; the copy counts.

``timercheck`` is removed first and written once everything is in the wheel: a crash meanwhile begins again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from gantrymq.formats.record import RecordView, iter_records
from gantrymq.interfaces import Broker, DispatchEntry, GetLimit
from gantrymq.model import properties as props
from gantrymq_schedule.timer.messages import TIMER_QUEUE, Waiting, delivery_of, next_round_of, waited_ms

__all__ = ["Rebuild"]

log = logging.getLogger(__name__)

MARGIN_MS = 60_000
_TOGETHER = 10_000  # entries of the log of one step of the thread


class Rebuild:
    """What the commit log says of deliveries."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self.known: Counter[tuple[str, ...]] = Counter()  # deliveries of the last slots, and copies that go round
        self.ready = False  # everything is read
        self._out_ms = -1  # the newest slot out of which something was delivered
        self._out_at = -1  # log offset of the last delivery of that slot
        self._first_ms: int | None = None  # the oldest slot of a message
        self._pruned_ms = -1

    async def read(self, broker: Broker, running: Callable[[], bool]) -> bool:
        """Read the log, from the first message of the timer queue on; whether it was read to its end.

        Raises:
            StoreError: the disk cannot be read.
        """
        store = broker.store
        bounds = broker.bounds(TIMER_QUEUE)
        await store.flushed(store.state().max_log_offset)
        found = await broker.get(TIMER_QUEUE, bounds.min_offset, GetLimit(1))
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
        """Note what some *entries* say; whether there were any. For a thread."""
        batch = list(islice(entries, _TOGETHER))
        for entry in batch:
            if b"TIMER_OUT_MS" in entry.properties:
                self.note(entry.topic, entry.queue_id, entry.log_offset, entry.properties)
        return bool(batch)

    def note(self, topic: str, queue_id: int, log_offset: int, properties: bytes) -> None:
        """Note one message of the log that has TIMER_OUT_MS; called in the order of the log."""
        own = props.decode(properties)
        waited = waited_ms(own)
        if waited is None:
            return
        slot_ms, from_slot = waited
        if topic == TIMER_QUEUE.topic and (self._first_ms is None or slot_ms < self._first_ms):
            self._first_ms = slot_ms
        told = delivery_of(topic, queue_id, properties)
        if told is None:
            return
        self.known[told] += 1
        if from_slot and topic != TIMER_QUEUE.topic and slot_ms >= self._out_ms:
            self._out_ms, self._out_at = slot_ms, log_offset
            if slot_ms - self._pruned_ms > MARGIN_MS:
                self._prune(slot_ms)

    def _prune(self, slot_ms: int) -> None:
        """Forget deliveries of messages that are out in any case."""
        self._pruned_ms = slot_ms
        self.known = Counter({told: count for told, count in self.known.items() if int(told[4]) >= self._begin_ms})

    @property
    def _begin_ms(self) -> int:
        return self._out_ms - MARGIN_MS

    def begin_tick(self, now_ms: int, precision_ms: int) -> int:
        """The first slot that may not be out."""
        if self._out_ms >= 0:
            return max(0, self._begin_ms) // precision_ms
        return (now_ms if self._first_ms is None else min(now_ms, self._first_ms)) // precision_ms

    def is_out(self, record: RecordView, waiting: Waiting) -> bool:
        """Whether *record* of the timer queue was delivered, or went round; asked once for each."""
        if waiting.slot_ms < self._begin_ms and record.log_offset < self._out_at:
            return True
        copy = next_round_of(record)
        if not self.known[copy]:
            return False
        self.known[copy] -= 1
        return True
