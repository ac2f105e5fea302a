"""Finds messages by key, id, time, expression or Spark SQL, in one source or in an archive and live topics together.

    query(spark, Input(archive="/archive", topics=("Orders",), namesrv="10.0.0.1:9876"), Search(key="o-17"), live=True)

If both are read, each message is found once: the archive's manifest says how far it has each queue, and later messages
are read from brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.model import Queue, is_offset_id
from gantrymq_spark.columns import selected
from gantrymq_spark.jobs.archive_plan import live_from
from gantrymq_spark.jobs.archive_read import open_state
from gantrymq_spark.jobs.inputs import Input, messages, row_condition
from gantrymq_spark.jobs.live_ranges import live_bounds, live_ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_SEARCHED = ("keys", "uniqueKey", "msgId")


@attrs.frozen
class Search:
    """Search conditions; all given ones must hold."""

    key: str | None = None  # one of the keys of a message
    unique_key: str | None = None  # the client's id
    message_id: str | None = None  # offset id or the client's id, like mqadmin
    condition: str | None = None  # Spark SQL, such as "queueId = 3 AND length(body) > 100"

    @property
    def empty(self) -> bool:
        """Whether there is no condition."""
        return all(each is None for each in attrs.astuple(self))


def query(
    spark: SparkSession,
    given: Input,
    search: Search = Search(),
    columns: Sequence[str] | None = None,
    *,
    live: bool = False,
) -> DataFrame:
    """Return the messages of *given* that match *search*.

    Args:
        spark: a session with the sources registered.
        given: the source, and topics, times, tags, SQL92 expression.
        search: further conditions.
        columns: columns of the result; None for all.
        live: with an archive: also read the same topics from their brokers, from where the archive ends.

    Raises:
        ConfigError: *given* is invalid, or Spark cannot parse a condition.
        InvalidParameter: a column does not exist.
        ClientError: brokers of live topics do not respond.
    """
    from pyspark.errors import AnalysisException, ParseException

    names = selected(columns)
    needed = names if search.empty else selected(None) if search.condition else _with(names, _SEARCHED)
    found = everything(spark, given, needed) if live else messages(spark, given, needed)
    try:
        for condition in _conditions(search):
            found = found.where(condition)
        return found.select(*names)
    except (ParseException, AnalysisException) as problem:
        first = str(problem).strip().splitlines()[0]
        raise ConfigError(f"the condition {search.condition!r} cannot be read by Spark: {first}") from None


def refuse_live(given: Input) -> None:
    """Raise ConfigError if *given* names no archive or no topics, for the messages of an archive and of brokers."""
    if given.archive is None:
        raise ConfigError("--live adds live topics to an archive; name one with --archive, or remove --live")
    if not given.topics and given.pattern is None:
        raise ConfigError("--live needs topics; name them with --topic or --topic-pattern")


def everything(spark: SparkSession, given: Input, columns: Sequence[str] | None = None) -> DataFrame:
    """Return an archive's messages, and the later ones that only brokers have. Raises as `query`."""
    refuse_live(given)
    assert given.archive is not None
    names = selected(columns)
    state = open_state(given.archive)  # before querying brokers: messages archived meanwhile are read live
    bounds: dict[str, dict[Queue, tuple[int, int]]] = {}
    queues = live_bounds(attrs.evolve(given, archive=None))
    for queue, span in queues.items():
        bounds.setdefault(queue.broker_name, {})[Queue(queue.topic, queue.queue_id)] = span
    starts = {broker_name: live_from(state, broker_name, found) for broker_name, found in bounds.items()}
    ranges = {}
    for queue, (_, end) in queues.items():
        first = starts[queue.broker_name][Queue(queue.topic, queue.queue_id)]
        if first < end:
            ranges[queue] = (first, end)
    live = live_ranges(spark, attrs.evolve(given, archive=None), ranges, _with(names, ("storeTimestamp",)))
    return messages(spark, given, names, state=state).unionByName(_timed(live, given).select(*names))


def _timed(rows: DataFrame, given: Input) -> DataFrame:
    """Filter rows of offset ranges by the given times."""
    return rows.where(row_condition(Input(since_ms=given.since_ms, until_ms=given.until_ms)))


def _conditions(search: Search) -> list[Column]:
    from pyspark.sql import functions as sql

    found = []
    if search.key is not None:
        found.append(sql.array_contains(sql.split(sql.col("keys"), " "), search.key))
    if search.unique_key is not None:
        found.append(sql.col("uniqueKey") == search.unique_key)
    if search.message_id is not None:
        name, text = (
            ("msgId", search.message_id.upper())
            if is_offset_id(search.message_id)
            else ("uniqueKey", search.message_id)
        )
        found.append(sql.col(name) == text)
    if search.condition is not None:
        found.append(sql.expr(search.condition))
    return found


def _with(names: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return (*names, *(name for name in more if name not in names))
