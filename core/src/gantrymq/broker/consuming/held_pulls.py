"""Held pulls: requests that found no message and wait for an arrival or their deadline.

RocketMQ scans waiting pulls every five seconds. Here holds end by timers, and an arrival that matches the hold's filter
wakes it immediately. A hold takes about 3 KB, so the number of holds per connection and in total and their duration are
limited; a pull beyond the limits gets a response at once, as without long polling. A client holds one pull for each of
its queues, for 15 to 30 s.

Waking an idle processor costs more than answering a pull, so holds of at least `LONG_HOLD_S` end together, on the next
multiple of `STEP_S`: up to that much later than asked, where RocketMQ is up to 5 s late. The clients pull again
together, and so share later deadlines too. A deadline takes `MOST_OF_DEADLINE` holds at most, so that the event loop is
not blocked; other holds have timers of their own, as shorter ones have, and end exactly.

Source: apache/rocketmq broker/.../longpolling/PullRequestHoldService.java.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.broker.counted_plugins import CountFailure, logged_listener
from gantrymq.errors import FilterFailed
from gantrymq.interfaces import ClientChannel, DispatchEntry, MessageFilter, MessageStore
from gantrymq.model.access import Principal
from gantrymq.model.light_queues import LIGHT_QUEUE_ID
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import INNER_BATCH
from gantrymq.world import Clock, Timer
from gantrymq.world.clock import TimeSlices

log = logging.getLogger(__name__)

MAX_HOLDS: Final = 100_000  # RocketMQ's default limit of held pops (maxPopPollingSize); it has none for pulls
MAX_HOLDS_OF_CONNECTION: Final = 10_000  # a Java consumer holds one pull per queue
RECHECKED_AT_ONCE: Final = 500
MAX_HOLD_S: Final = 600.0  # RocketMQ has no limit except for that of a 64-bit number of milliseconds
LONG_HOLD_S: Final = 5.0
STEP_S: Final = 1.0
MOST_OF_DEADLINE: Final = 64


class Hold:
    """One waiting pull."""

    __slots__ = ("connection", "deadline", "group", "lost", "match", "principal", "queue", "timer", "wake", "wanted")

    def __init__(
        self,
        queue: Queue,
        wanted: int,
        match: MessageFilter,
        connection: ClientChannel | None,
        wake: Callable[[], None],
        lost: Callable[[], object],
        group: str,
        principal: Principal | None,
    ) -> None:
        self.queue = queue
        self.wanted = wanted  # queue offset
        self.match = match
        self.connection = connection  # the hold ends when it closes
        self.wake = wake
        self.lost = lost
        self.group = group  # empty for a hold of a plugin
        self.principal = principal
        self.timer: Timer | None = None  # of its own
        self.deadline: _Deadline | None = None  # shared with others


class _Deadline:
    """Holds that end together."""

    __slots__ = ("holds", "step", "timer")

    def __init__(self, timer: Timer, step: int) -> None:
        self.timer, self.step = timer, step
        self.holds: dict[Hold, None] = {}


class HeldPulls:
    """Holds by topic and queue, so that arrivals and changes of other topics cost nothing."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        *,
        light: bool = False,
        failed: CountFailure = lambda kind, name: None,
        most: int | None = None,
        most_of_connection: int | None = None,
    ) -> None:
        """Create it without holds.

        Args:
            store: the messages.
            clock: for timeouts.
            light: whether messages may also arrive in light queues.
            failed: counts exceptions of plugins.
            most: maximum number of holds; `MAX_HOLDS` if None.
            most_of_connection: maximum number of holds of one connection; `MAX_HOLDS_OF_CONNECTION` if None.
        """
        self._most = MAX_HOLDS if most is None else most
        self._most_of_connection = MAX_HOLDS_OF_CONNECTION if most_of_connection is None else most_of_connection
        self._light = light
        self._failed = failed
        self._store = store
        self._clock = clock
        self._by_topic: dict[str, dict[int, dict[Hold, None]]] = {}  # topic to queue id to holds; no empty tables
        self._by_connection: dict[ClientChannel | None, set[Hold]] = {}
        self._deadlines: dict[int, _Deadline] = {}  # by monotonic time in steps; no empty ones
        self.count = 0
        self._closed = False

    def hold(
        self,
        queue: Queue,
        queue_offset: int,
        match: MessageFilter,
        timeout_s: float,
        connection: ClientChannel | None,
        wake: Callable[[], object],
    ) -> bool:
        """Call *wake* of a plugin when a message arrives, soon if one exists already, or at the timeout."""
        logged = logged_listener(wake, self._failed, f"messages of {queue}")

        def wake_up() -> None:
            if connection is None or not connection.closed:
                logged()

        if connection is not None and connection.closed:
            return False
        if self._store.bounds(queue).max_offset > queue_offset:
            asyncio.get_running_loop().call_soon(wake_up)
            return True
        return self.add(queue, queue_offset, match, timeout_s, connection, wake_up)

    def add(
        self,
        queue: Queue,
        wanted: int,
        match: MessageFilter,
        timeout_s: float,
        connection: ClientChannel | None,
        wake: Callable[[], None],
        lost: Callable[[], object] = lambda: None,
        group: str = "",
        principal: Principal | None = None,
    ) -> bool:
        """Call *wake* once: when a matching message with queue offset *wanted* or later arrives, or at the timeout.

        If the connection closes first, *lost* is called instead.

        Return False, and call neither, if the connection or the broker is at its limit of holds, the connection is
        closed, or the broker is stopping.
        """
        if self._closed or (connection is not None and connection.closed):
            return False
        if self.count >= self._most or len(self._by_connection.get(connection, ())) >= self._most_of_connection:
            return False
        hold = Hold(queue, wanted, match, connection, wake, lost, group, principal)
        self._by_topic.setdefault(queue.topic, {}).setdefault(queue.queue_id, {})[hold] = None
        if connection is not None:
            self._by_connection.setdefault(connection, set()).add(hold)
        self.count += 1
        self._limit(hold, min(timeout_s, MAX_HOLD_S))
        return True

    def of(self, group: str, queue: Queue) -> list[ClientChannel | None]:
        """Return the connections of the waiting pulls of *group* from a queue."""
        holds = self._by_topic.get(queue.topic, {}).get(queue.queue_id, ())
        return [hold.connection for hold in holds if hold.group == group]

    def arrived(self, entries: Sequence[DispatchEntry]) -> None:
        """Wake the holds that match *entries*."""
        if not self.count:
            return
        by_topic = self._by_topic
        for entry in entries:
            queues = by_topic.get(entry.topic)
            if queues and (holds := queues.get(entry.queue_id)):
                for hold in [hold for hold in holds if self._wanted(hold, entry)]:
                    self._release(hold)
            if self._light:
                self._arrived_in_light_queues(entry)

    def _arrived_in_light_queues(self, entry: DispatchEntry) -> None:
        for name, queue_offset in entry.light_queue_offsets:
            holds = self._by_topic.get(name, {}).get(LIGHT_QUEUE_ID)
            if holds:
                there = entry._replace(queue_offset=queue_offset)
                for hold in [hold for hold in holds if self._wanted(hold, there)]:
                    self._release(hold)

    def topic_changed(self, topic: str) -> None:
        """Wake all holds on *topic*, after it was deleted or its permissions changed."""
        for holds in list(self._by_topic.get(topic, {}).values()):
            for hold in list(holds):
                self._release(hold)

    async def recheck(self, allowed: Callable[[Principal | None, str, str], bool]) -> None:
        """Wake the pulls that are not *allowed* any more, by principal, group and topic; they get the refusal."""
        slices = TimeSlices(self._clock, RECHECKED_AT_ONCE)
        holds = [each for queues in self._by_topic.values() for holds in queues.values() for each in holds]
        for hold in holds:
            if hold.group and not allowed(hold.principal, hold.group, hold.queue.topic):
                self._release(hold)
            await slices.item_done()

    def connection_lost(self, connection: ClientChannel) -> None:
        """Remove the holds of a closed connection without a response."""
        for hold in self._by_connection.pop(connection, set()):
            if self._remove(hold):
                hold.lost()

    def close(self) -> None:
        """Wake all holds and refuse new ones, because the broker is stopping."""
        self._closed = True
        for topic in list(self._by_topic):
            self.topic_changed(topic)

    def _wanted(self, hold: Hold, entry: DispatchEntry) -> bool:
        if entry.queue_offset < hold.wanted:
            return False
        match = hold.match
        if match.accepts_all:
            return True
        try:
            unsure = entry.sys_flag & INNER_BATCH and not entry.tags_code  # messages of the batch may have tags
            if not unsure and not match.match_entry(entry.tags_code, None):
                return False
            if not match.needs_message:
                return True
            record = self._store.read(entry.log_offset)
            return record is None or match.match_message(record)
        except FilterFailed:
            return True  # the repeated pull gets the error and reports it

    def _limit(self, hold: Hold, timeout_s: float) -> None:
        """Release *hold* after *timeout_s*."""
        if timeout_s >= LONG_HOLD_S:
            now = self._clock.monotonic()
            step = math.ceil((now + timeout_s) / STEP_S)
            deadline = self._deadlines.get(step)
            if deadline is None:
                timer = self._clock.call_later(step * STEP_S - now, self._expire, step)
                deadline = self._deadlines[step] = _Deadline(timer, step)
            if len(deadline.holds) < MOST_OF_DEADLINE:
                deadline.holds[hold] = None
                hold.deadline = deadline
                return
        hold.timer = self._clock.call_later(timeout_s, self._release, hold)

    def _expire(self, step: int) -> None:
        """Release the holds of a deadline."""
        for hold in [*self._deadlines[step].holds]:
            try:
                self._release(hold)
            except Exception:
                log.exception("a pull of %s that waited failed", hold.queue)

    def _release(self, hold: Hold) -> None:
        if hold.connection is not None:
            own = self._by_connection.get(hold.connection)
            if own is not None:
                own.discard(hold)
                if not own:
                    del self._by_connection[hold.connection]
        if self._remove(hold):
            hold.wake()

    def _remove(self, hold: Hold) -> bool:
        queues = self._by_topic.get(hold.queue.topic, {})
        holds = queues.get(hold.queue.queue_id)
        if holds is None or hold not in holds:
            return False
        del holds[hold]
        if not holds:
            del queues[hold.queue.queue_id]
            if not queues:
                del self._by_topic[hold.queue.topic]
        self.count -= 1
        if hold.timer is not None:
            hold.timer.cancel()
        elif (deadline := hold.deadline) is not None:
            del deadline.holds[hold]
            if not deadline.holds:
                deadline.timer.cancel()
                del self._deadlines[deadline.step]
        return True
