"""Positions in queues, times and durations as options give them, for starts and for ends of batches.

earliest, latest, -10 minutes                             for all queues
{"TopicTest":{"broker-a":{"0":23,"1":-1}}}                by queue: offsets, -1 latest, -2 earliest
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.model import MessageQueue

_UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_DURATION = re.compile(r"([0-9]{1,12})\s*([a-z]+)", re.ASCII)
_LAST_MS = 253_402_300_799_999  # end of year 9999
_LATEST_NUMBER, _EARLIEST_NUMBER = -1, -2


def duration_ms(option: str, text: str) -> int:
    """Parse ``15m``, ``10 minutes``, ``500 ms``; return milliseconds.

    Raises:
        ConfigError: *text* is not a duration.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise ConfigError(f"option {option}: {text!r} is not a duration; write 30s, 15m, 2 hours or 1 day")
    return int(found[1]) * _UNITS_MS[found[2]]


def relative_ms(option: str, text: str) -> int | None:
    """Parse ``-10 minutes``; return milliseconds before now, None for text of another form.

    Raises:
        ConfigError: a minus and a digit without a valid duration.
    """
    stripped = text.strip()
    if not re.match(r"-\s*[0-9]+\s*[A-Za-z]", stripped):
        return None
    return duration_ms(option, stripped[1:])


def time_ms(option: str, text: str) -> int:
    """Parse milliseconds since 1970, or ``2026-01-31T12:00:00Z``; return milliseconds since 1970.

    Raises:
        ConfigError: *text* is not a time, has no zone, or is outside 1970 to 9999.
    """
    stripped = text.strip()
    if re.fullmatch(r"[0-9]{1,15}", stripped, re.ASCII):
        found = int(stripped)
    else:
        try:
            moment = datetime.fromisoformat(stripped)
        except ValueError:
            raise ConfigError(
                f"option {option}: {text!r} is not a time; write milliseconds since 1970, 2026-01-31T12:00:00Z or "
                "-10 minutes"
            ) from None
        if moment.tzinfo is None:
            raise ConfigError(f"option {option}: {text!r} has no time zone; write {stripped}Z for UTC")
        found = round(moment.timestamp() * 1000)
    if not 0 <= found <= _LAST_MS:
        raise ConfigError(f"option {option}: {text!r} is outside the years 1970 to 9999")
    return found


class OffsetKind(enum.Enum):
    """The meaning of a position's number."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"  # queue offset
    TIME = "time"  # ms since 1970: the first message stored at or after it
    AGO = "ago"  # ms before now


@attrs.frozen
class StartingOffset:
    """One position in a queue."""

    kind: OffsetKind
    number: int = 0


EARLIEST, LATEST = StartingOffset(OffsetKind.EARLIEST), StartingOffset(OffsetKind.LATEST)


@attrs.frozen
class StartingOffsets:
    """One position for all queues, or positions by queue."""

    option: str  # name of the option, for messages
    everywhere: StartingOffset | None = None
    by_queue: Mapping[MessageQueue, StartingOffset] = attrs.Factory(dict)

    def of(self, queue: MessageQueue) -> StartingOffset:
        """Return the position in *queue*.

        Raises:
            ConfigError: positions are given by queue and this queue is not named.
        """
        found = self.everywhere or self.by_queue.get(queue)
        if found is None:
            raise ConfigError(
                f"option {self.option} names no offset for {queue.topic}, {queue.broker_name}, queue {queue.queue_id}; "
                "name every selected queue, with -2 for earliest"
            )
        return found


def read_offsets(option: str, text: str) -> StartingOffsets:
    """Parse an option with offsets. Raises ConfigError."""
    word = text.strip().lower()
    plain = {"earliest": EARLIEST, "-2": EARLIEST, "latest": LATEST, "-1": LATEST}.get(word)
    if plain is not None:
        return StartingOffsets(option, plain)
    ago = relative_ms(option, text)
    if ago is not None:
        return StartingOffsets(option, StartingOffset(OffsetKind.AGO, ago))
    if not word.startswith("{"):
        raise ConfigError(
            f"option {option}: {text!r} is not an offset; write earliest, latest, -10 minutes or "
            '{"TopicTest":{"broker-a":{"0":23,"1":-1}}}'
        )
    found = {}
    for queue, number in queue_tree(option, text).items():
        if type(number) is not int or number < _EARLIEST_NUMBER:
            raise ConfigError(
                f"option {option}: {json.dumps(number)} is not an offset of {queue.topic}, {queue.broker_name}, queue "
                f"{queue.queue_id}; write a number from 0, -1 for latest or -2 for earliest"
            )
        named = {_LATEST_NUMBER: LATEST, _EARLIEST_NUMBER: EARLIEST}
        found[queue] = named.get(number) or StartingOffset(OffsetKind.OFFSET, number)
    return StartingOffsets(option, by_queue=found)


def read_time(option: str, text: str) -> StartingOffsets:
    """Parse an option with one time for all queues. Raises ConfigError."""
    ago = relative_ms(option, text)
    if ago is not None:
        return StartingOffsets(option, StartingOffset(OffsetKind.AGO, ago))
    return StartingOffsets(option, StartingOffset(OffsetKind.TIME, time_ms(option, text)))


def read_times(option: str, text: str) -> StartingOffsets:
    """Parse an option with times by queue, in ms. Raises ConfigError."""
    found = {}
    for queue, number in queue_tree(option, text).items():
        if type(number) is not int or number < 0:
            raise ConfigError(
                f"option {option}: {json.dumps(number)} is not a time of {queue.topic}, {queue.broker_name}, queue "
                f"{queue.queue_id}; write milliseconds since 1970"
            )
        found[queue] = StartingOffset(OffsetKind.TIME, number)
    return StartingOffsets(option, by_queue=found)


def queue_tree(option: str, text: str) -> dict[MessageQueue, Any]:
    """Parse ``{"topic":{"broker":{"0":VALUE}}}``; return values by queue, sorted; None for ids in a list (``[0,1]``).

    Raises:
        ConfigError: the text is not such JSON, or empty.
    """
    shape = 'write {"TopicTest":{"broker-a":{"0":...}}}'
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"option {option} is not JSON ({problem}); {shape}") from None
    found: dict[MessageQueue, Any] = {}
    for topic, brokers in _members(option, data, shape):
        for broker, queues in _members(option, brokers, shape):
            if isinstance(queues, list):
                queues = dict.fromkeys(map(str, queues))
            for queue_id, value in _members(option, queues, shape):
                if not re.fullmatch(r"[0-9]{1,9}", queue_id, re.ASCII):
                    raise ConfigError(f"option {option}: {queue_id!r} of {topic}, {broker} is not a queue id; {shape}")
                found[MessageQueue(topic, broker, int(queue_id))] = value
    if not found:
        raise ConfigError(f"option {option} names no queue; {shape}")
    return dict(sorted(found.items()))


def _members(option: str, data: Any, shape: str) -> list[tuple[str, Any]]:
    if not isinstance(data, dict):
        raise ConfigError(f"option {option} has {json.dumps(data)[:40]} instead of an object; {shape}")
    return list(cast(dict[str, Any], data).items())
