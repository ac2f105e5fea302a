"""The columns of a message, common to all sources: names, order, and types in Arrow and in Spark.

The names are Java's (``MessageExt``). Times are timestamps, as in Spark's Kafka source, so that windows, watermarks and
dates work on them; a time outside the years 1 to 9999, which clients can set, is null.

- ``topic``, ``brokerName``, ``queueId``, ``queueOffset`` (entries): the position in the queue.
- ``commitLogOffset`` (bytes), ``storeSize`` (bytes of the record): the position in the log.
- ``body``: decompressed; the bit 0x1 of ``sysFlag`` is then cleared, as in Java consumers. The bit stays set if the
  option storedBodies leaves bodies as stored, or if a body cannot be decompressed.
- ``bodyProblem``: why the body cannot be decompressed (a package is not installed, bytes are damaged); ``body`` is null
  then. Null for all other messages.
- ``properties``: a map; of equal names, the last counts. ``keys`` (separated by blanks), ``tags`` and ``uniqueKey`` are
  its KEYS, TAGS and UNIQ_KEY, null if missing.
- ``msgId``: the offset id, made of ``storeHost`` and ``commitLogOffset``.

Source: apache/rocketmq common/.../message/MessageExt.java, MessageDecoder.java (decode, createMessageId).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gantrymq.errors import InvalidParameter
from gantrymq.plugin.properties import KEYS, TAGS, UNIQ_KEY

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_TIME = pa.timestamp("us", tz="UTC")

COLUMNS: dict[str, Any] = {  # name: Arrow type
    "topic": pa.string(),
    "brokerName": pa.string(),
    "queueId": pa.int32(),
    "queueOffset": pa.int64(),
    "commitLogOffset": pa.int64(),
    "storeSize": pa.int32(),
    "flag": pa.int32(),
    "sysFlag": pa.int32(),
    "body": pa.binary(),
    "bodyCRC": pa.int32(),
    "properties": pa.map_(pa.string(), pa.string()),
    "keys": pa.string(),
    "tags": pa.string(),
    "uniqueKey": pa.string(),
    "msgId": pa.string(),
    "bornTimestamp": _TIME,
    "bornHost": pa.string(),
    "storeTimestamp": _TIME,
    "storeHost": pa.string(),
    "reconsumeTimes": pa.int32(),
    "preparedTransactionOffset": pa.int64(),
    "bodyProblem": pa.string(),
}
NUMBERS = {  # columns copied from the head of a record, with their names in `HEAD_FIELDS`
    "queueId": "queue_id",
    "commitLogOffset": "log_offset",
    "storeSize": "total_size",
    "flag": "flag",
    "bodyCRC": "body_crc",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_offset",
}
PROPERTIES = {"keys": KEYS, "tags": TAGS, "uniqueKey": UNIQ_KEY}
TIMES = {"bornTimestamp": "born_timestamp", "storeTimestamp": "store_timestamp"}
HOSTS = {"bornHost": "born_host", "storeHost": "store_host"}


def selected(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the columns named by an option, in the option's order; all of them for None.

    Args:
        names: names, or one text with commas between them.

    Raises:
        InvalidParameter: a name is not a column or is repeated, or there is no name.
    """
    if names is None:
        return tuple(COLUMNS)
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in COLUMNS]
    if unknown:
        raise InvalidParameter(
            f"columns: {unknown[0]!r} is not a column of a message; the columns are {', '.join(COLUMNS)}"
        )
    if not wanted:
        raise InvalidParameter(f"columns: no column is named; the columns are {', '.join(COLUMNS)}")
    twice = [name for name in wanted if wanted.count(name) > 1]
    if twice:
        raise InvalidParameter(f"columns: {twice[0]!r} is named {wanted.count(twice[0])} times; name it once")
    return tuple(wanted)


def schema(names: Sequence[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of the columns *names* in their order, of all columns for None.

    Raises:
        InvalidParameter: as `selected`.
    """
    return pa.schema([(name, COLUMNS[name]) for name in selected(names)])


def spark_schema(names: Sequence[str] | None = None) -> StructType:
    """Return the same schema for Spark, all columns nullable. Imports pyspark.

    Raises:
        InvalidParameter: as `selected`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema(names))
