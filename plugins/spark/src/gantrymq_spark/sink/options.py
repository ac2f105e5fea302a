"""Options of the sink ``gantrymq``, parsed from text, and the columns that it accepts. A mistake raises one sentence.

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

import attrs
import pyarrow as pa
from pyarrow import types

from gantrymq.client import Credentials
from gantrymq.errors import ConfigError
from gantrymq.plugin import names
from gantrymq.plugin.client import RESERVED as OF_ROCKETMQ
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.option_texts import ACCOUNT, OptionTexts

_DEFAULT_GROUP = "GANTRYMQ_SPARK_SINK"
DEFAULT_MESSAGES = 64
_DEFAULT_BYTES = 256 * 1024
_MAX_BYTES = 4 * 1024 * 1024
_DEFAULT_WAIT_MS = 2 * 60_000
OPTIONS = (
    "namesrv",
    "tls",
    *ACCOUNT,
    "topic",
    "group",
    "batchMessages",
    "batchBytes",
    "maxMessageBytes",
    "idColumn",
    "sinkIds",
    "jobId",
    "keepQueues",
    "brokerWait",
)
_SPARK_OPTIONS = ("checkpointlocation", "queryname")  # options of streams, which Spark also passes to sinks
SINK_ID = "GANTRYMQ_SINK_ID"
SHARDING_KEY = "__SHARDINGKEY"
DELAYS = ("delayLevel", "delayMs", "deliverTime")
TAKEN = ("topic", "body", "keys", "tags", "properties", "flag", "shardingKey", *DELAYS)
RESERVED = OF_ROCKETMQ | {SHARDING_KEY, SINK_ID}


@attrs.frozen
class SinkOptions:
    """All parsed options; sent to executors."""

    namesrv: str
    tls: bool | None = None
    credentials: Credentials | None = None
    topic: str | None = None  # for frames without a topic column, and for rows in which it is null
    group: str = _DEFAULT_GROUP
    batch_messages: int = DEFAULT_MESSAGES  # per request; 1 sends each message separately
    batch_bytes: int = _DEFAULT_BYTES  # bytes of bodies per request
    max_message_bytes: int = _MAX_BYTES  # limit for one body
    id_column: str | None = None
    ids: bool = True
    job_id: str | None = None  # None: a new id for each batch query
    keep_queues: bool = False  # messages of one source queue go to one queue, in order
    wait_ms: int = _DEFAULT_WAIT_MS  # how long to wait for a broker that does not respond


def read_options(given: Mapping[str, str], *, streaming: bool, environ: Mapping[str, str]) -> SinkOptions:
    """Parse the options of one query.

    Args:
        given: option texts; names in any case.
        streaming: whether the query is a stream.
        environ: the driver's environment; NAMESRV_ADDR and the account in it are the defaults of the options.

    Raises:
        ConfigError: an option is unknown or malformed.
    """
    texts = OptionTexts(given, OPTIONS, "the sink gantrymq", ignored=_SPARK_OPTIONS)
    if streaming and "jobId" in texts:
        raise ConfigError("option jobId is for batch queries, a stream's ids contain the query's id; remove it")
    if "idColumn" in texts and texts.flag("sinkIds") is False:
        raise ConfigError("options idColumn and sinkIds=false cannot be set together; remove one of them")
    topic = texts.raw("topic")
    return SinkOptions(
        namesrv=texts.name_servers(environ),
        tls=texts.flag("tls"),
        credentials=texts.credentials(environ),
        topic=None if topic is None else texts.legal("topic", topic, names.check_topic),
        group=texts.legal("group", texts.get("group", _DEFAULT_GROUP), names.check_group),
        batch_messages=texts.count("batchMessages", 10_000) or DEFAULT_MESSAGES,
        batch_bytes=texts.count("batchBytes", _MAX_BYTES) or _DEFAULT_BYTES,
        max_message_bytes=texts.count("maxMessageBytes", 1 << 30) or _MAX_BYTES,
        id_column=texts.text("idColumn"),
        ids=texts.flag("sinkIds", True),
        job_id=texts.text("jobId"),
        keep_queues=texts.flag("keepQueues", False),
        wait_ms=texts.duration_ms("brokerWait", _DEFAULT_WAIT_MS),
    )


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
