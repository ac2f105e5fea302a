"""The messages of a job: from live topics, the folder of a store, or an archive, with filters.

Brokers and sources apply the filters they support; Spark applies the rest, so that all three give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import attrs

from gantrymq.errors import ConfigError, GantryError
from gantrymq.plugin.client import parse_tags
from gantrymq_spark.columns import selected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from gantrymq_spark.jobs.archive_layout import ArchiveState

__all__ = ["Input", "live_texts", "messages", "row_condition", "store_texts"]

T = TypeVar("T")
_FILTERED = ("topic", "tags", "storeTimestamp", "properties")  # columns that conditions use


@attrs.frozen
class Input:
    """One of topics or pattern, store, archive; topics and pattern also filter a store or an archive."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None  # Java regular expression for whole names
    namesrv: str | None = None  # None: $NAMESRV_ADDR
    store: str | None = None  # a folder
    archive: str | None = None  # a folder
    since_ms: int | None = None  # store time, inclusive
    until_ms: int | None = None  # store time, exclusive
    tags: str | None = None  # TagA || TagB
    sql92: str | None = None
    options: Mapping[str, str] = attrs.field(factory=dict)  # additional options of the source

    @property
    def live(self) -> bool:
        """Whether messages are read from brokers."""
        return self.store is None and self.archive is None

    def check(self) -> None:
        """Raise ConfigError unless exactly one source, and a time range that can have messages, are given."""
        if self.store is not None and self.archive is not None:
            raise ConfigError("a store and an archive are given; give one of --store and --archive")
        if self.live and not self.topics and self.pattern is None:
            raise ConfigError(
                "no messages are named; give --topic (of live topics), --store FOLDER or --archive FOLDER"
            )
        if self.topics and self.pattern is not None:
            raise ConfigError("topics and a pattern are given; give --topic or --topic-pattern")
        if self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms:
            since, until = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (self.since_ms, self.until_ms))
            raise ConfigError(
                f"no message can be stored between --since ({since:%Y-%m-%d %H:%M:%S} UTC) and --until "
                f"({until:%Y-%m-%d %H:%M:%S} UTC); --since must be the earlier time"
            )

    def check_filters(self) -> None:
        """Raises ConfigError: tags that cannot be read."""
        if self.tags is not None:
            _checked_option("--tags", lambda: parse_tags(self.tags or ""))


def messages(
    spark: SparkSession, given: Input, columns: Sequence[str] | None = None, *, state: ArchiveState | None = None
) -> DataFrame:
    """Return the messages.

    Args:
        spark: a session with the sources registered.
        given: selects the messages.
        columns: of `gantrymq_spark.columns`, in order; None for all. Other columns are not built.
        state: of an archive, if already read.

    Raises:
        ConfigError: *given* is invalid.
        InvalidParameter: a column does not exist.
    """
    given.check()
    names = selected(columns)
    if given.archive is not None:
        topics = given.topics or None
        from gantrymq_spark.jobs.archive_read import read_archive

        found = read_archive(
            spark, given.archive, topics=topics, since_ms=given.since_ms, until_ms=given.until_ms, state=state
        )
        return found.where(row_condition(given)).select(*names)
    if given.store is None:
        return spark.read.format("gantrymq").options(**live_texts(given)).option("columns", ",".join(names)).load()
    needed = [*names, *(each for each in _FILTERED if each not in names)] if _narrows(given) else list(names)
    reader = spark.read.format("gantrymq.store").options(**store_texts(given)).option("columns", ",".join(needed))
    return reader.load(given.store).where(row_condition(given)).select(*names)


def row_condition(given: Input) -> Column:
    """Return the condition on rows, over the columns `_FILTERED`.

    Raises:
        ConfigError: tags or the expression are invalid.
    """
    from pyspark.sql import functions as sql

    parts: list[Column] = []
    if given.topics:
        parts.append(sql.col("topic").isin(*given.topics))
    if given.pattern is not None:
        parts.append(sql.col("topic").rlike(f"^(?:{given.pattern})$"))
    if given.since_ms is not None:
        parts.append(sql.col("storeTimestamp") >= sql.timestamp_millis(sql.lit(given.since_ms)))
    if given.until_ms is not None:
        parts.append(sql.col("storeTimestamp") < sql.timestamp_millis(sql.lit(given.until_ms)))
    if given.tags is not None and (tags := _checked_option("--tags", lambda: parse_tags(given.tags or ""))):
        parts.append(sql.col("tags").isin(*sorted(tags)))
    if given.sql92 is not None:
        from gantrymq_filter_sql92.filter import Sql92Filter

        column: Column = _checked_option("--sql92", lambda: Sql92Filter.to_column(given.sql92 or ""))
        parts.append(sql.coalesce(column, sql.lit(False)))
    found = sql.lit(True)
    for part in parts:
        found = found & part
    return found


def live_texts(given: Input) -> dict[str, str]:
    """Return the options of the live source."""
    said = {
        "namesrv": given.namesrv,
        "subscribe": ",".join(given.topics) or None,
        "subscribePattern": given.pattern,
        "startingTimestamp": given.since_ms,
        "endingTimestamp": given.until_ms,
        "tags": given.tags,
        "sql92": given.sql92,
    }
    return {**{name: str(value) for name, value in said.items() if value is not None}, **given.options}


def store_texts(given: Input) -> dict[str, str]:
    """Return the options of the store source: messages as consumers receive them; system topics only if named."""
    systems = {} if given.topics else {"systemTopics": "false"}
    return {"unwrapBatches": "true", **systems, **given.options}


def _narrows(given: Input) -> bool:
    return any(
        each is not None and each != ()
        for each in (given.topics, given.pattern, given.since_ms, given.until_ms, given.tags, given.sql92)
    )


def _checked_option(option: str, made: Callable[[], T]) -> T:
    try:
        return made()
    except GantryError as problem:
        raise ConfigError(f"{option}: {problem}") from None
