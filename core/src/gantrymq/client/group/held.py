"""A queue that this consumer holds, with what was pulled and is not finished. No I/O.

    pulled -> waiting -> in hand -> finished
                 ^---- given back --'

The group's progress in the queue is the offset of the first message that is not finished, however many behind it are;
with nothing left it is where the next pull begins.

Source: apache/rocketmq client/.../impl/consumer/ProcessQueue.java.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from gantrymq.client.group.figures import Minute
from gantrymq.client.message import ReceivedMessage
from gantrymq.model.queue import MessageQueue

__all__ = ["IDLE_S", "LOCK_LIVES_S", "HeldQueue"]

IDLE_S: Final = 120.0  # without a pull, after which a queue is taken anew
LOCK_LIVES_S: Final = 30.0


class HeldQueue:
    """Made when a rebalance takes the queue, dropped when it gives it up.

    Attributes:
        queue: which.
        next_offset: of the next pull.
        dropped: whether it was given up; what is finished then counts no more.
        cut_off: whether the connection to its broker was lost since the queue was confirmed as ours. It is not pulled
            and its progress not stored until then, as another member may have it.
        halted: whether, besides, nothing of it is handed out, because its broker is back.
        waiting: pulled and not handed out, by offset.
        in_hand: handed out, by offset, with when (seconds of the clock).
        locked_s: when its broker granted the lock (orderly); None without one.
        pulled_s: when it was pulled last.
        consumed_s: when a message of it was finished last; 0 before.
    """

    def __init__(self, queue: MessageQueue, next_offset: int, now_s: float) -> None:
        """Held since *now_s*."""
        self.queue = queue
        self.next_offset = next_offset
        self.dropped = False
        self.cut_off = self.halted = False
        self.waiting: deque[ReceivedMessage] = deque()
        self.in_hand: dict[int, float] = {}
        self.locked_s: float | None = None
        self.pulled_s = now_s
        self.consumed_s = 0.0
        self.minute = Minute()  # of the figures of its topic
        self.full = False  # whether its pulls wait for room, or for its broker
        self.ready = False  # whether it stands in the line of those that have messages
        self.resting = False  # whether a failed message makes it wait (orderly)
        self.unlock_tries = 0
        self.room = asyncio.Event()  # set whenever something is finished, and when the queue is confirmed
        self._order: deque[int] = deque()  # offsets pulled; the first one is not finished
        self._sizes: dict[int, int] = {}  # bytes of the records of those not finished
        self.bytes = 0

    @property
    def count(self) -> int:
        """Messages that are not finished."""
        return len(self._sizes)

    @property
    def span(self) -> int:
        """Offsets from the first to the last that is not finished."""
        return self._order[-1] - self._order[0] if self._order else 0

    @property
    def progress(self) -> int:
        """The offset to commit."""
        return self._order[0] if self._order else self.next_offset

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last offset that is not finished; zeros for none."""
        return (self._order[0], self._order[-1]) if self._order else (0, 0)

    def put(self, messages: Iterable[ReceivedMessage], next_offset: int) -> None:
        """Take what a pull found, and where the next one begins; what is held already is left out."""
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

    def hand_out(self, most: int, now_s: float) -> list[ReceivedMessage]:
        """Up to *most* of those that wait, at least one of which there is; they are in hand from now on."""
        waiting, in_hand = self.waiting, self.in_hand
        if most == 1:
            message = waiting.popleft()
            in_hand[message.queue_offset] = now_s
            return [message]
        taken = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        for message in taken:
            in_hand[message.queue_offset] = now_s
        return taken

    def give_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Those in hand wait again, before all others."""
        for message in sorted(messages, key=_offset, reverse=True):
            if self.in_hand.pop(message.queue_offset, None) is not None:
                self.waiting.appendleft(message)

    def finish(self, messages: Sequence[ReceivedMessage]) -> int:
        """Messages need no more work. Returns how many were not finished, or taken away, before."""
        sizes, in_hand, order, count = self._sizes, self.in_hand, self._order, 0
        for message in messages:
            offset = message.queue_offset
            size = sizes.pop(offset, None)
            if size is not None:
                count += 1
                in_hand.pop(offset, None)
                self.bytes -= size
                if order[0] == offset:  # as most are
                    order.popleft()
        while order and order[0] not in sizes:
            order.popleft()
        self.room.set()
        return count

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether *message* is not finished."""
        return message.queue_offset in self._sizes

    def confirm(self, now_s: float) -> None:
        """Go on after the queue was cut off: it is still ours."""
        self.cut_off = self.halted = False
        self.pulled_s = now_s
        self.room.set()

    def drop(self) -> None:
        """The queue is given up: what waits is forgotten."""
        self.dropped = True
        self.waiting.clear()
        self.room.set()

    def lock_expired(self, now_s: float) -> bool:
        """Whether its broker may have given the lock to another one."""
        return self.locked_s is None or now_s - self.locked_s > LOCK_LIVES_S


def _offset(message: ReceivedMessage) -> int:
    return message.queue_offset
