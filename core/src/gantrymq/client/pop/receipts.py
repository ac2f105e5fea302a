"""Receipts (`gantrymq.model.receipt`) of the messages in the response of a pop. No I/O.

The broker sets the receipt of a redelivered message, property POP_CK; otherwise it is built here from the response:

    startOffsetInfo   kind queueId startOffset;...
    msgOffsetInfo     kind queueId offset,offset,...;...
    orderCountInfo    kind queueId times;...   or   kind qo<queueId>%<offset> times;...

Sources: apache/rocketmq remoting/.../protocol/header/ExtraInfoUtil.java, client/.../impl/MQClientAPIImpl.java
(processPopResponse, changeInvisibleTimeAsync).
"""

from __future__ import annotations

from collections.abc import Iterable

from gantrymq.client.argument_types import check_kind
from gantrymq.client.errors import AnswerUnreadable
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.model.properties import POP_CK
from gantrymq.model.receipt import Receipt, kind_of_topic, read_receipt


def receipt_of(message: ReceivedMessage) -> Receipt:
    """Return the receipt of a popped message. Raises ClientError: it has none, or one that cannot be read."""
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
            self._found.setdefault((kind_of_topic(message.topic), message.queue_id), []).append(message.queue_offset)
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
        kind = kind_of_topic(message.topic)
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
        kind = kind_of_topic(message.topic)
        of_offset = self._counts.get((kind, f"qo{message.queue_id}%{message.queue_offset}"))
        return self._counts.get((kind, str(message.queue_id)), 0) if of_offset is None else of_offset

    def _unreadable(self, what: str) -> AnswerUnreadable:
        return AnswerUnreadable(f"the answer of {self._address} to a pop lacks the offsets of its messages: {what}")


def _split(text: str | None) -> Iterable[list[str]]:
    return [piece.split(" ") for piece in text.split(";")] if text else []
