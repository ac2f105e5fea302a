"""Cached encoding of the properties of half messages.

A half message has the properties of its message plus its target topic and queue, and its unique id a second time, in
the order of Java's HashMap. Messages of one producer mostly differ in that id only, so the encoded text is cached with
two gaps for it.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageBridge.java (parseHalfMessageInner).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gantrymq.errors import MessageIllegal
from gantrymq.plugin import properties as props
from gantrymq.plugin.properties import ordered_text
from gantrymq_transaction.messages import asks_for_delay
from gantrymq_transaction.rules import CHECK_TIMES, IMMUNITY

TRANSACTION_ID: Final = "__transactionId__"

_KEPT: Final = 1024  # distinct texts
_MARK: Final = b"UNIQ_KEY\x01"
_GAP: Final = "\x03gap\x03"


class Target(NamedTuple):
    """What a decision needs to know about half messages of one producer for one queue."""

    topic: str
    queue_id: int
    group: str  # of the producer


class HalfPlan(NamedTuple):
    """The properties of half messages that differ only in their unique id."""

    pieces: tuple[bytes, bytes, bytes]  # before, between and after the two places of the id
    target: Target | None  # None if a decision needs more properties than their target


class HalfTextWriter:
    """Encodes the properties of half messages."""

    def __init__(self) -> None:
        self._plans: dict[tuple[bytes, bytes, str, int], HalfPlan] = {}

    def of(self, text: bytes, topic: str, queue_id: int) -> bytes:
        """Return the encoded properties of the half message for a message with the encoded properties *text*.

        Raises:
            MessageIllegal: the message has no producer group, so it could never be decided.
        """
        before, _, rest = text.partition(_MARK)
        unique_id, _, after = rest.partition(b"\x02")
        if unique_id and (not before or before[-1] == 2):
            plan = self._plan(before, after, topic, queue_id)
            if plan is not None:
                return unique_id.join(plan.pieces)
        return ordered_text(_half(props.decode(text), topic, queue_id))

    def plan(self, before: bytes, after: bytes, topic: str, queue_id: int) -> HalfPlan | None:
        """Return the plan for messages with the encoded properties *before*, a unique id, and *after*.

        Return None if they have to be encoded one by one. Raises MessageIllegal like `of`.
        """
        head = before.removesuffix(_MARK)
        if len(head) == len(before) or _MARK in head or (head and head[-1] != 2) or after[:1] != b"\x02":
            return None
        return self._plan(head, after[1:], topic, queue_id)

    def _plan(self, before: bytes, after: bytes, topic: str, queue_id: int) -> HalfPlan | None:
        key = (before, after, topic, queue_id)
        known = self._plans.get(key)
        if known is not None:
            return known
        gap = _GAP.encode()
        if _MARK in after or gap in before or gap in after:
            return None
        own = _half(props.decode(b"%s%s%s\x02%s" % (before, _MARK, gap, after)), topic, queue_id)
        pieces = ordered_text(own).split(gap)
        if len(pieces) != 3:
            return None
        if len(self._plans) >= _KEPT:
            self._plans.clear()
        plan = self._plans[key] = HalfPlan((pieces[0], pieces[1], pieces[2]), _target(own, topic, queue_id))
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


def _target(own: Mapping[str, str], topic: str, queue_id: int) -> Target | None:
    """Return the target of half messages with these properties; None with checks, an immunity time or a delay."""
    if CHECK_TIMES in own or IMMUNITY in own or asks_for_delay(own):
        return None
    return Target(topic, queue_id, own[props.PRODUCER_GROUP])
