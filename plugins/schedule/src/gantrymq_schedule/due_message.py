"""Delivery of a due message, as far as both kinds of delay share it: copy, check of the topic, lateness.

A delayed message is dropped if its topic was deleted after the message was stored and does not exist when it is due.
RocketMQ stores such messages into queues of a topic that cannot be read. A topic that is unknown for another reason,
such as a lost topics.json, still gets its messages. The store remembers deletions across restarts.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from typing import Final

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView, tags_code
from gantrymq.plugin.interfaces import BrokerStorage, StoreMessage

log = logging.getLogger(__name__)
_MOST_NAMED: Final = 3  # in one line of the log
_LOG_AFTER_S: Final = 10.0  # from the first dropped message to the log line that counts them
_PART_S: Final = 10.0
_PARTS: Final = 6


def copy_to_queue(record: RecordView, topic: str, queue_id: int, properties: bytes) -> StoreMessage:
    """Copy *record* to another queue with the encoded *properties*; the copy shares the record's memory.

    Body, tag, flags, timestamps, hosts and reconsume times are kept. The copy does not wait for the store's gates.
    """
    return StoreMessage(
        topic,
        queue_id,
        record.body,
        properties,
        tags_code(record.properties.get(props.TAGS)),
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.store_host,
        record.reconsume_times,
        wait_stored=False,
    )


class DeletedTopics:
    """Detects deleted topics, and logs how many messages were dropped because of them."""

    def __init__(self, broker: BrokerStorage) -> None:
        self._broker = broker
        self._dropped: Counter[str] = Counter()  # by topic, not logged yet

    def has(self, topic: str, log_offset: int) -> bool:
        """Return whether to drop the message for *topic* stored at *log_offset*, and count it if so."""
        if self._broker.topics.get(topic) is not None:
            return False
        if log_offset >= self._broker.store_capabilities.dropped_at(topic):
            return False
        if not self._dropped:
            self._broker.world.clock.call_later(_LOG_AFTER_S, self._log_dropped)
        self._dropped[topic] += 1
        return True

    def _log_dropped(self) -> None:
        count, topics = self._dropped.total(), sorted(self._dropped)
        self._dropped.clear()
        more = f" and {len(topics) - _MOST_NAMED} others" if len(topics) > _MOST_NAMED else ""
        log.warning(
            "%d delayed messages are not delivered, as their topics were deleted: %s%s",
            *(count, ", ".join(topics[:_MOST_NAMED]), more),
        )


class Lateness:
    """Lateness statistics of one kind of delay."""

    def __init__(self) -> None:
        """Create empty statistics."""
        self.messages = 0
        self.late_ms = 0  # all messages together
        self.worst_ms = 0  # since the start
        self._parts: deque[list[float]] = deque(maxlen=_PARTS + 1)  # start and maximum of each 10 s

    def delivered(self, messages: int, late_ms: int, worst_ms: int, monotonic_s: float) -> None:
        """Record *messages* deliveries with a total lateness of *late_ms* and a maximum of *worst_ms*."""
        self.messages += messages
        self.late_ms += late_ms
        self.worst_ms = max(self.worst_ms, worst_ms)
        if not self._parts or monotonic_s - self._parts[-1][0] >= _PART_S:
            self._parts.append([monotonic_s, 0])
        self._parts[-1][1] = max(self._parts[-1][1], worst_ms)

    def worst_lately_ms(self, monotonic_s: float) -> int:
        """Return the maximum lateness of the last 60 to 70 seconds."""
        recent = [worst for began, worst in self._parts if monotonic_s - began < _PART_S * (_PARTS + 1)]
        return int(max(recent, default=0))
