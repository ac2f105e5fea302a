"""Rows as messages: the columns that a DataFrame may have, and what each of them becomes.

| column | type | |
|---|---|---|
| `topic` | string | needed, unless the option of that name says it |
| `body` | binary or string | needed; a string as UTF-8 |
| `keys` | string or array of strings | separated by blanks |
| `tags` | string | |
| `properties` | map of strings | the user's; the ones that RocketMQ itself writes are left out, KEYS and TAGS taken |
| `delayLevel` | int | 1 to 18, of messageDelayLevel |
| `delayMs` | int or bigint | deliver so many ms from now |
| `deliverTimestamp` | timestamp or bigint (ms) | deliver then |
| `shardingKey` | string | rows of one key go to one queue, in their order |
| `flag` | int | |

The other columns of a message, which a query that reads from the source has, are passed over. A column of another name
is refused.

Source of the reserved names: apache/rocketmq common/.../message/MessageConst.java.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.model import properties as names
from gantrymq.model.message import Message
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.sink.options import SinkOptions

__all__ = ["RESERVED", "SINK_COLUMNS", "SinkRow", "check_columns", "rows_of", "user_properties"]

SINK_COLUMNS = (
    "topic",
    "body",
    "keys",
    "tags",
    "properties",
    "delayLevel",
    "delayMs",
    "deliverTimestamp",
    "shardingKey",
    "flag",
)
_TYPES = {  # of Spark, by simpleString
    "topic": ("string",),
    "body": ("binary", "string"),
    "keys": ("string", "array<string>"),
    "tags": ("string",),
    "properties": ("map<string,string>",),
    "delayLevel": ("tinyint", "smallint", "int", "bigint"),
    "delayMs": ("int", "bigint"),
    "deliverTimestamp": ("timestamp", "bigint"),
    "shardingKey": ("string",),
    "flag": ("tinyint", "smallint", "int"),
}
RESERVED = frozenset(
    """
    1ST_POP_TIME ARRIVE_TIME BORN_TIMESTAMP BUYER_ID CHECK_IMMUNITY_TIME_IN_SECONDS CLUSTER CONSUME_START_TIME
    CORRECTION_FLAG CORRELATION_ID DELAY DLQ_ORIGIN_MESSAGE_ID DLQ_ORIGIN_TOPIC DUP_INFO EXTEND_UNIQ_INFO INNER_BASE
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET INNER_NUM INSTANCE_ID KEYS MAX_OFFSET MAX_RECONSUME_TIMES MIN_OFFSET
    MQ2_FLAG MSG_REGION MSG_TYPE ORIGIN_MESSAGE_ID PGROUP POP_CK POP_CK_OFFSET PROPERTY_FORWARD_QUEUE_ID
    PUSH_REPLY_TIME REAL_QID REAL_TOPIC RECONSUME_TIME REDIRECT REPLY_TO_CLIENT RETRY_TOPIC TAGS TIMER_DELAY_LEVEL
    TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_DEL_UNIQKEY TIMER_DEQUEUE_MS TIMER_ENQUEUE_MS TIMER_OUT_MS
    TIMER_ROLL_TIMES TRACE_CONTEXT TRACE_ON TRANSACTION_CHECK_TIMES TRANSFER_FLAG TRAN_MSG TRAN_PREPARED_QUEUE_OFFSET
    TTL UNIQ_KEY WAIT __BORNHOST __CRC32# __SHARDINGKEY __STARTDELIVERTIME __transactionId__
    """.split()  # noqa: SIM905 - a list of 60 lines
)
"""Properties that RocketMQ's clients and brokers write; a message that is sent on gets its own."""

SHARDING_KEY = "__SHARDINGKEY"
SINK_ID = "GANTRYMQ_SINK_ID"


class SinkRow(NamedTuple):
    """One row, ready to be sent."""

    message: Message
    lane: str | int | None  # rows of one lane keep their order: a sharding key, or the number of a queue
    alone: bool = False  # must not be part of a batch


