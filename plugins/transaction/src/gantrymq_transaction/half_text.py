"""The property text of half messages, worked out once per distinct text.

What a half message has besides the message's own properties: the topic and the queue that it is meant for, and its
unique id once more, all in the order of Java's HashMap. The messages of one producer mostly differ in that id alone, so
the result is kept with two gaps where it goes.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageBridge.java (parseHalfMessageInner).
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import MessageIllegal
from gantrymq.model import properties as props
from gantrymq.model.property_order import ordered_text

__all__ = ["TRANSACTION_ID", "HalfTextWriter"]

TRANSACTION_ID: Final = "__transactionId__"

KEPT: Final = 1024  # distinct texts
_MARK: Final = b"UNIQ_KEY\x01"
_GAP: Final = "\x03gap\x03"


class HalfTextWriter:
    """Makes them."""

    def __init__(self) -> None:
        self._plans: dict[tuple[bytes, bytes, str, int], tuple[bytes, bytes, bytes]] = {}

    def of(self, text: bytes, topic: str, queue_id: int) -> bytes:
        """The stored properties of the half message of a message with the stored properties *text*.

        Raises:
            MessageIllegal: no producer group could ever decide it.
        """
        before, _, rest = text.partition(_MARK)
        unique_id, _, after = rest.partition(b"\x02")
        if unique_id and (not before or before[-1] == 2):
            key = (before, after, topic, queue_id)
            plan = self._plans.get(key)
            if plan is None:
                plan = self._learn(key)
            if plan is not None:
                return unique_id.join(plan)
        return ordered_text(_half(props.decode(text), topic, queue_id))

    def _learn(self, key: tuple[bytes, bytes, str, int]) -> tuple[bytes, bytes, bytes] | None:
        before, after, topic, queue_id = key
        gap = _GAP.encode()
        if _MARK in after or gap in before or gap in after:
            return None
        own = _half(props.decode(b"%s%s%s\x02%s" % (before, _MARK, gap, after)), topic, queue_id)
        parts = ordered_text(own).split(gap)
        if len(parts) != 3:
            return None
        if len(self._plans) >= KEPT:
            self._plans.clear()
        plan = self._plans[key] = (parts[0], parts[1], parts[2])
        return plan


def _half(own: dict[str, str], topic: str, queue_id: int) -> dict[str, str]:
    if not own.get(props.PRODUCER_GROUP):
        raise MessageIllegal(
            f"a half message for topic {topic} names no producer group (PGROUP), so nobody could ever decide it; send "
            "it with the producer group, as RocketMQ's clients do"
        )
    unique_id = own.get(props.UNIQ_KEY)
    if unique_id:
        own[TRANSACTION_ID] = unique_id
    own[props.REAL_TOPIC] = topic
    own[props.REAL_QUEUE_ID] = str(queue_id)
    return own
