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

import attrs

from gantrymq.interfaces import ConsumerHeartbeat
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.model.subscription import ALL, TAG, Subscription

__all__ = ["Conflict", "Kind", "Statement", "conflicts_among", "conflicts_between", "statement_of"]


class Kind(enum.Enum):
    """Kinds of conflicts between members of a group."""

    SUBSCRIPTIONS = "subscriptions"
    CLIENT_ID = "client-id"
    CONSUME_TYPE = "consume-type"
    MESSAGE_MODEL = "message-model"


_WAYS = {"CONSUME_ACTIVELY": "pulls", "CONSUME_PASSIVELY": "has messages pushed", "CONSUME_POP": "pops"}


@attrs.frozen
class Statement:
    """Settings that one connection declares for one group."""

    client_id: str
    address: str  # host:port
    consume_type: str
    message_model: str
    wants: Mapping[str, str]  # topic to expression in normal form; without retry topics

    def __str__(self) -> str:
        """The client and its address, for messages."""
        return f"{self.client_id} ({self.address})"


@attrs.frozen
class Conflict:
    """One conflict, with one pair of members as evidence."""

    kind: Kind
    sentence: str
    topic: str = ""  # for conflicting subscriptions


def statement_of(
    client_id: str, address: str, heard: ConsumerHeartbeat, known: Mapping[str, str] | None = None
) -> Statement:
    """Return the statement of a heartbeat about one group; *known*: its subscriptions if the heartbeat has none."""
    wants = known or {}
    if heard.subscriptions is not None:
        wants = {each.topic: normal(each) for each in heard.subscriptions if not each.topic.startswith(RETRY_PREFIX)}
    return Statement(client_id, address, heard.consume_type, heard.message_model, wants)


def normal(subscription: Subscription) -> str:
    """Normalize an expression, so that equivalent ones are mostly equal: tags sorted, without duplicates."""
    expression = subscription.expression.strip()
    if subscription.type.upper() != TAG:
        return f"{subscription.type.upper()} {expression}"
    tags = sorted({tag.strip() for tag in expression.split("||")} - {""})
    return ALL if not tags or ALL in tags else " || ".join(tags)


def conflicts_between(group: str, new: Statement, known: Statement) -> Iterator[Conflict]:
    """Yield the conflicts between two members."""
    if new.client_id == known.client_id:
        yield Conflict(
            Kind.CLIENT_ID,
            f"group {group}: the client id {new.client_id} is used by two connections, {known.address} and "
            f"{new.address}; both read the same queues, and other queues are not read. Give each consumer an "
            "instance name of its own",
        )
    if new.consume_type != known.consume_type:
        yield Conflict(
            Kind.CONSUME_TYPE,
            f"group {group}: {known} {_way(known)} and {new} {_way(new)}; each takes messages that the other does not "
            "get. Give one of them a group of its own",
        )
    if new.message_model != known.message_model:
        yield Conflict(
            Kind.MESSAGE_MODEL,
            f"group {group}: {known} is {known.message_model} and {new} is {new.message_model}; the broker uses the "
            "newest for all of them. Give one of them a group of its own",
        )
    difference = _difference(known.wants, new.wants)
    if difference is not None:
        topic, old, own = difference
        yield Conflict(
            Kind.SUBSCRIPTIONS,
            f"group {group}: {known} subscribes to {topic} with {old} and {new} with {own}; the broker keeps one "
            "subscription a group, so messages are skipped. Let all members subscribe to the same, or give one of "
            "them a group of its own",
            topic,
        )


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
        said.setdefault((member.consume_type, member.message_model, frozenset(member.wants.items())), member)
    different = list(said.values())
    for new in different[1:]:
        for conflict in conflicts_between(group, new, different[0]):
            if conflict.kind is not Kind.CLIENT_ID:
                found.setdefault((conflict.kind, conflict.topic), conflict)
    return list(found.values())


def _way(member: Statement) -> str:
    return _WAYS.get(member.consume_type, member.consume_type)


def _difference(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return the first topic, by name, with different expressions."""
    if old == new:
        return None
    for topic in sorted({*old, *new}):
        if old.get(topic) != new.get(topic):
            return topic, _quoted(old.get(topic)), _quoted(new.get(topic))
    return None


def _quoted(expression: str | None) -> str:
    return "nothing" if expression is None else f"'{expression}'"
