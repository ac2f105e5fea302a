"""Messages of light queues that are delivered and not acknowledged, by light queue and group.

A queue with such messages is blocked until all of them are acknowledged or their invisible time is over;
unacknowledged messages are then read again, from the committed offset. Like RocketMQ's, the table is in memory only:
after a restart unacknowledged messages are delivered again at once, and their count begins again.

`InFlight` is pure: time is an argument.

Source: apache/rocketmq broker/.../offset/MemoryConsumerOrderInfoManager.java, ConsumerOrderInfoManager.java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

Key = tuple[str, str]  # light queue, group


@attrs.define
class Delivery:
    """The last delivery from one queue."""

    pop_ms: int
    invisible_ms: int
    offsets: Sequence[int]  # ascending
    attempt_id: str | None
    earlier: Mapping[int, int]  # deliveries before this one, by offset, without zeros
    acknowledged: set[int] = attrs.field(factory=set)
    visible_at: dict[int, int] = attrs.field(factory=dict)  # ms by offset, if the invisible time was changed

    def open(self) -> list[int]:
        """Return the offsets that are not acknowledged."""
        return [each for each in self.offsets if each not in self.acknowledged]

    def free_at_ms(self, now_ms: int) -> int | None:
        """Return when the first unacknowledged message becomes visible; None if no message is invisible.

        If the clock was set back since the delivery, the invisible time counts from now on.
        """
        if now_ms < self.pop_ms:
            latest_ms = now_ms + self.invisible_ms
            self.visible_at |= {each: min(self._at(each), latest_ms) for each in self.open()}
        later = (at for each in self.open() if (at := self._at(each)) > now_ms)
        return next(later, None)

    def _at(self, offset: int) -> int:
        return self.visible_at.get(offset, self.pop_ms + self.invisible_ms)


class InFlight:
    """The last delivery from every queue that has unacknowledged messages."""

    def __init__(self) -> None:
        self._deliveries: dict[str, dict[str, Delivery]] = {}  # by light queue and group; no table is empty

    def __len__(self) -> int:
        return sum(map(len, self._deliveries.values()))

    def _last(self, key: Key) -> Delivery | None:
        return self._deliveries.get(key[0], {}).get(key[1])

    def blocked_until_ms(self, key: Key, attempt_id: str | None, now_ms: int) -> int | None:
        """Return when the queue may be read; None: now. A request that repeats the last attempt is not blocked."""
        last = self._last(key)
        if last is None or (attempt_id is not None and attempt_id == last.attempt_id):
            return None
        return last.free_at_ms(now_ms)

    def delivered(
        self, key: Key, attempt_id: str | None, pop_ms: int, invisible_ms: int, offsets: Sequence[int]
    ) -> Mapping[int, int]:
        """Record a delivery. Return how often each message was delivered before, by offset, without zeros."""
        last = self._last(key)
        if last is None:
            earlier: Mapping[int, int] = {}
        elif attempt_id is not None and attempt_id == last.attempt_id:
            earlier = last.earlier
        else:
            again = set(last.offsets).intersection(offsets)
            earlier = {each: last.earlier.get(each, 0) + 1 for each in again}
        light_queue, group = key
        delivery = Delivery(pop_ms, invisible_ms, offsets, attempt_id, earlier)
        self._deliveries.setdefault(light_queue, {})[group] = delivery
        return earlier

    def acknowledged(self, key: Key, offset: int, pop_ms: int, committed: int) -> int | None:
        """Acknowledge a message. Return the offset to commit; None if the acknowledgement has no effect.

        That is so if the message was redelivered since *pop_ms*. After a restart, only the next message to commit is
        taken: earlier ones may be unacknowledged.
        """
        last = self._last(key)
        if last is None:
            return offset + 1 if offset == committed else None
        if last.pop_ms != pop_ms or offset not in last.offsets:
            return None
        last.acknowledged.add(offset)
        left = last.open()
        if left:
            return left[0]
        self.clear(key)
        return last.offsets[-1] + 1

    def visible_later(self, key: Key, offset: int, pop_ms: int, at_ms: int) -> bool:
        """Change when a message becomes visible. Return whether it is one of the last delivery, and unacknowledged."""
        last = self._last(key)
        if last is None or not self.is_open(key, offset, pop_ms):
            return False
        last.visible_at[offset] = at_ms
        return True

    def is_open(self, key: Key, offset: int, pop_ms: int) -> bool:
        """Return whether a message was delivered last at *pop_ms* and is not acknowledged."""
        last = self._last(key)
        return last is not None and last.pop_ms == pop_ms and offset in last.open()

    def renew(self, key: Key, pop_ms: int, at_ms: int) -> list[int]:
        """Make the unacknowledged messages of the delivery at *pop_ms* visible at *at_ms*, and return their offsets.

        A message whose invisible time was changed by the consumer keeps that.
        """
        last = self._last(key)
        if last is None or last.pop_ms != pop_ms:
            return []
        own = [each for each in last.open() if each not in last.visible_at]
        if own:
            last.invisible_ms = at_ms - pop_ms
        return own

    def clear(self, key: Key) -> None:
        """Forget the delivery from a queue to a group: all is acknowledged, or its offset was reset."""
        light_queue, group = key
        of_queue = self._deliveries.get(light_queue, {})
        if of_queue.pop(group, None) is not None and not of_queue:
            del self._deliveries[light_queue]

    def clear_queue(self, light_queue: str) -> None:
        """Forget the deliveries from a removed queue."""
        self._deliveries.pop(light_queue, None)

    def clear_group(self, group: str) -> None:
        """Forget the deliveries to a deleted group."""
        for light_queue in list(self._deliveries):
            self.clear((light_queue, group))
