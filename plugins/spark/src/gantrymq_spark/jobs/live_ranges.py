"""Reads ranges of live queues, for jobs that determine the ranges beforehand."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gantrymq.plugin.model import MessageQueue
from gantrymq.plugin.real_world import real_world
from gantrymq_spark.columns import selected
from gantrymq_spark.jobs.inputs import Input, live_texts
from gantrymq_spark.live.options import read_options
from gantrymq_spark.live.session import LiveSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def live_bounds(given: Input) -> dict[MessageQueue, tuple[int, int]]:
    """Return the first queue offset and the end of every queue of the topics.

    Raises:
        ConfigError: *given* is invalid, or a topic does not exist.
        ClientError: a broker or every name server does not respond.
    """
    options = read_options(live_texts(given), streaming=False, environ=os.environ)

    async def ask() -> dict[MessageQueue, tuple[int, int]]:
        async with LiveSession(options, real_world()) as session:
            return await session.bounds()

    return asyncio.run(ask())


def live_ranges(
    spark: SparkSession,
    given: Input,
    ranges: Mapping[MessageQueue, tuple[int, int]],
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Return the messages of *ranges* (first and end offset by queue); filters of *given* apply.

    Raises:
        ConfigError: *given* is invalid.
    """
    names = selected(columns)
    if not ranges:
        from gantrymq_spark.columns import spark_schema

        return spark.createDataFrame([], spark_schema(names))
    told = {
        name: text
        for name, text in live_texts(given).items()
        if not name.startswith(("subscribe", "starting", "ending"))
    }
    reader = spark.read.format("gantrymq").options(**told).option("columns", ",".join(names))
    starts = {queue: first for queue, (first, _) in ranges.items()}
    ends = {queue: end for queue, (_, end) in ranges.items()}
    reader = reader.option("assign", _tree(dict.fromkeys(ranges)))
    return reader.option("startingOffsets", _tree(starts)).option("endingOffsets", _tree(ends)).load()


def _tree(values: Mapping[MessageQueue, Any]) -> str:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for queue, value in sorted(values.items()):
        found.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = value
    return json.dumps(found)
