"""``replay``: sends messages of topics, a store or an archive to a topic again.

Messages of one queue go to one queue, in order: the queue with the same broker and number if the topic has it, else one
with that number, else one by hash. Each message has the id ``topic/broker/queue/offset`` of its origin, so repeated
messages, also of several runs, can be recognized (`gantrymq_spark.sink.dedup`).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from gantrymq.client import Client
from gantrymq.plugin.model import MessageQueue
from gantrymq.plugin.real_world import real_world
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_spark.jobs.replay_send import Pace, Sent, send_paced
from gantrymq_spark.sink.options import SinkOptions, read_options
from gantrymq_spark.sink.rows import RowConverter, Source
from gantrymq_spark.sink.sending import Sender, choose_queue

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_QUEUE = ("topic", "brokerName", "queueId")
_COLUMNS = (*_QUEUE, "queueOffset", "commitLogOffset", "flag", "body", "bodyProblem", "properties", "storeTimestamp")


@attrs.frozen
class ReplayPlan:
    """The result of a dry run."""

    messages: int
    first_ms: int | None  # store times
    last_ms: int | None
    body_bytes: int
    lasts_s: float | None  # at the given speed; None for max
    queues: tuple[tuple[MessageQueue, int], ...]  # target queues and their numbers of messages

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON members."""
        queues = [{"brokerName": q.broker_name, "queueId": q.queue_id, "messages": n} for q, n in self.queues]
        return {**attrs.asdict(self, recurse=False), "queues": queues}


def rows_to_replay(spark: SparkSession, given: Input) -> DataFrame:
    """Return the messages as rows for the sink, with their ids in ``sinkId``.

    Raises as `messages`.
    """
    from pyspark.sql import functions as sql

    rows = messages(spark, given, _COLUMNS).withColumn("brokerName", sql.coalesce("brokerName", sql.lit("")))
    return rows.withColumn("sinkId", sql.concat_ws("/", *_QUEUE, "queueOffset"))


def plan_replay(rows: DataFrame, topic: str, namesrv: str | None, speed: float | None) -> ReplayPlan:
    """Return what a replay of *rows* would do, without sending.

    Args:
        rows: of `rows_to_replay`.
        topic: the target topic.
        namesrv: of its cluster; None for $NAMESRV_ADDR.
        speed: factor of the original speed, None for as fast as possible.

    Raises:
        ConfigError, ClientError: invalid options, no such topic, or no response.
    """
    options = _options(topic, namesrv)
    queues = asyncio.run(_queues(options))
    found = rows.groupBy(*_QUEUE).agg(*(each.alias(name) for name, each in _sums().items())).collect()
    targets: Counter[MessageQueue] = Counter()
    for row in found:
        targets[choose_queue(Source(row.topic, row.brokerName, row.queueId), queues)] += row.messages
    first = min((row.first_ms for row in found if row.first_ms is not None), default=None)
    last = max((row.last_ms for row in found if row.last_ms is not None), default=None)
    lasts = None if speed is None else 0.0 if first is None else (last - first) / 1000 / speed
    size = sum(row.body_bytes or 0 for row in found)
    return ReplayPlan(sum(row.messages for row in found), first, last, size, lasts, tuple(sorted(targets.items())))


def replay(
    rows: DataFrame,
    topic: str,
    namesrv: str | None,
    speed: float | None,
    sent: Sent | None = None,
    tell: Callable[[Sent], object] = lambda sent: None,
) -> Sent:
    """Send *rows*: at a speed, from this process in store order; as fast as possible, by Spark's tasks.

    Args:
        rows, topic, namesrv, speed: as `plan_replay`.
        sent: updated while messages are sent at a speed, so it is valid if this raises.
        tell: called with it after each update.

    Raises:
        ConfigError, ClientError: invalid options, no such topic, or no response.
    """
    sent = sent or Sent()
    options = _options(topic, namesrv)
    asyncio.run(_queues(options))  # fails before Spark starts if the topic does not exist
    if speed is None:
        return _by_tasks(rows, options, sent)
    from pyspark.sql import functions as sql

    timed = rows.withColumn("storedMs", sql.unix_millis("storeTimestamp")).drop("storeTimestamp")
    in_order = timed.orderBy("storedMs", "commitLogOffset", *_QUEUE, "queueOffset")
    asyncio.run(_paced(_dictionaries(in_order), options, Pace(speed), sent, tell))
    return sent


def _by_tasks(rows: DataFrame, options: SinkOptions, sent: Sent) -> Sent:
    from pyspark.sql import Observation

    seen = Observation()
    counted = rows.observe(seen, *(each.alias(name) for name, each in _sums().items()))
    in_order = counted.repartition(*_QUEUE).sortWithinPartitions(*_QUEUE, "queueOffset")
    texts = {"topic": options.topic, "namesrv": options.namesrv, "keepQueues": "true", "idColumn": "sinkId"}
    in_order.write.format("gantrymq").options(**texts).mode("append").save()
    found = seen.get
    sent.messages, sent.body_bytes = found["messages"], found["body_bytes"] or 0
    sent.first_ms, sent.last_ms = found["first_ms"], found["last_ms"]
    return sent


def _sums() -> dict[str, Column]:
    from pyspark.sql import functions as sql

    return {
        "messages": sql.count(sql.lit(1)),
        "first_ms": sql.min(sql.unix_millis("storeTimestamp")),
        "last_ms": sql.max(sql.unix_millis("storeTimestamp")),
        "body_bytes": sql.sum(sql.octet_length("body")),
    }


def _dictionaries(frame: DataFrame) -> Iterator[Mapping[str, Any]]:
    for row in frame.toLocalIterator(prefetchPartitions=True):
        found = row.asDict()
        found["body"] = None if row.body is None else bytes(row.body)
        found["properties"] = list((row.properties or {}).items())
        yield found


def _options(topic: str, namesrv: str | None) -> SinkOptions:
    texts = {"topic": topic, "keepQueues": "true", "idColumn": "sinkId"}
    if namesrv is not None:
        texts["namesrv"] = namesrv
    return read_options(texts, streaming=False, environ=os.environ)


async def _queues(options: SinkOptions) -> tuple[MessageQueue, ...]:
    assert options.topic is not None
    async with (
        Client(options.namesrv, tls=options.tls, credentials=options.credentials) as client,
        client.producer(options.group) as producer,
    ):
        return await producer.queues(options.topic)


async def _paced(
    rows: Iterator[Mapping[str, Any]], options: SinkOptions, pace: Pace, sent: Sent, tell: Callable[[Sent], object]
) -> None:
    world = real_world()
    async with (
        Client(options.namesrv, world=world, tls=options.tls, credentials=options.credentials) as client,
        client.producer(options.group) as producer,
    ):
        sender = Sender(producer, world.clock, options)
        await send_paced(rows, RowConverter(options, "the replay", ""), sender, pace, world.clock, sent, tell)
