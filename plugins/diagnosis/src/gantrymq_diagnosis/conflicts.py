"""Conflicts between members of one consumer group. No I/O.

RocketMQ keeps one subscription, one consume type and one message model per group: those of the newest heartbeat. With
members that differ, each heartbeat replaces the settings of the others, and messages are skipped. In a
rebalance, a client id counts as one member, so two members with the same id read the same queues.

Source: apache/rocketmq broker/.../client/ConsumerGroupInfo.java (updateSubscription),
client/.../impl/consumer/RebalanceImpl.java.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from gantrymq.plugin.interfaces import ConsumerHeartbeat
from gantrymq.plugin.model import ALL, POPS, TAG, Subscription, Value, pops
from gantrymq.plugin.names import RETRY_PREFIX
from gantrymq_diagnosis.sentences import Reason


class Kind(enum.Enum):
    """Kinds of conflicts between members of a group."""

    SUBSCRIPTIONS = "subscriptions"
    CLIENT_ID = "client-id"
    CONSUME_TYPE = "consume-type"
    MESSAGE_MODEL = "message-model"


_PUSHED_TO: Final = "CONSUME_PASSIVELY"
_TYPES = {"CONSUME_ACTIVELY": "PULL", _PUSHED_TO: "PUSH", POPS: "POP"}


@attrs.frozen
class Statement:
    """Settings that one connection declares for one group."""

    client_id: str
    address: str  # host:port
    consume_type: str  # CONSUME_POP of all clients of a protocol that pop
    message_model: str
    wants: Mapping[str, str]  # topic to expression in normal form; without retry topics
    protocol: str = "remoting"

    def __str__(self) -> str:
        """The client and its address, for messages."""
        return f"{self.client_id} ({self.address})"


@attrs.frozen
class Conflict:
    """One conflict, with one pair of members as evidence."""

    kind: Kind
    values: Mapping[str, Value]  # of the sentence
    topic: str = ""  # for conflicting subscriptions
    variant: str = ""

    @property
    def reason(self) -> Reason:
        """The conflict as a finding about the group."""
        return Reason(f"conflict-{self.kind.value}", self.values, self.variant)


def statement_of(
    client_id: str,
    address: str,
    heard: ConsumerHeartbeat,
    known: Mapping[str, str] | None = None,
    protocol: str = "remoting",
) -> Statement:
    """Return the statement of a heartbeat about one group; *known*: its subscriptions if the heartbeat has none."""
    wants = known or {}
    if heard.subscriptions is not None:
        wants = {each.topic: normal(each) for each in heard.subscriptions if not each.topic.startswith(RETRY_PREFIX)}
    consume_type = POPS if pops(heard.consume_type, protocol) else heard.consume_type
    return Statement(client_id, address, consume_type, heard.message_model, wants, protocol)


def normal(subscription: Subscription) -> str:
    """Normalize an expression, so that equivalent ones are mostly equal: tags sorted, without duplicates."""
    expression = subscription.expression.strip()
    if subscription.type.upper() != TAG:
        return f"{subscription.type.upper()} {expression}"
    tags = sorted({tag.strip() for tag in expression.split("||")} - {""})
    return ALL if not tags or ALL in tags else " || ".join(tags)


def conflicts_between(group: str, new: Statement, known: Statement) -> Iterator[Conflict]:
    """Yield the conflicts between two members."""
    names = {"group": group, "known": str(known), "new": str(new)}
    if new.client_id == known.client_id:
        values = {"group": group, "client": new.client_id, "known": known.address, "new": new.address}
        yield Conflict(Kind.CLIENT_ID, values)
    if new.consume_type != known.consume_type and not _may_pop_too(new, known):
        types = {"known_type": _type(known), "new_type": _type(new)}
        yield Conflict(Kind.CONSUME_TYPE, {**names, **types})
    if new.message_model != known.message_model:
        models = {"known_model": known.message_model, "new_model": new.message_model}
        yield Conflict(Kind.MESSAGE_MODEL, {**names, **models})
    topic = _difference(known.wants, new.wants)
    if topic is not None:
        yield _subscriptions(group, topic, new, known)


def _subscriptions(group: str, topic: str, new: Statement, known: Statement) -> Conflict:
    """Return the conflict of two members that subscribe to *topic* differently, or of which one does not."""
    old, own = known.wants.get(topic), new.wants.get(topic)
    if old is not None and own is not None:
        values = {"known": str(known), "known_expression": old, "new": str(new), "new_expression": own}
        return Conflict(Kind.SUBSCRIPTIONS, {"group": group, "topic": topic, **values}, topic)
    member, other = (new, known) if old is None else (known, new)
    values = {"member": str(member), "other": str(other), "expression": member.wants[topic]}
    return Conflict(Kind.SUBSCRIPTIONS, {"group": group, "topic": topic, **values}, topic, "one")


def declared(member: Statement) -> tuple[object, ...]:
    """Return what a member says, without who it is: equal for members that do not conflict."""
    return member.consume_type, member.protocol, member.message_model, frozenset(member.wants.items())


def conflicts_among(group: str, members: Iterable[Statement]) -> list[Conflict]:
    """Return the present conflicts of a group: of each kind and topic, the first conflicting pair.

    Members with equal statements are compared once.
    """
    found: dict[tuple[Kind, str], Conflict] = {}
    ids: dict[str, Statement] = {}
    said: dict[tuple[object, ...], Statement] = {}
    for member in members:
        if member.client_id in ids:
            for conflict in conflicts_between(group, member, ids[member.client_id]):
                if conflict.kind is Kind.CLIENT_ID:
                    found.setdefault((conflict.kind, ""), conflict)
        ids.setdefault(member.client_id, member)
        said.setdefault(declared(member), member)
    different = list(said.values())
    for new in different[1:]:
        for conflict in conflicts_between(group, new, different[0]):
            if conflict.kind is not Kind.CLIENT_ID:
                found.setdefault((conflict.kind, conflict.topic), conflict)
    return list(found.values())


def _may_pop_too(new: Statement, known: Statement) -> bool:
    """Return whether one member pops because of its protocol, and the other may.

    A push consumer of remoting pops or pulls as the mode of its group says, which its heartbeats do not.
    """
    types, protocols = {new.consume_type, known.consume_type}, {new.protocol, known.protocol}
    return types == {POPS, _PUSHED_TO} and len(protocols) > 1


def _type(member: Statement) -> str:
    return _TYPES.get(member.consume_type, member.consume_type)


def _difference(old: Mapping[str, str], new: Mapping[str, str]) -> str | None:
    """Return the first topic, by name, with different expressions."""
    if old == new:
        return None
    return next((topic for topic in sorted({*old, *new}) if old.get(topic) != new.get(topic)), None)
