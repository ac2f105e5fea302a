"""Cached encoding of the properties of half messages.

A half message has the properties of its message plus its target topic and queue, and its unique id a second time, in
the order of Java's HashMap. Messages of one producer mostly differ in that id only, so the encoded text is cached with
two gaps for it.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageBridge.java (parseHalfMessageInner).
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import MessageIllegal
from gantrymq.plugin import properties as props
from gantrymq.plugin.properties import ordered_text

TRANSACTION_ID: Final = "__transactionId__"

_KEPT: Final = 1024  # distinct texts
_MARK: Final = b"UNIQ_KEY\x01"
_GAP: Final = "\x03gap\x03"


class HalfTextWriter:
    """Encodes the properties of half messages."""

    def __init__(self) -> None:
        self._plans: dict[tuple[bytes, bytes, str, int], tuple[bytes, bytes, bytes]] = {}

    def of(self, text: bytes, topic: str, queue_id: int) -> bytes:
        """Return the encoded properties of the half message for a message with the encoded properties *text*.

        Raises:
            MessageIllegal: the message has no producer group, so it could never be decided.
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
        if len(self._plans) >= _KEPT:
            self._plans.clear()
        plan = self._plans[key] = (parts[0], parts[1], parts[2])
        return plan


def _half(own: dict[str, str], topic: str, queue_id: int) -> dict[str, str]:
    if not own.get(props.PRODUCER_GROUP):
        raise MessageIllegal(
            f"a half message for topic {topic} names no producer group (PGROUP), so it could never be decided; send "
            "it with the producer group, as RocketMQ's clients do"
        )
    unique_id = own.get(props.UNIQ_KEY)
    if unique_id:
        own[TRANSACTION_ID] = unique_id
    own[props.REAL_TOPIC] = topic
    own[props.REAL_QUEUE_ID] = str(queue_id)
    return own
