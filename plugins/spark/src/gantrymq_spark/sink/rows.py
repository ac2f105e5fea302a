"""Converts rows of Arrow batches to messages, each with its id and its order.

An id names the row, task and micro-batch of a message, so a micro-batch that is sent again has the same ids as long as
its tasks have the same rows in the same order. A user's own ids do not depend on that.

Local times (``timestamp_ntz``) become timestamps by the rules of Spark's cast to ``timestamp``. A local time skipped
by a clock change is moved forward by the gap; of a repeated local time the first is taken.

Source: apache/spark sql/api/.../util/SparkDateTimeUtils.scala (getZoneId), java.time.ZoneId.of, LocalDateTime.atZone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from gantrymq.client import Message
from gantrymq.errors import ConfigError, InvalidParameter, MessageIllegal, NoPermission
from gantrymq.plugin import properties as names
from gantrymq.plugin.client import check_message
from gantrymq_spark.sink.options import DELAYS, RESERVED, SHARDING_KEY, SINK_ID, SinkOptions

SESSION_ZONE = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_DELAY_PROPERTIES = dict(zip(DELAYS, (names.DELAY, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS), strict=True))
_MAX_LEVEL = 1000  # brokers use their highest level for greater numbers


def session_zone(text: str | None) -> tzinfo:
    """Return the time zone of a session's setting.

    Args:
        text: a zone (``Asia/Shanghai``) or an offset (``+08:00``, ``GMT+8``); None if the setting was never set.

    Raises:
        ConfigError: it is not set, or this machine does not know the zone.
    """
    remedy = "cast the column to timestamp"
    if text is None:
        raise ConfigError(
            f"deliverTime is a timestamp_ntz, which has no time zone, and {SESSION_ZONE} is not set; "
            f"set it, or {remedy}"
        )
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    offset = _OFFSET.fullmatch(text)
    try:
        if offset is None:
            return ZoneInfo(text)
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        size = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-size if offset[1] == "-" else size)
    except (ValueError, OSError, LookupError):
        raise ConfigError(
            f"deliverTime is a timestamp_ntz, which has no time zone, and {SESSION_ZONE} is {text!r}, which this "
            f"machine does not know; {remedy}"
        ) from None


def epoch_ms(local_ms: int, zone: tzinfo) -> int:
    """Convert a local time to milliseconds since 1970.

    Args:
        local_ms: ms from 1970-01-01T00:00 to it, without a zone.
        zone: time zone of the local time.

    Raises:
        ConfigError: the time is outside the years 1 to 9999.
    """
    try:
        local = (_EPOCH + timedelta(milliseconds=local_ms)).replace(tzinfo=zone)
        return (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except OverflowError:
        raise ConfigError("deliverTime is outside the years 1 to 9999") from None


class Source(NamedTuple):
    """The queue that a message was read from."""

    topic: str
    broker_name: str
    queue_id: int


class Outbound(NamedTuple):
    """One message to send."""

    message: Message
    order: str | Source | None  # messages with the same order go to one queue, in sequence
    alone: bool  # not batched with others


class RowConverter:
    """Converts the rows of one task, in order."""

    def __init__(self, options: SinkOptions, task: str, prefix: str, zone: str | None = None) -> None:
        """Start with row 0.

        Args:
            options: of the query.
            task: name of the task for messages, such as ``partition 3``.
            prefix: of the ids; followed by ``/`` and the number of the row.
            zone: the session's time zone, for times without one; None if it was never set.
        """
        self._options = options
        self._zone = zone
        self._task = task
        self._prefix = prefix
        self._next = 0

    def messages(self, batch: pa.RecordBatch) -> Iterator[Outbound]:
        """Yield the messages of the rows of *batch*.

        Raises:
            ConfigError: a row cannot be converted; names the row. Also raised for a column of times without a zone if
                the session's zone is not known.
        """
        wanted = {*_USED, self._options.id_column}
        columns = {
            name: _values(batch.column(index), self._zone)
            for index, name in enumerate(batch.schema.names)
            if name in wanted
        }
        used = [(name, columns[name]) for name in _USED if name in columns]
        ids = columns.get(self._options.id_column or "")
        for index in range(batch.num_rows):
            row = {name: values[index] for name, values in used}
            yield self.message(row, None if ids is None else ids[index])

    def message(self, row: dict[str, Any], given_id: object = None) -> Outbound:
        """Return the message of one row.

        Args:
            row: values by column; properties as pairs.
            given_id: value of the column named by option idColumn.

        Raises:
            ConfigError: the row cannot be converted; names the row.
        """
        try:
            found = self._outbound(row, given_id)
        except (ConfigError, MessageIllegal, InvalidParameter, NoPermission) as problem:
            raise ConfigError(f"row {self._next} of {self._task}, counted from 0: {problem}") from None
        self._next += 1
        return found

    def _outbound(self, row: dict[str, Any], given_id: object) -> Outbound:
        topic, body = row.get("topic"), row.get("body")
        source_topic = topic
        if self._options.topic is not None and (topic is None or self._options.keep_queues):
            topic = self._options.topic
        if topic is None:
            raise ConfigError("topic is null; fill it, or set the option topic for such rows")
        if row.get("bodyProblem") is not None:
            raise ConfigError(f"the body could not be read: {row['bodyProblem']}; drop rows with a bodyProblem")
        if body is None:
            raise ConfigError("body is null; drop such rows, or fill it")
        given: dict[str, str] = {name: text for name, text in row.get("properties") or () if text is not None}
        properties = {name: text for name, text in given.items() if name not in RESERVED}
        keys, tags = row.get("keys"), row.get("tags")
        if isinstance(keys, list):
            keys = " ".join(filter(None, keys))
        sharding_key = row.get("shardingKey") or given.get(SHARDING_KEY)
        if sharding_key:
            properties[SHARDING_KEY] = sharding_key
        self._put_id(properties, given_id)
        system: dict[str, str] = {}
        delayed = _put_delay(system, row)
        message = Message(
            topic,
            body.encode() if isinstance(body, str) else body,
            tags=tags or given.get(names.TAGS),
            keys=keys or given.get(names.KEYS),
            flag=row.get("flag") or 0,
            properties=properties,
            system_properties=system,
        )
        check_message(message, self._options.max_message_bytes)
        order: str | Source | None = sharding_key or None
        if self._options.keep_queues:
            if source_topic is None or row.get("brokerName") is None or row.get("queueId") is None:
                raise ConfigError("topic, brokerName or queueId is null; the option keepQueues needs all three")
            order = Source(source_topic, row["brokerName"], row["queueId"])
        return Outbound(message, order, delayed or topic.startswith("%RETRY%"))

    def _put_id(self, properties: dict[str, str], given_id: object) -> None:
        if self._options.id_column is not None:
            if given_id is None or given_id == "":
                raise ConfigError(f"{self._options.id_column} is null or empty; the option idColumn needs an id")
            properties[SINK_ID] = str(given_id)
        elif self._options.ids:
            properties[SINK_ID] = f"{self._prefix}/{self._next}"


_USED = (
    "topic",
    "body",
    "bodyProblem",
    "keys",
    "tags",
    "properties",
    "flag",
    "shardingKey",
    *DELAYS,
    "brokerName",
    "queueId",
)


def _values(column: pa.Array, zone: str | None) -> list[Any]:
    """Return Python values; times as ms since 1970, those without a zone interpreted in *zone*."""
    if pa.types.is_timestamp(column.type):
        per_ms = {"s": 1000, "ms": 1, "us": -1000, "ns": -1_000_000}[column.type.unit]
        counts: list[int | None] = column.cast(pa.int64()).to_pylist()
        times = [None if each is None else each * per_ms if per_ms > 0 else each // -per_ms for each in counts]
        if column.type.tz is None:
            where = session_zone(zone)
            times = [None if each is None else epoch_ms(each, where) for each in times]
        return times
    found: list[Any] = column.to_pylist()
    return found


def _put_delay(properties: dict[str, str], row: dict[str, Any]) -> bool:
    """Set the delay property of a row; return whether it has a delay."""
    given = {name: row[name] for name in DELAYS if row.get(name) is not None and row.get(name) != 0}
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are both set; a message has one delay")
    for name, value in given.items():
        if value < 0 or (name == "delayLevel" and value > _MAX_LEVEL):
            levels = "a level from 1, 0 or null for none" if name == "delayLevel" else "a number of ms from 1"
            raise ConfigError(f"{name} is {value}, it must be {levels}")
        properties[_DELAY_PROPERTIES[name]] = str(value)
    return bool(given)
