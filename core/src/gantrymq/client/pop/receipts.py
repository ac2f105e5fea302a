"""Receipts of popped messages, required to acknowledge them. No I/O.

    startOffset popTime invisibleTime reviveQueueId kind brokerName queueId queueOffset     separated by spaces

This text is the property POP_CK of a message. The broker sets it on redelivered messages; otherwise it is built here
from the response:

    startOffsetInfo   kind queueId startOffset;...
    msgOffsetInfo     kind queueId offset,offset,...;...
    orderCountInfo    kind queueId times;...   or   kind qo<queueId>%<offset> times;...

*kind* is 0 for the topic, 1 and 2 for the two names of the group's retry topic. Changing the invisible time creates a
new receipt, with the offset of the message as startOffset.

Sources: apache/rocketmq remoting/.../protocol/header/ExtraInfoUtil.java, client/.../impl/MQClientAPIImpl.java
(processPopResponse, changeInvisibleTimeAsync), common/.../KeyBuilder.java.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from gantrymq.client.argument_types import check_kind
from gantrymq.client.errors import AnswerUnreadable
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.model.properties import POP_CK

_CACHED_RECEIPTS: Final = 1024  # the receipt of a message is parsed several times
_MARKS: Final = {"0": None, "1": "_", "2": "+"}  # separators in names of retry topics, by kind


class Receipt(NamedTuple):
    """Receipt of one popped message."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    kind: str
    broker_name: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        """Return the text for brokers."""
        return " ".join(map(str, tuple(self)))

    def topic(self, topic: str, group: str) -> str:
        """Return the topic that stores the message: *topic*, or its retry topic."""
        mark = _MARKS[self.kind]
        return topic if mark is None else f"{RETRY_PREFIX}{group}{mark}{topic}"


@lru_cache(_CACHED_RECEIPTS)
def read_receipt(text: str) -> Receipt:
    """Parse a receipt. Raises ClientError: the text is not a receipt."""
    try:
        start, pop_time, invisible, revive, kind, broker_name, queue_id, offset = text.split(" ")
        if kind in _MARKS:
            places = int(start), int(pop_time), int(invisible), int(revive)
            return Receipt(*places, kind, broker_name, int(queue_id), int(offset))
    except ValueError:
        pass
    raise ClientError(f"{text[:80]!r} is not a receipt of a popped message (POP_CK); pass it unchanged")


def receipt_of(message: ReceivedMessage) -> Receipt:
    """Return the receipt of a popped message. Raises ClientError: the message was not popped."""
    check_kind("message", message, ReceivedMessage)
    text = message.properties.get(POP_CK)
    if text is None:
        raise ClientError(f"message {message.message_id} was not popped: it has no receipt (POP_CK)")
    return read_receipt(text)


class ReceiptHandles:
    """Parsed fields of one pop response, from which receipts are built."""

    def __init__(
        self,
        starts: str | None,
        offsets: str | None,
        counts: str | None,
        address: str,
        messages: Iterable[ReceivedMessage],
    ) -> None:
        """Parse the fields for those *messages* of the response that have no receipt yet.

        Messages with a receipt are stored in a retry topic, whatever their topic field says, and must not be counted
        here.

        Raises:
            AnswerUnreadable: a field cannot be parsed.
        """
        self._address = address
        self._found: dict[tuple[str, int], list[int]] = {}
        for message in messages:
            self._found.setdefault((_kind(message.topic), message.queue_id), []).append(message.queue_offset)
        for found in self._found.values():
            found.sort()
        try:
            self._starts = {(k, int(q)): int(start) for k, q, start in _split(starts)}
            self._offsets = {(k, int(q)): [int(at) for at in all_.split(",")] for k, q, all_ in _split(offsets)}
            self._counts = {(kind, place): int(delivery_count) for kind, place, delivery_count in _split(counts)}
        except ValueError:
            raise self._unreadable(f"{starts!r}, {offsets!r}, {counts!r}") from None

    def receipt(
        self, message: ReceivedMessage, broker_name: str, pop_time_ms: int, invisible_ms: int, revive_queue: int
    ) -> Receipt:
        """Build the receipt of *message*. Raises AnswerUnreadable: the fields do not contain it."""
        kind = _kind(message.topic)
        key = (kind, message.queue_id)
        found = self._found[key]
        if not self._starts:  # brokers before 5.0: the pop started at the first message
            start, offset = found[0], message.queue_offset
        else:
            try:
                start = self._starts[key]
                offset = self._offsets[key][found.index(message.queue_offset)]
            except (KeyError, IndexError):
                raise self._unreadable(f"queue {message.queue_id} of {message.topic} is not in it") from None
        return Receipt(start, pop_time_ms, invisible_ms, revive_queue, kind, broker_name, message.queue_id, offset)

    def delivery_count(self, message: ReceivedMessage) -> int:
        """Return how often an ordered pop has delivered *message* before; 0 if not reported."""
        kind = _kind(message.topic)
        of_offset = self._counts.get((kind, f"qo{message.queue_id}%{message.queue_offset}"))
        return self._counts.get((kind, str(message.queue_id)), 0) if of_offset is None else of_offset

    def _unreadable(self, what: str) -> AnswerUnreadable:
        return AnswerUnreadable(f"the answer of {self._address} to a pop lacks the offsets of its messages: {what}")


def _kind(topic: str) -> str:
    if not topic.startswith(RETRY_PREFIX):
        return "0"
    return "2" if "+" in topic else "1"


def _split(text: str | None) -> Iterable[list[str]]:
    return [piece.split(" ") for piece in text.split(";")] if text else []
