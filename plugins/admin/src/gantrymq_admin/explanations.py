"""Explanations of consumer groups: the progress of each queue, its reader, and why no messages arrive.

A request of GantryMQ's own (65021), served by brokers with gantrymq-diagnosis. `docs/operations/consumption.md` lists
the reasons.

Settings of a broker with their meaning, default and source are another request of GantryMQ's own (65026).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

import attrs

from gantrymq.client import Admin
from gantrymq.errors import GantryError
from gantrymq.plugin.headers import Header, header_of
from gantrymq.plugin.model import Value, sentence_of, texts_in
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.asking import read, texts

__all__ = [
    "Conflict",
    "ExplainedSetting",
    "GroupExplanation",
    "Member",
    "QueueExplanation",
    "Reason",
    "Retries",
    "explain_group",
    "explained_settings",
    "without_topics_of_others",
]
EXPLAIN_GROUP: Final = cast(RequestCode, 65021)
ON_A_SLAVE: Final = "on-a-slave"
NOT_FOLLOWING: Final = "slave-not-following"
TOPIC_MISSING: Final = "topic-missing"
EXPLAINED_SETTINGS: Final = cast(RequestCode, 65026)


@header_of(EXPLAIN_GROUP)
class ExplainGroupRequest(Header):
    """Explain a group, on one topic or on all."""

    consumer_group: str
    topic: str | None = None


@attrs.frozen
class Reason:
    """A finding about a whole group."""

    reason: str  # a stable word
    sentence: str  # in English
    values: Mapping[str, Value] = attrs.field(factory=dict)  # in the sentence; none from older brokers
    variant: str = ""  # which text of the word the sentence is, if it has several


@attrs.frozen
class Member:
    """A connection of the group, with the contents of its heartbeat."""

    client_id: str
    address: str
    consume_type: str
    message_model: str
    topics: tuple[str, ...]  # whose queues it reads


@attrs.frozen
class Conflict:
    """A conflict between members of the group."""

    kind: str
    topic: str
    sentence: str  # in English
    values: Mapping[str, Value] = attrs.field(factory=dict)  # as in `Reason`
    variant: str = ""


@attrs.frozen
class Retries:
    """Messages that the group gets again."""

    behind: int  # on its retry topics, not consumed yet
    waiting: int  # in the delay levels
    waiting_more: bool  # whether there may be more than were counted
    next_due_ms: int | None  # when the next one is due, wall time


@attrs.frozen
class QueueExplanation:
    """One queue; None: unknown. Offsets are queue offsets, ages are of the moment of the query."""

    topic: str
    queue: int  # its id
    owner: str | None  # client id, or the address of a client that sends no heartbeats
    last_pull_ms_ago: int | None
    last_pull_by: str | None
    next_pull: int | None
    committed: int | None
    min_offset: int
    max_offset: int
    held: tuple[str, ...]  # clients of the pulls that wait for messages
    hit_rate: float | None  # fraction of the evaluated messages that matched
    behind: int | None  # messages not consumed yet
    lag_ms: int | None  # age of the oldest one
    locked_by: str | None
    reset_to: int | None
    reason: str  # a stable word
    sentence: str  # in English
    deleted: int = 0  # messages that were deleted before the group consumed them
    moved_ms_ago: int | None = None  # its committed offset changed, or its client began to pull
    values: Mapping[str, Value] = attrs.field(factory=dict)  # as in `Reason`
    variant: str = ""


@attrs.frozen
class GroupExplanation:
    """A group at one broker."""

    broker: str  # its name
    group: str
    system: bool  # whether it is a group of the broker
    policy: str  # consumerConflictPolicy
    behind: int | None  # messages not consumed yet; None: not known
    lag_ms: int | None  # age of the oldest one
    members: tuple[Member, ...]
    conflicts: tuple[Conflict, ...]
    retry: Retries
    dead_letters: int
    diagnosis: tuple[Reason, ...]
    queues: tuple[QueueExplanation, ...]
    deleted: int = 0  # messages that were deleted before the group consumed them


async def explain_group(admin: Admin, address: str, group: str, topic: str | None = None) -> GroupExplanation:
    """Return the facts of one broker about *group*, on one topic or on all.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-diagnosis.
        BrokerRefused: it has no such group (26) or topic (17).
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    header = ExplainGroupRequest(consumer_group=group, topic=topic)
    found = await admin.request_parsed(address, EXPLAIN_GROUP, _explained, header, what=f"facts of group {group}")
    if found.diagnosis and found.diagnosis[0].reason == ON_A_SLAVE:
        found = attrs.evolve(
            found, diagnosis=(found.diagnosis[0], *await _copying(admin, address), *found.diagnosis[1:])
        )
    return found


