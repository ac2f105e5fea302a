"""The columns that the sink accepts, with their types.

- ``body`` (binary or string), ``topic``, ``keys`` (separated by blanks, or an array), ``tags``, ``flag``.
- ``properties``: a map. Properties reserved for RocketMQ are dropped (`RESERVED`), so that rows of a source can be
  forwarded; its KEYS, TAGS and __SHARDINGKEY apply if their column is missing or null.
- ``shardingKey``: messages with the same key go to one queue, in the order of the rows of a task.
- ``delayLevel`` (from 1; 0 for none), ``delayMs``, ``deliverTime`` (timestamp, or ms since 1970): at most one of them.
  A ``timestamp_ntz`` is a time in the session's time zone.
- ``bodyProblem``: a row in which it is not null is rejected.
- the other columns of `gantrymq_spark.columns`, which brokers set, are ignored, except ``brokerName`` and ``queueId``
  with the option keepQueues.

Source: apache/rocketmq common/.../message/Message.java.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types

from gantrymq.errors import ConfigError
from gantrymq.plugin.client import RESERVED as OF_ROCKETMQ
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.sink.options import SinkOptions

SINK_ID = "GANTRYMQ_SINK_ID"
SHARDING_KEY = "__SHARDINGKEY"
DELAYS = ("delayLevel", "delayMs", "deliverTime")
TAKEN = ("topic", "body", "keys", "tags", "properties", "flag", "shardingKey", *DELAYS)

RESERVED = OF_ROCKETMQ | {SHARDING_KEY, SINK_ID}


def check_columns(schema: pa.Schema, options: SinkOptions) -> None:
    """Reject a frame that cannot be sent.

    Args:
        schema: of the frame, in Arrow's types.
        options: may name a topic, and a column with ids.

    Raises:
        ConfigError: a column is unknown, missing or of another type.
    """
    known = {**_KINDS, **dict.fromkeys(COLUMNS.keys() - _KINDS.keys(), ""), **_ids(options)}
    for field in schema:
        if field.name not in known:
            raise ConfigError(
                f"column {field.name}: the sink gantrymq takes {', '.join(TAKEN)}; drop it, or put it into properties "
                f"by map('{field.name}', cast({field.name} as string))"
            )
        kind = known[field.name]
        if kind and not any(_KIND[each](field.type) for each in kind.split(" or ")):
            raise ConfigError(f"column {field.name} has type {field.type}, it must be {kind}; cast it before")
        if schema.names.count(field.name) > 1:
            raise ConfigError(f"column {field.name} occurs {schema.names.count(field.name)} times; drop one")
    if "body" not in schema.names:
        raise ConfigError("there is no column body; add one, such as select(to_json(struct('*')).alias('body'))")
    if "topic" not in schema.names and options.topic is None:
        raise ConfigError('no topic is named; set option("topic", NAME) or add a column topic')
    if options.id_column is not None and options.id_column not in schema.names:
        raise ConfigError(f"option idColumn: there is no column {options.id_column}")
    if options.keep_queues and not {"brokerName", "queueId", "topic"} <= set(schema.names):
        raise ConfigError("option keepQueues needs the columns topic, brokerName and queueId of a source")
    if options.keep_queues and "shardingKey" in schema.names:
        raise ConfigError("option keepQueues and a column shardingKey both determine the queue; remove one")


def _ids(options: SinkOptions) -> Mapping[str, str]:
    return {} if options.id_column is None or options.id_column in _KINDS else {options.id_column: "string or integer"}


def _is_text_map(kind: pa.DataType) -> bool:
    return bool(types.is_map(kind) and _is_text(kind.key_type) and _is_text(kind.item_type))


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


_KIND = {
    "string": _is_text,
    "binary": lambda kind: types.is_binary(kind) or types.is_large_binary(kind),
    "integer": types.is_integer,
    "timestamp": types.is_timestamp,
    "map of strings": _is_text_map,
    "array of strings": lambda kind: types.is_list(kind) and _is_text(kind.value_type),
}
_KINDS = {
    "topic": "string",
    "body": "binary or string",
    "keys": "string or array of strings",
    "tags": "string",
    "properties": "map of strings",
    "flag": "integer",
    "shardingKey": "string",
    "delayLevel": "integer",
    "delayMs": "integer",
    "deliverTime": "timestamp or integer",
    "brokerName": "string",
    "queueId": "integer",
}
