"""Messages of the past sent once more: topic, store or archive to a topic, at the pace of old, faster, or at once.

Messages of one source queue go to one queue of the target, in their order. Each gets body, tags, keys, flag and the
user's properties of the old one, and as ``GANTRYMQ_SINK_ID`` the place it comes from: a second replay gives the same
ids, so that consumers can tell what they had (`gantrymq_spark.sink.sink_ids`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from gantrymq.client import Producer
from gantrymq.errors import ConfigError
from gantrymq.model import properties as names
from gantrymq.model.message import Message
from gantrymq.world.real import real_world
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_spark.jobs.pacing import Pace, due_rows
from gantrymq_spark.sink.options import SinkOptions
from gantrymq_spark.sink.rows import SINK_ID, SinkRow, user_properties
from gantrymq_spark.sink.sending import run_sending, send_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COLUMNS_SENT", "ReplayReport", "replay", "summary"]

COLUMNS_SENT = (
    *("topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp", "storeSize"),
    *("flag", "body", "properties"),
)
_SENT = "sent bigint"


@attrs.frozen
class ReplayReport:
    """What was sent, or would be."""

    messages: int
    bytes: int  # of stored records
    first_ms: int | None  # store times; None where there is no message
    last_ms: int | None
    queues: int  # source queues
    takes_s: float  # by the pace; 0 for as fast as it goes
    dry_run: bool

    def to_json(self) -> dict[str, Any]:
        """As a document."""
        return attrs.asdict(self)


def replay(
    spark: SparkSession,
    given: Input,
    target: SinkOptions,
    *,
    speed: float | None = None,
    dry_run: bool = False,
) -> ReplayReport:
    """Send the messages of *given* to ``target.topic``.

    Args:
        spark: a session in which the sources are registered.
        given: which.
        target: name servers, topic, batch size.
        speed: 1 keeps the distances between store times, 10 makes them a tenth; None sends as fast as it goes.
        dry_run: send nothing.

    Raises:
        ConfigError: a mistake; also a target that is read from.
        ClientError: a broker refuses, or none answers; messages before that are sent.
    """
    if target.topic is None:
        raise ConfigError("a replay needs a topic to send to; give --to-topic")
    if given.live and target.topic in given.topics and given.namesrv == target.namesrv:
        raise ConfigError(f"{target.topic} is read and would be sent to, without an end; choose another topic")
    count, size, first_ms, last_ms, queues = summary(messages(spark, given, COLUMNS_SENT[:7])).collect()[0]
    takes_s = 0.0 if speed is None or not count else (last_ms - first_ms) / 1000 / speed
    if count and not dry_run:
        rows = messages(spark, given, COLUMNS_SENT)
        side_by_side = max(1, min(queues, spark.sparkContext.defaultParallelism))
        rows = rows.repartition(side_by_side, "topic", "brokerName", "queueId")
        rows = rows.sortWithinPartitions("storeTimestamp", "queueOffset", "commitLogOffset")
        # With a pace, all tasks run at once and begin together, when each has its first message at hand.
        paced = rows.mapInArrow(partial(_sent, target, first_ms, speed), _SENT, barrier=speed is not None)
        count = sum(row.sent for row in paced.collect())
    return ReplayReport(count, size or 0, first_ms, last_ms, queues, takes_s, dry_run)


def summary(rows: DataFrame) -> DataFrame:
    """One row: messages, bytes of records, first and last store time in ms, queues."""
    from pyspark.sql import functions as sql

    return rows.agg(
        sql.count("*"),
        sql.sum("storeSize"),
        sql.unix_millis(sql.min("storeTimestamp")),
        sql.unix_millis(sql.max("storeTimestamp")),
        sql.countDistinct("topic", sql.coalesce("brokerName", sql.lit("")), "queueId"),
    )


def _sent(
    target: SinkOptions, first_ms: int, speed: float | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: send what is due, until there is no more."""
    world, rows = real_world(), _rows(target, batches)
    first = list(islice(rows, 1))

    async def send() -> int:
        assert target.topic is not None
        sent = 0
        async with Producer(target.group, target.namesrv, world=world, tls=target.tls) as producer:
            await producer.queues(target.topic)
            pace = Pace(first_ms, world.clock.now_ms() if speed is None else _together(world.clock.now_ms()), speed)
            async for bunch in due_rows(chain(first, rows), pace, world.clock):
                sent += await send_rows(
                    producer, bunch, batch_size=target.batch_size, timeout_s=target.timeout_ms / 1000
                )
        return sent

    yield pa.RecordBatch.from_pydict({"sent": pa.array([run_sending(send())], pa.int64())})


def _together(now_ms: int) -> int:
    """Wait until every task is ready; the time at which the last one was."""
    from pyspark import BarrierTaskContext

    return max(map(int, BarrierTaskContext.get().allGather(str(now_ms))))


def _rows(target: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, SinkRow]]:
    assert target.topic is not None
    for batch in batches:
        for row in batch.to_pylist():
            given = dict(row["properties"] or {})
            place = f"{row['topic']}.{row['brokerName'] or ''}.{row['queueId']}.{row['queueOffset']}"
            message = Message(
                target.topic,
                row["body"],
                tags=given.get(names.TAGS),
                keys=given.get(names.KEYS),
                flag=row["flag"],
                properties={**user_properties(given), **({SINK_ID: place} if target.sink_ids else {})},
            )
            stored = row["storeTimestamp"]
            yield round(stored.timestamp() * 1000) if stored is not None else 0, SinkRow(message, row["queueId"])