def without_topics_of_others(found: Mapping[str, GroupExplanation]) -> dict[str, GroupExplanation]:
    """Return the explanations of brokers without those topics that one broker lacks and another one has."""
    there = {queue.topic for each in found.values() for queue in each.queues}

    def elsewhere(reason: Reason) -> bool:
        return reason.reason == TOPIC_MISSING and reason.values.get("topic") in there

    return {
        key: attrs.evolve(each, diagnosis=tuple(reason for reason in each.diagnosis if not elsewhere(reason)))
        for key, each in found.items()
    }


async def _copying(admin: Admin, address: str) -> list[Reason]:
    """Return why a slave does not follow its master, if it does not: its offsets are older than some seconds then."""
    with suppress(GantryError):
        connection = (await admin.ha_status(address)).connection
        if connection is not None and connection.problem:
            values = {"problem": connection.problem}
            sentence = sentence_of(texts_in("gantrymq_admin", "en")["reasons"][NOT_FOLLOWING], values)
            return [Reason(NOT_FOLLOWING, sentence, values)]
    return []


def _explained(found: Mapping[str, Any]) -> GroupExplanation:
    queues = tuple(_queue(each) for each in found["queues"])
    known = all(each.behind is not None for each in queues)
    unknown: dict[str, None] = {}
    if not found.get("behind_known", known):
        unknown["behind"] = None
    if not found.get("lag_known", known):
        unknown["lag_ms"] = None
    return read(
        GroupExplanation,
        found,
        **unknown,
        members=tuple(read(Member, each, topics=texts(each["topics"])) for each in found["members"]),
        conflicts=tuple(read(Conflict, each, values=_values(each)) for each in found["conflicts"]),
        retry=read(Retries, found["retry"]),
        diagnosis=tuple(read(Reason, each, values=_values(each)) for each in found["diagnosis"]),
        queues=queues,
    )


def _queue(found: Mapping[str, Any]) -> QueueExplanation:
    """Return a queue. Of older brokers, a lag of 0 with an unknown age is not known."""
    queue = read(QueueExplanation, found, held=texts(found["held"]), values=_values(found))
    known = found.get("behind_known", bool(queue.behind) or queue.lag_ms is not None)
    return queue if known else attrs.evolve(queue, behind=None)


def _values(found: Mapping[str, Any]) -> Mapping[str, Value]:
    """Return the values of a reason. Raises TypeError: they are malformed."""
    values = found.get("values", {})
    if not isinstance(values, dict) or not all(isinstance(each, str | int | None) for each in values.values()):
        raise TypeError(f"values are {values!r}, not texts and numbers")
    return values


@attrs.frozen
class ExplainedSetting:
    """One setting of a running broker; values are texts as in its file."""

    key: str
    value: str
    default: str
    rocketmq_default: str | None  # None: a setting of GantryMQ
    source: str  # of the value, such as "default" or the path of a file
    help: str
    kind: str  # number, flag, text
    choices: tuple[str, ...]  # allowed texts; empty: any
    at_least: int | None
    at_most: int | None
    runtime: bool  # whether it can be changed while the broker runs
    secret: bool  # its value is masked


async def explained_settings(admin: Admin, address: str) -> tuple[ExplainedSetting, ...]:
    """Return the settings of one broker, sorted by key.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-diagnosis.
        BrokerRefused: it is stopping.
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    return await admin.request_parsed(address, EXPLAINED_SETTINGS, _settings, what=f"settings of {address}")


def _settings(found: Mapping[str, Any]) -> tuple[ExplainedSetting, ...]:
    return tuple(read(ExplainedSetting, each, choices=texts(each["choices"])) for each in found["settings"])
