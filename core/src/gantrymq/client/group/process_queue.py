"""Process queue (pulled messages of one assigned queue until they are finished) and consume statistics. No I/O.

    pulled -> waiting -> in flight -> finished
                 ^----- given back --'

The offset to commit is that of the first unfinished message, even if later messages are finished. Without unfinished
messages it is the offset of the next pull.

Source: apache/rocketmq client/.../impl/consumer/ProcessQueue.java, client/.../stat/ConsumerStatsManager.java
(consumeStatus).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from gantrymq.client.message import ReceivedMessage
from gantrymq.model.queue import MessageQueue

_MINUTE_S: Final = 60.0
_HOUR_MINUTES: Final = 60


@attrs.define
class StatsWindow:
    """Counters of one topic for one minute; `InFlight` adds to them until the window ends."""

    ends_s: float = 0.0
    done: int = 0
    failed: int = 0
    spent_s: float = 0.0  # processing time, summed over all messages


class ConsumeStats:
    """Windows of one minute for each topic; the last hour is kept."""

    def __init__(self) -> None:
        self._windows: dict[str, dict[int, StatsWindow]] = {}

    def window(self, topic: str, now_s: float) -> StatsWindow:
        """Return the window for messages of *topic* that finish at *now_s*."""
        number = int(now_s // _MINUTE_S)
        windows = self._windows.setdefault(topic, {})
        window = windows.get(number)
        if window is None:
            window = windows[number] = StatsWindow((number + 1) * _MINUTE_S)
            while len(windows) > _HOUR_MINUTES:
                del windows[next(iter(windows))]
        return window

    def topic_status(self, topic: str, now_s: float) -> dict[str, float]:
        """Return RocketMQ's consume status of *topic*.

        Rates per second and times in ms are those of the last full minute; failures are counted over one hour.
        """
        windows = self._windows.get(topic, {})
        last = windows.get(int(now_s // _MINUTE_S) - 1, StatsWindow())
        handled = last.done + last.failed
        since = int(now_s // _MINUTE_S) - _HOUR_MINUTES
        return {
            "consumeFailedMsgs": sum(window.failed for at, window in windows.items() if at > since),
            "consumeFailedTPS": last.failed / _MINUTE_S,
            "consumeOKTPS": last.done / _MINUTE_S,
            "consumeRT": last.spent_s * 1000 / handled if handled else 0.0,
            "pullRT": 0.0,
            "pullTPS": handled / _MINUTE_S,
        }


IDLE_S: Final = 120.0  # without a pull, after which a queue is taken again; RocketMQ: PULL_MAX_IDLE_TIME
LOCK_LIFETIME_S: Final = 30.0  # RocketMQ: REBALANCE_LOCK_MAX_LIVE_TIME; brokers keep a lock for 60 s


class ProcessQueue:
    """Created when a rebalance takes the queue, dropped when the queue is given up.

    Attributes:
        queue: the message queue.
        next_offset: offset of the next pull.
        dropped: the queue was given up; messages that finish later are ignored.
        unconfirmed: the connection to the broker was lost since the queue was last confirmed as ours. Until it is
            confirmed again, the queue is not pulled and its offset is not stored, as another member may have it.
        delivery_paused: in addition, no messages are delivered, because the broker is back.
        waiting: messages pulled and not delivered, by offset.
        in_flight_since: offsets of delivered messages, with the time of delivery (seconds of the clock).
        locked_s: when the broker granted the lock (orderly); None without a lock.
        last_pull_s: time of the last pull.
        last_consumed_s: when a message was last finished; 0 before the first.
    """

    def __init__(self, queue: MessageQueue, next_offset: int, now_s: float) -> None:
        """Create the process queue of *queue*, taken at *now_s*."""
        self.queue = queue
        self.next_offset = next_offset
        self.dropped = False
        self.unconfirmed = self.delivery_paused = False
        self.waiting: deque[ReceivedMessage] = deque()
        self.in_flight_since: dict[int, float] = {}
        self.locked_s: float | None = None
        self.last_pull_s = now_s
        self.last_consumed_s = 0.0
        self.stats_window = StatsWindow()  # current consume statistics of the topic
        self.pull_blocked = False  # pulls wait for free capacity, or for the broker
        self.queued = False  # in the line of the delivery queue
        self.suspended = False  # waiting after a failed message (orderly)
        self.unlock_tries = 0
        self.changed = asyncio.Event()  # set when a message is finished or the queue is confirmed or dropped
        self._order: deque[int] = deque()  # offsets pulled; the first one is unfinished
        self._sizes: dict[int, int] = {}  # record sizes of unfinished messages, in bytes
        self.bytes = 0

    @property
    def count(self) -> int:
        """Number of unfinished messages."""
        return len(self._sizes)

    @property
    def span(self) -> int:
        """Difference between the last and the first unfinished offset."""
        return self._order[-1] - self._order[0] if self._order else 0

    @property
    def commit_offset(self) -> int:
        """The offset to commit."""
        return self._order[0] if self._order else self.next_offset

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last unfinished offset; zeros if there is none."""
        return (self._order[0], self._order[-1]) if self._order else (0, 0)

    def put(self, messages: Iterable[ReceivedMessage], next_offset: int) -> None:
        """Add pulled messages and set the offset of the next pull; messages that are here already are skipped."""
        last = self._order[-1] if self._order else -1
        sizes, order, waiting = self._sizes, self._order, self.waiting
        for message in messages:
            offset = message.queue_offset
            if offset <= last:
                continue
            size = sizes[offset] = message.store_size
            self.bytes += size
            order.append(offset)
            waiting.append(message)
        self.next_offset = next_offset

    def hand_out(self, max_count: int, now_s: float) -> list[ReceivedMessage]:
        """Take up to *max_count* waiting messages and mark them in flight. At least one message must be waiting."""
        waiting, in_flight_since = self.waiting, self.in_flight_since
        if max_count == 1:
            message = waiting.popleft()
            in_flight_since[message.queue_offset] = now_s
            return [message]
        taken = [waiting.popleft() for _ in range(min(max_count, len(waiting)))]
        for message in taken:
            in_flight_since[message.queue_offset] = now_s
        return taken

    def give_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Put in-flight messages back in front of the waiting ones."""
        for message in sorted(messages, key=_offset, reverse=True):
            if self.in_flight_since.pop(message.queue_offset, None) is not None:
                self.waiting.appendleft(message)

    def finish(self, messages: Sequence[ReceivedMessage]) -> int:
        """Mark messages as finished. Return how many of them were unfinished before."""
        sizes, in_flight_since, order, count = self._sizes, self.in_flight_since, self._order, 0
        for message in messages:
            offset = message.queue_offset
            size = sizes.pop(offset, None)
            if size is not None:
                count += 1
                in_flight_since.pop(offset, None)
                self.bytes -= size
                if order[0] == offset:  # the usual case
                    order.popleft()
        while order and order[0] not in sizes:
            order.popleft()
        self.changed.set()
        return count

    def holds(self, message: ReceivedMessage) -> bool:
        """Return True if *message* is unfinished."""
        return message.queue_offset in self._sizes

    def confirm(self, now_s: float) -> None:
        """Resume after a disconnection: the queue is still ours."""
        self.unconfirmed = self.delivery_paused = False
        self.last_pull_s = now_s
        self.changed.set()

    def drop(self) -> None:
        """Mark the queue as given up and discard the waiting messages."""
        self.dropped = True
        self.waiting.clear()
        self.changed.set()

    def lock_expired(self, now_s: float) -> bool:
        """Return True if the broker may have granted the lock to another member."""
        return self.locked_s is None or now_s - self.locked_s > LOCK_LIFETIME_S


def _offset(message: ReceivedMessage) -> int:
    return message.queue_offset
