"""State of ordered pops: the messages of the last pop of each queue, their acknowledgements and delivery counts.

A queue with messages in flight is blocked until all of them are acknowledged or their invisible time is over;
unacknowledged messages are then read again, from the committed offset. The table is saved as consumerOrderInfo.json,
every five seconds, as in RocketMQ, and at stop:

    {"table":{"TOPIC@GROUP":{QUEUE:{"a":ATTEMPT,"cm":BITS,"i":INVISIBLE,"l":POPPED_AT,"o":[FIRST,DIFFERENCES..],
                                    "oc":{OFFSET:TIMES},"ot":{OFFSET:VISIBLE_AT},"popTime":..}}}}

`OrderTable` is pure: time is an argument. `OrderFile` reads and writes the file.

Source: apache/rocketmq broker/.../offset/ConsumerOrderInfoManager.java, BrokerController.java
(initializeBrokerScheduledTasks).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.config_files import load, pretty, save
from gantrymq.plugin.interfaces import BrokerConsumers

CLEAN_AFTER_MS: Final = 24 * 3600 * 1000
QueueKey = tuple[str, str, int]  # topic, group, queue id
log = logging.getLogger(__name__)
ORDER_FILE: Final = "consumerOrderInfo.json"


@attrs.define
class OrderInfo:
    """The last pop of one queue."""

    pop_time: int  # ms
    invisible_ms: int
    offsets: list[int]  # ascending
    last_consumed_ms: int
    bits: int = 0  # acknowledged messages, by index in *offsets*
    visible_at: dict[int, int] = attrs.field(factory=dict)  # by offset, if the invisible time was changed
    consumed: dict[int, int] = attrs.field(factory=dict)  # by offset, how often it was delivered before
    attempt_id: str | None = None

    def open(self) -> list[int]:
        """Return the offsets that are not acknowledged."""
        return [offset for place, offset in enumerate(self.offsets) if not self.bits >> place & 1]

    def free_at_ms(self, now_ms: int) -> int | None:
        """Return when the first unacknowledged invisible message becomes visible; None if no message is invisible.

        If the clock was set back since the pop, the invisible time counts from the first call after that.
        """
        due_ms = self.pop_time + self.invisible_ms
        if now_ms < self.pop_time:
            latest_ms = now_ms + self.invisible_ms
            self.visible_at |= {each: min(self.visible_at.get(each, due_ms), latest_ms) for each in self.open()}
        for offset in self.open():
            at = self.visible_at.get(offset, due_ms)
            if now_ms < at:
                return at
        return None

    def next_offset(self) -> int:
        """Return the offset that may be committed: the first one that is not acknowledged."""
        left = self.open()
        return left[0] if left else self.offsets[-1] + 1

    def to_json(self) -> dict[str, Any]:
        """Return the members in RocketMQ's order."""
        first = self.offsets[0] if self.offsets else 0
        return {
            "a": self.attempt_id,
            "cm": self.bits,
            "i": self.invisible_ms,
            "l": self.last_consumed_ms,
            "o": [first, *(offset - first for offset in self.offsets[1:])],
            "oc": self.consumed or None,
            "ot": self.visible_at or None,
            "popTime": self.pop_time,
        }

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> OrderInfo | None:
        """Parse the members; None if no message is listed.

        Raises:
            ValueError, TypeError, AttributeError: a member has the wrong type.
        """
        listed = [int(each) for each in members.get("o") or ()]
        if not listed:
            return None
        return cls(
            int(members.get("popTime") or 0),
            int(members.get("i") or 0),
            [listed[0], *(listed[0] + each for each in listed[1:])],
            int(members.get("l") or 0),
            int(members.get("cm") or 0),
            {int(offset): int(at) for offset, at in (members.get("ot") or {}).items()},
            {int(offset): int(times) for offset, times in (members.get("oc") or {}).items()},
            members.get("a"),
        )


