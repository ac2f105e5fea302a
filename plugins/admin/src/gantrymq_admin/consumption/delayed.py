"""Copies of a message that wait for a delay, by the group that will try again. No I/O.

The level of a copy is its queue in SCHEDULE_TOPIC_XXXX plus one; a copy in the timer wheel has its time in a property.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (queueId2DelayLevel, computeDeliverTimestamp),
store/.../timer/TimerMessageStore.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gantrymq.client import ReceivedMessage
from gantrymq.errors import ConfigError
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq_admin.consumption.copies import copy_of, is_copy_of
from gantrymq_admin.consumption.facts import Copy, MessageFacts, Stage

__all__ = ["delayed_by_group", "due_ms", "levels_in"]


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
