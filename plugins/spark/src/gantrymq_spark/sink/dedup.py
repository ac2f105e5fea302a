"""For consumers: each message of the sink once.

A message that the sink sends twice has the same id both times, in the property `SINK_ID`. What is said here holds for
ids that a micro-batch gives again when it is sent again; docs/spark-sink.md says when that is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gantrymq.errors import InvalidParameter
from gantrymq_spark.sink.columns import SINK_ID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SINK_ID", "SeenIds", "once"]


class SeenIds:
    """Remembers the ids of the last messages, in the order in which they came.

    A second copy is told from a first one as long as fewer than *most* other messages with ids came between them. A
    sink that fails sends its micro-batch again, so *most* is to be more than one micro-batch has, times the attempts
    at it. Messages without an id are always first ones. Iterate over it for what to keep over a restart, with the
    consumer's own progress: both in one transaction, or a message may be passed over or taken twice.
    """

    def __init__(self, most: int = 1_000_000, ids: Iterable[str] = ()) -> None:
        """Remember *ids*, the oldest first, and up to *most* (some 150 bytes each).

        Raises:
            InvalidParameter: *most* is below 1.
        """
        if most < 1:
            raise InvalidParameter(f"most is {most}; remember at least one id")
        self._most = most
        self._seen: dict[str, None] = {}
        for each in ids:
            self._note(each)

    def first(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties is here for the first time; from now on it was here."""
        found = properties.get(SINK_ID)
        return found is None or self._note(found)

    def __iter__(self) -> Iterator[str]:
        """The ids, the oldest first."""
        return iter(self._seen)

    def _note(self, each: str) -> bool:
        if each in self._seen:
            return False
        self._seen[each] = None
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        return True


def once(frame: DataFrame, delay: str | None = None) -> DataFrame:
    """The rows of messages, each id once; rows without an id as they are.

    Args:
        frame: with the columns ``properties`` and, of a stream, ``storeTimestamp``.
        delay: of a stream, how far store times of copies may lie apart, such as ``1 hour``; Spark keeps ids so long.

    Raises:
        InvalidParameter: a stream without *delay*.
    """
    from pyspark.sql import functions as sql

    if frame.isStreaming and delay is None:
        raise InvalidParameter("of a stream, delay says how far copies may lie apart; give one, such as '1 hour'")
    marked = frame.withColumn("sinkId", sql.coalesce(sql.col("properties")[SINK_ID], sql.expr("uuid()")))
    if delay is None or not frame.isStreaming:
        return marked.dropDuplicates(["sinkId"]).drop("sinkId")
    return marked.withWatermark("storeTimestamp", delay).dropDuplicatesWithinWatermark(["sinkId"]).drop("sinkId")
