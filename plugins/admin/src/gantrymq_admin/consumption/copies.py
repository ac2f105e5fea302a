"""Copies of a message, which keep its unique id. No I/O.

A broker's copies name the record that was sent back in ORIGIN_MESSAGE_ID, by its offset id; copies by consumers in
order name the unique id, and copies of pop nothing.

Copies that wait for a delay belong to the group that will try again.

The level of a copy is its queue in SCHEDULE_TOPIC_XXXX plus one; a copy in the timer wheel has its time in a property.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (queueId2DelayLevel, computeDeliverTimestamp),
store/.../timer/TimerMessageStore.java.

The topic of a given message says what it is a copy of.

    topic of the message            original
    %RETRY%group                    in RETRY_TOPIC, for that group
    %RETRY%group_topic, +topic      pop: in the topic at the end of the name
    %DLQ%group                      in RETRY_TOPIC, for that group
    SCHEDULE_TOPIC_XXXX, wheel      in REAL_TOPIC if it was delivered; a retry if that is %RETRY%group
    half messages                   in REAL_TOPIC if the transaction was committed
    any other                       itself

Copies keep the unique id, so the original has the same one.

Source: apache/rocketmq broker/.../processor/AbstractSendMessageProcessor.java (consumerSendMsgBack),
common/.../KeyBuilder.java, broker/.../transaction/queue/TransactionalMessageUtil.java.

Tries are read from the message trace, by group.

A delivery leaves a SubBefore when it begins and a SubAfter when it ends, with the same request id. Each may be lost,
and a SubAfter of clients before 4.7 has no group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import attrs

from gantrymq.client import ReceivedMessage, decode_trace
from gantrymq.client.admin import AnswerUnreadable
from gantrymq.errors import ConfigError
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.client import SubAfter, SubBefore, TraceRecord
from gantrymq.plugin.formats import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.plugin.model import is_offset_id, parse_address
from gantrymq_admin.consumption.facts import Copy, Kind, MessageFacts, Stage, Try


def is_copy_of(message: MessageFacts, record: ReceivedMessage) -> bool:
    """Return whether *record* is a copy of the message, rather than of another message with the same unique id."""
    if record.offset_id == message.offset_id:
        return False
    named = record.properties.get(props.ORIGIN_MESSAGE_ID)
    return named is None or message.offset_id in ("", named) or not is_offset_id(named)


def copy_of(record: ReceivedMessage, stage: Stage, *, popped: bool = False, due_ms: int | None = None) -> Copy:
    """Return *record* as a copy."""
    return Copy(
        stage,
        record.topic,
        record.broker_name,
        record.queue_id,
        record.queue_offset,
        record.store_timestamp,
        record.reconsume_times,
        record.offset_id,
        popped,
        due_ms,
    )


def levels_in(settings: Mapping[str, str]) -> tuple[int, ...]:
    """Return the durations of a broker's delay levels in ms; RocketMQ's defaults if it does not show them."""
    try:
        return parse_delay_levels(settings.get("messageDelayLevel") or DEFAULT_DELAY_LEVELS)
    except ConfigError:
        return parse_delay_levels(DEFAULT_DELAY_LEVELS)


def due_ms(record: ReceivedMessage, levels_ms: Sequence[int]) -> int | None:
    """Return the delivery time of a delayed record, or None if it is not known."""
    if record.topic == names.SCHEDULE_TOPIC:
        known = 0 <= record.queue_id < len(levels_ms)
        return record.store_timestamp + levels_ms[record.queue_id] if known else None
    due = record.properties.get(props.TIMER_OUT_MS, "")
    return int(due) if due.isdecimal() else None


def delayed_by_group(
    message: MessageFacts, records: Iterable[ReceivedMessage], levels_ms: Sequence[int]
) -> dict[str, tuple[Copy, ...]]:
    """Return the copies that wait, or waited, for a retry."""
    found: dict[str, list[Copy]] = {}
    for record in records:
        real = record.properties.get(props.REAL_TOPIC, "")
        if real.startswith(names.RETRY_PREFIX) and is_copy_of(message, record):
            copy = copy_of(record, Stage.DELAYED, due_ms=due_ms(record, levels_ms))
            found.setdefault(real.removeprefix(names.RETRY_PREFIX), []).append(copy)
    return {group: tuple(copies) for group, copies in found.items()}


_DELAYING = (names.SCHEDULE_TOPIC, names.TIMER_TOPIC)
_POP_MARKS = "+_"  # between group and topic


@attrs.frozen
class Origin:
    """Where the original of a message may be."""

    kind: Kind
    topics: tuple[str, ...] = ()  # the likeliest first; empty: the message is an original
    group: str | None = None  # of a retry or dead letter, if its name is clear


def origin_of(message: ReceivedMessage) -> Origin:
    """Return the kind of *message*."""
    topic = message.topic
    if topic in _DELAYING:
        real = message.properties.get(props.REAL_TOPIC, "")
        if real.startswith(names.RETRY_PREFIX):
            return _retry(real, message, Kind.RETRY)
        return Origin(Kind.DELAYED, (real,) if real else ())
    if topic in (names.HALF_TOPIC, names.CHECK_MAX_TIME_TOPIC):
        real = message.properties.get(props.REAL_TOPIC, "")
        return Origin(Kind.HALF if topic == names.HALF_TOPIC else Kind.DISCARDED, (real,) if real else ())
    if topic.startswith(names.RETRY_PREFIX):
        return _retry(topic, message, Kind.RETRY)
    if topic.startswith(names.DLQ_PREFIX):
        return _retry(names.retry_topic(topic.removeprefix(names.DLQ_PREFIX)), message, Kind.DEAD_LETTER)
    return Origin(Kind.NORMAL)


def _retry(retry_topic: str, message: ReceivedMessage, kind: Kind) -> Origin:
    """Return the origin of a copy in *retry_topic*, or of a dead letter whose retry topic this would be."""
    before = message.properties.get(props.RETRY_TOPIC)
    if before is not None and not before.startswith(names.RETRY_PREFIX):
        return Origin(kind, (before,), retry_topic.removeprefix(names.RETRY_PREFIX))
    found = _popped_topics(before or retry_topic)
    group = retry_topic.removeprefix(names.RETRY_PREFIX) if kind is Kind.DEAD_LETTER or not found else None
    return Origin(kind, found, group)


def _popped_topics(retry_topic: str) -> tuple[str, ...]:
    """Return the topics that a retry topic of pop may belong to: both names may contain the mark."""
    name = retry_topic.removeprefix(names.RETRY_PREFIX)
    return tuple(
        name[place + 1 :] for mark in _POP_MARKS for place, letter in enumerate(name[:-1]) if letter == mark and place
    )


def pick_original(message: ReceivedMessage, found: list[ReceivedMessage]) -> ReceivedMessage | None:
    """Return the original of a copy among the messages with its unique id: the one it names, or the first stored."""
    named = message.properties.get(props.ORIGIN_MESSAGE_ID)
    by_id = next((each for each in found if each.offset_id == named), None)
    return by_id or min(found, key=lambda each: each.store_timestamp, default=None)


class Traced(NamedTuple):
    """A record of the trace, and the address of the client that wrote it."""

    record: TraceRecord
    born_host: str


def records_of(traces: Iterable[ReceivedMessage], message_id: str) -> tuple[list[Traced], int]:
    """Return the records of a message, and the number of messages that could not be decoded."""
    found: list[Traced] = []
    unreadable = 0
    for trace in traces:
        if trace.is_shortened:
            unreadable += 1
            continue
        try:
            records = decode_trace(trace.body)
        except AnswerUnreadable:
            unreadable += 1
            continue
        found += [Traced(each, trace.born_host) for each in records if each.message_id == message_id]
    return found, unreadable


def tries_by_group(records: Iterable[Traced]) -> dict[str, tuple[Try, ...]]:
    """Return the tries to consume a message, in order."""
    before: dict[str, tuple[SubBefore, str]] = {}
    after: dict[str, tuple[SubAfter, str]] = {}
    for record, born_host in records:
        if isinstance(record, SubBefore):
            before[record.request_id] = record, born_host
        elif isinstance(record, SubAfter):
            after[record.request_id] = record, born_host
    found: dict[str, list[Try]] = {}
    for request_id in before | after:
        begun, begun_at = before.get(request_id, (None, ""))
        ended, ended_at = after.get(request_id, (None, ""))
        group = (begun.group if begun is not None else "") or (ended.group if ended is not None else "")
        if group:
            found.setdefault(group, []).append(_try(begun, ended, _host(ended_at or begun_at)))
    return {group: tuple(sorted(tries, key=_time)) for group, tries in found.items()}


def _try(begun: SubBefore | None, ended: SubAfter | None, client_host: str) -> Try:
    one = Try(client_host, None)
    if begun is not None:
        one = attrs.evolve(one, began_ms=begun.time_ms, failures=begun.retry_times)
    if ended is not None:
        one = attrs.evolve(one, ended_ms=ended.time_ms or None, success=ended.success, took_ms=ended.cost_ms)
    return one


def _time(one: Try) -> int:
    return one.ended_ms or one.began_ms or 0


def _host(address: str) -> str:
    """Return the host of ``host:port``: the port belongs to the connection that carried the trace."""
    try:
        return parse_address(address)[0]
    except ValueError:
        return address
