"""For consumers: removes repeated messages of the sink.

A message that the sink sends twice has the same id both times, in the property `SINK_ID`. This requires ids that do not
change when a micro-batch is sent again; docs/spark/sink.md says when that is the case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gantrymq.errors import InvalidParameter
from gantrymq_spark.sink.options import SINK_ID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SINK_ID", "SeenIds", "once"]


class SeenIds:
    """Remembers the ids of the last messages, in order of arrival.

    A repeated message is recognized as long as fewer than *most* other messages with ids came between the copies. A
    failed sink sends its micro-batch again, so *most* must exceed the messages of one micro-batch times the number of
    attempts. Messages without an id always count as new. Iterate over the object to save its ids for a restart,
    together with the consumer's progress: both in one transaction, otherwise a message may be skipped or processed
    twice.
    """

    def __init__(self, most: int = 1_000_000, ids: Iterable[str] = ()) -> None:
        """Start with *ids*, oldest first, and remember up to *most* (about 150 bytes each).

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
        """Return whether a message with these properties is new, and remember its id."""
        found = properties.get(SINK_ID)
        return found is None or self._note(found)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids, oldest first."""
        return iter(self._seen)

    def _note(self, each: str) -> bool:
        if each in self._seen:
            return False
        self._seen[each] = None
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        return True


def once(frame: DataFrame, delay: str | None = None) -> DataFrame:
    """Return the rows with each id once; rows without an id are kept.

    Args:
        frame: with the columns ``properties`` and, for a stream, ``storeTimestamp``.
        delay: for a stream, the maximum difference of store times of copies, such as ``1 hour``; Spark keeps ids for
            that time.

    Raises:
        InvalidParameter: a stream without *delay*.
    """
    from pyspark.sql import functions as sql

    if frame.isStreaming and delay is None:
        raise InvalidParameter("a stream needs delay, the maximum time between copies, such as '1 hour'")
    marked = frame.withColumn("sinkId", sql.coalesce(sql.col("properties")[SINK_ID], sql.expr("uuid()")))
    if delay is None or not frame.isStreaming:
        return marked.dropDuplicates(["sinkId"]).drop("sinkId")
    return marked.withWatermark("storeTimestamp", delay).dropDuplicatesWithinWatermark(["sinkId"]).drop("sinkId")