def check_columns(columns: Mapping[str, str], options: SinkOptions) -> None:
    """Refuse columns that no message is made of.

    Args:
        columns: name and type of each, the type as Spark's ``simpleString``.
        options: of the query.

    Raises:
        ConfigError: one that is missing, unknown, or of another type.
    """
    if options.topic is None and "topic" not in columns:
        raise ConfigError("the sink gantrymq needs a topic: a column topic, or the option of that name")
    if "body" not in columns:
        raise ConfigError(
            "the sink gantrymq needs a column body (binary or string); rename one with select(... AS body)"
        )
    known = {*SINK_COLUMNS, *COLUMNS, *([options.id_column] if options.id_column else [])}
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise ConfigError(
            f"the sink gantrymq has no column {unknown[0]!r}; there are {', '.join(SINK_COLUMNS)}: select them, and "
            "put the rest into properties with map('name', value)"
        )
    for name, kinds in _TYPES.items():
        if name in columns and columns[name] not in kinds:
            raise ConfigError(f"column {name} of the sink gantrymq is {columns[name]}, it can be {' or '.join(kinds)}")
    if options.id_column and options.id_column not in columns:
        raise ConfigError(f"option idColumn: there is no column {options.id_column!r}; there are {', '.join(columns)}")


def rows_of(batch: pa.RecordBatch, options: SinkOptions, ids: Iterator[str], now_ms: int) -> Iterator[SinkRow]:
    """The rows of *batch* as messages, in their order.

    Args:
        batch: columns as `check_columns` has them.
        options: of the query.
        ids: the id of each row, for rows whose id no column says.
        now_ms: wall time, which delays count from.

    Raises:
        MessageIllegal: a row that no message can be made of; says which.
    """
    found = {name: batch[name].to_pylist() for name in SINK_COLUMNS if name in batch.schema.names}
    own_ids = batch[options.id_column].to_pylist() if options.id_column else None
    for number in range(batch.num_rows):
        row = {name: values[number] for name, values in found.items()}
        row_id = next(ids)
        if own_ids is not None:
            if own_ids[number] is None:
                raise MessageIllegal(f"row {row_id}: column {options.id_column} is null, and option idColumn names it")
            row_id = str(own_ids[number])
        yield _row(row, options, row_id, now_ms)


def user_properties(given: Sequence[tuple[str, str]] | Mapping[str, str] | None) -> dict[str, str]:
    """Properties that a user gave a message, without those that RocketMQ writes."""
    return {name: value for name, value in dict(given or {}).items() if name not in RESERVED and value}


def _row(row: Mapping[str, Any], options: SinkOptions, row_id: str, now_ms: int) -> SinkRow:
    topic, body = options.topic or row.get("topic"), row["body"]
    if not topic or body is None:
        missing = "topic" if not topic else "body"
        raise MessageIllegal(f"row {row_id}: its {missing} is null; filter such rows out, or give them one")
    given = dict(row.get("properties") or {})
    keys = row["keys"] if "keys" in row else given.get(names.KEYS)
    tags = row["tags"] if "tags" in row else given.get(names.TAGS)
    properties = user_properties(given)
    key = row.get("shardingKey")
    if key is not None:
        properties[SHARDING_KEY] = key
    delay = _delay(row, row_id, now_ms)
    if options.sink_ids:
        properties[SINK_ID] = row_id
    message = Message(
        topic,
        body.encode() if isinstance(body, str) else body,
        tags=tags or None,
        keys=tuple(keys) if isinstance(keys, list) else keys or None,
        flag=row.get("flag") or 0,
        properties={**properties, **delay},
    )
    return SinkRow(message, key, bool(delay))


def _delay(row: Mapping[str, Any], row_id: str, now_ms: int) -> dict[str, str]:
    given = {name: row[name] for name in ("delayLevel", "delayMs", "deliverTimestamp") if row.get(name) is not None}
    if not given:
        return {}
    if len(given) > 1:
        raise MessageIllegal(f"row {row_id} has {' and '.join(given)}; a message is delayed in one way")
    ((name, value),) = given.items()
    if isinstance(value, datetime):
        value = round(value.timestamp() * 1000)
    if value < 0:
        raise MessageIllegal(f"row {row_id}: {name} is {value}, it can be 0 and more")
    if name == "delayLevel":
        return {names.DELAY: str(value)} if value else {}
    return {names.TIMER_DELIVER_MS: str(value if name == "deliverTimestamp" else now_ms + value)}
