"""Receipts of popped messages (receipt handles), which name a message in acknowledgements.

    startOffset popTime invisibleTime reviveQueueId kind brokerName queueId queueOffset [logOffset]

This text, separated by spaces, is the property POP_CK of a message, and field extraInfo of requests. *startOffset* is
the first offset of the pop, *queueOffset* that of the message. *kind* is 0 for the topic, 1 and 2 for the two names of
the group's retry topic. The handles of gRPC clients have the log offset too. Changing the invisible time creates a new
receipt, with the offset of the message as startOffset.

Source: apache/rocketmq remoting/.../protocol/header/ExtraInfoUtil.java, common/.../consumer/ReceiptHandle.java,
common/.../KeyBuilder.java.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from gantrymq.errors import ReceiptIllegal
from gantrymq.model.json_members import whole_number
from gantrymq.model.names import RETRY_PREFIX, pop_retry_topics

POP_ORDER_REVIVE_QUEUE: Final = 999  # reviveQueueId of an ordered pop, which writes no checkpoint
_NORMAL: Final = "0"  # kinds of topics
_RETRY_V1: Final = "1"
_RETRY_V2: Final = "2"
KINDS: Final = (_NORMAL, _RETRY_V1, _RETRY_V2)
_INT64_MAX: Final = 2**63 - 1
_MAX_CHARACTERS: Final = 1024
_CACHED: Final = 1024  # the receipt of a message is parsed several times


class Receipt(NamedTuple):
    """Receipt of one popped message."""

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    kind: str
    broker_name: str
    queue_id: int
    queue_offset: int
    log_offset: int | None = None  # of the record, if the text has it

    def __str__(self) -> str:
        """Return the text for brokers and clients."""
        return " ".join(map(str, self[:-1] if self.log_offset is None else self))

    @property
    def due_ms(self) -> int:
        """Time at which the message is delivered again."""
        return self.pop_ms + self.invisible_ms

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the message is delivered again, if it was not acknowledged."""
        return now_ms >= self.due_ms

    def changed(self, pop_ms: int, invisible_ms: int, revive_queue: int) -> Receipt:
        """Return the receipt after the invisible time was changed."""
        start = self.start_offset if self.revive_queue == POP_ORDER_REVIVE_QUEUE else self.queue_offset
        return self._replace(start_offset=start, pop_ms=pop_ms, invisible_ms=invisible_ms, revive_queue=revive_queue)

    def topic(self, topic: str, group: str) -> str:
        """Return the topic that stores the message: *topic*, or its retry topic for *group*."""
        return topic_of_kind(topic, group, self.kind)


def topic_of_kind(topic: str, group: str, kind: str) -> str:
    """Return the topic of *kind* for *topic*, see `Receipt.kind`."""
    return topic if kind == _NORMAL else pop_retry_topics(group, topic)[kind == _RETRY_V2]


def kind_of_topic(topic: str) -> str:
    """Return the kind of a topic that is popped."""
    if not topic.startswith(RETRY_PREFIX):
        return _NORMAL
    return _RETRY_V2 if "+" in topic else _RETRY_V1


def read_receipt(text: str, queue_offset: int | None = None) -> Receipt:
    """Parse a receipt.

    Args:
        text: parts after the log offset are ignored.
        queue_offset: default for a text that ends before it.

    Raises:
        ReceiptIllegal: a part is missing, not a number, or out of range.
    """
    if len(text) > _MAX_CHARACTERS:
        raise _unreadable(text, f"it has {len(text)} characters, at most {_MAX_CHARACTERS} are taken")
    return _read_receipt(text, queue_offset)


@lru_cache(_CACHED)
def _read_receipt(text: str, queue_offset: int | None) -> Receipt:
    parts = text.split(" ", 9)
    if len(parts) == 7 and queue_offset is not None:
        parts.append(str(queue_offset))
    numbers = [whole_number(each) for each in (*parts[:4], *parts[6:9])]
    if len(numbers) < 6 or None in numbers or parts[4] not in KINDS:
        raise _unreadable(text, "eight parts are expected, numbers but for the broker's name")
    start, pop_ms, invisible_ms, revive_queue, queue_id, offset, *log_offset = (number or 0 for number in numbers)
    if not all(0 <= each <= _INT64_MAX for each in (start, pop_ms, invisible_ms, pop_ms + invisible_ms)):
        raise _unreadable(text, "an offset or a time in it is out of range")
    return Receipt(start, pop_ms, invisible_ms, revive_queue, parts[4], parts[5], queue_id, offset, *log_offset)


def _unreadable(text: str, why: str) -> ReceiptIllegal:
    return ReceiptIllegal(
        f"the receipt handle {text[:80]!r} cannot be read: {why}; pass on POP_CK as the message had it"
    )
