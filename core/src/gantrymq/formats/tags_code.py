"""Tags codes: the third field of a queue entry, used for filtering before the log is read.

- Normally Java's hash of the TAGS property, sign-extended; 0 without a tag.
- In SCHEDULE_TOPIC_XXXX the due time of the message in ms: its store time plus the duration of its delay level. A
  level above the highest counts as the highest; a level without a duration as 1000 ms.

Source: apache/rocketmq store/.../CommitLog.java (checkMessageAndReturnSize), MessageExtBrokerInner.java
(tagsString2tagsCode), schedule/ScheduleMessageService.java (parseDelayLevel, computeDeliverTimestamp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.model.java import string_hash
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.properties import DELAY, TAGS

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def tags_code(tags: str | None) -> int:
    """Return the code of a TAGS value, -2^31 to 2^31 - 1; 0 without a value."""
    return string_hash(tags) if tags else 0


def tags_code_of(
    topic: str, properties: Mapping[str, str], store_timestamp: int, delay_levels_ms: Sequence[int]
) -> int:
    """Return the tags code in the queue entry of a stored record.

    Args:
        topic: topic of the stored record.
        properties: properties of the stored record.
        store_timestamp: ms.
        delay_levels_ms: durations by level, the first is level 1 (see `parse_delay_levels`).
    """
    if topic == SCHEDULE_TOPIC:
        try:
            level = int(properties.get(DELAY, "0"))
        except ValueError:
            level = 0
        if level > 0:
            return deliver_time(level, store_timestamp, delay_levels_ms)
    tags = properties.get(TAGS)
    return string_hash(tags) if tags else 0


def deliver_time(level: int, store_timestamp: int, delay_levels_ms: Sequence[int]) -> int:
    """Return the due time in ms of a message with delay *level* (from 1) stored at *store_timestamp*."""
    level = min(level, len(delay_levels_ms))
    return store_timestamp + (delay_levels_ms[level - 1] if level > 0 else 1000)


def delay_levels_of(settings: Settings) -> tuple[int, ...]:
    """Return the configured durations in ms; the defaults if the store does not declare ``messageDelayLevel``."""
    declared = "messageDelayLevel" in settings.schema
    return parse_delay_levels(settings.text("messageDelayLevel") if declared else DEFAULT_DELAY_LEVELS)


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Parse ``messageDelayLevel``: numbers with a unit s, m, h or d, separated by spaces; the first is level 1.

    Raises:
        ConfigError: the table is empty, or an entry is not a whole number with a known unit.
    """
    levels = []
    for piece in text.split():
        unit = _UNIT_MS.get(piece[-1].lower())
        if unit is None or not piece[:-1].isdecimal():
            raise ConfigError(
                f"messageDelayLevel: {piece!r} is not a whole number with a unit s, m, h or d, such as 10s"
            )
        levels.append(int(piece[:-1]) * unit)
    if not levels:
        raise ConfigError("messageDelayLevel: the table is empty; give at least one level, such as 1s")
    return tuple(levels)