class OrderTable:
    """The last ordered pop of every queue."""

    def __init__(self) -> None:
        self._infos: dict[QueueKey, OrderInfo] = {}
        self.dirty = False  # whether the table differs from the file

    def blocked_until_ms(self, key: QueueKey, attempt_id: str | None, now_ms: int) -> int | None:
        """Return when a pop may read the queue; None: now. A retry with the same attempt id is not blocked."""
        info = self._infos.get(key)
        if info is None or (info.attempt_id is not None and info.attempt_id == attempt_id):
            return None
        return info.free_at_ms(now_ms)

    def popped(
        self,
        key: QueueKey,
        attempt_id: str | None,
        pop_time: int,
        invisible_ms: int,
        offsets: Sequence[int],
    ) -> Mapping[int, int]:
        """Record that messages were delivered. Return how often each was delivered before, by offset, without zeros."""
        info = OrderInfo(pop_time, invisible_ms, list(offsets), pop_time, attempt_id=attempt_id)
        before = self._infos.get(key)
        if before is not None:
            if before.attempt_id is not None and before.attempt_id == attempt_id:
                info.consumed = before.consumed
            else:
                again = set(before.offsets)
                info.consumed = {each: before.consumed.get(each, 0) + 1 for each in offsets if each in again}
        self._infos[key] = info
        self.dirty = True
        return info.consumed

    def acknowledged(self, key: QueueKey, offset: int, pop_time: int) -> int | None:
        """Acknowledge a message. Return the offset to commit; None if *pop_time* is not that of the last pop.

        Raises:
            KeyError: the last pop did not deliver the message.
        """
        info = self._infos.get(key)
        if info is None:
            return offset + 1
        if pop_time != info.pop_time:
            return None
        try:
            place = info.offsets.index(offset)
        except ValueError:
            raise KeyError(offset) from None
        info.bits |= 1 << place
        self.dirty = True
        return info.next_offset()

    def visible_later(self, key: QueueKey, offset: int, pop_time: int, at_ms: int) -> None:
        """Change the time at which a message of the last pop becomes visible."""
        info = self._infos.get(key)
        if info is not None and pop_time == info.pop_time and offset in info.offsets:
            info.visible_at[offset] = at_ms
            self.dirty = True

    def is_open(self, key: QueueKey, offset: int, pop_time: int) -> bool:
        """Return whether a message was delivered by the last pop and is not acknowledged."""
        info = self._infos.get(key)
        return info is not None and info.pop_time == pop_time and offset in info.open()

    def renew(self, key: QueueKey, pop_time: int, at_ms: int) -> list[int]:
        """Make the unacknowledged messages of the last pop visible at *at_ms*.

        Return their offsets; none if there is no message, or the queue was popped again. A message whose invisible time
        was changed by the consumer keeps that.
        """
        info = self._infos.get(key)
        if info is None or info.pop_time != pop_time:
            return []
        own = [offset for offset in info.open() if offset not in info.visible_at]
        if own:
            info.invisible_ms = at_ms - pop_time
            self.dirty = True
        return own

    def clear(self, key: QueueKey) -> None:
        """Remove the state of a queue: its offset was reset."""
        if self._infos.pop(key, None) is not None:
            self.dirty = True

    def clean(self, keep: Callable[[QueueKey], bool], now_ms: int) -> None:
        """Remove deleted queues, and queues that were not popped for a day."""
        for key, info in list(self._infos.items()):
            if not keep(key) or now_ms - info.last_consumed_ms > CLEAN_AFTER_MS:
                self.clear(key)

    def to_json(self) -> dict[str, Any]:
        """Return the contents of consumerOrderInfo.json."""
        table: dict[str, dict[int, Any]] = {}
        for (topic, group, queue_id), info in self._infos.items():
            table.setdefault(f"{topic}@{group}", {})[queue_id] = info.to_json()
        return {"table": table}

    def load(self, members: Mapping[Any, Any]) -> None:
        """Load the contents of consumerOrderInfo.json.

        Raises:
            ValueError, TypeError, AttributeError: a member has the wrong type.
        """
        for name, queues in (members.get("table") or {}).items():
            topic, _, group = str(name).partition("@")
            for queue_id, each in queues.items():
                info = OrderInfo.from_json(each)
                if info is not None and group:
                    self._infos[topic, group, int(queue_id)] = info


class OrderFile:
    """The file of the table of ordered pops."""

    def __init__(self, broker: BrokerConsumers, folder: Path, table: OrderTable) -> None:
        """*folder*: ``config`` of the store."""
        self._broker = broker
        self._path = folder / ORDER_FILE
        self._table = table

    def load(self) -> None:
        """Load the table. Raises FormatError if file and backup cannot be read."""
        try:
            self._table.load(load(self._broker.world.files, self._path, log.warning) or {})
        except (ValueError, TypeError, AttributeError) as error:
            raise FormatError(f"{self._path}: {error!r}; repair the file, or move it away") from error

    def text(self) -> str:
        """Return the text of the file as it would be saved now."""
        return pretty(self._table.to_json())

    async def save(self) -> None:
        """Save the table if it changed; a failed save is retried the next time."""
        broker, table = self._broker, self._table
        topics = broker.topics.view

        def there(key: tuple[str, str, int]) -> bool:
            topic = topics.get(key[0])
            return topic is not None and key[2] < topic.read_queues and broker.groups.get(key[1]) is not None

        table.clean(there, broker.world.clock.now_ms())
        if not table.dirty:
            return
        table.dirty = False
        text = self.text()
        try:
            await broker.world.workers.run(save, broker.world.files, self._path, text)
        except OSError as error:
            table.dirty = True
            log.warning("%s cannot be written: %s; it is tried again", self._path, error.strerror or error)
