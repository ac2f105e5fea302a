"""Receipt handles: a consumer passes one to acknowledge a message, as property POP_CK or field extraInfo.

    startOffset popTime invisibleTime reviveQueueId kind brokerName queueId queueOffset     separated by spaces

*startOffset* is the start offset of the pop, *queueOffset* that of the message, which may be missing. Responses carry
the parts in three fields, from which clients build the handles: startOffsetInfo, msgOffsetInfo and orderCountInfo.

Source: apache/rocketmq remoting/.../protocol/header/ExtraInfoUtil.java.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gantrymq.errors import MessageIllegal
from gantrymq.plugin.loose_json import whole_number

ORDERED: Final = 999  # reviveQueueId of an ordered pop, which writes no checkpoint
_INT64_MAX: Final = 2**63 - 1


class ReceiptHandle(NamedTuple):
    """A parsed receipt handle."""

    start_offset: int
    pop_time: int  # ms
    invisible_ms: int
    revive_queue: int
    kind: str  # see `topics.kind_of`
    broker_name: str
    queue_id: int

    @property
    def due_ms(self) -> int:
        """Time at which its messages are redelivered."""
        return self.pop_time + self.invisible_ms


def read_receipt_handle(text: str, revive_queues: int) -> ReceiptHandle:
    """Parse a receipt handle.

    Raises:
        MessageIllegal: it has too few parts, a part is not a number, or the revive queue does not exist.
    """
    parts = text.split(" ", 8)
    numbers = [whole_number(each) for each in (*parts[:4], *parts[6:7])]
    if len(numbers) < 5 or None in numbers:
        raise _garbled(text, "eight parts are expected, numbers but for the broker's name")
    start, pop_time, invisible_ms, revive_queue, queue_id = (number or 0 for number in numbers)
    kind, broker_name = parts[4:6]
    if not (0 <= revive_queue < revive_queues or revive_queue == ORDERED):
        raise _garbled(text, f"its reviveQueueId {revive_queue} is none of 0 to {revive_queues - 1} and {ORDERED}")
    if not (0 <= start <= _INT64_MAX and pop_time >= 0 and invisible_ms >= 0 and pop_time + invisible_ms <= _INT64_MAX):
        raise _garbled(text, "an offset or a time in it is out of range")
    return ReceiptHandle(start, pop_time, invisible_ms, revive_queue, kind, broker_name, queue_id)


def _garbled(text: str, why: str) -> MessageIllegal:
    return MessageIllegal(
        f"the receipt handle {text[:80]!r} is not one of this broker's: {why}; pass on POP_CK as the message had it"
    )
