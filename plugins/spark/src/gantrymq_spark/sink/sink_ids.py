"""Ids of rows: the same when a task or a micro-batch is written again, so that consumers can tell what they had.

    <query>.<micro-batch>.<partition>.<row>     a stream: Spark's ids, the row's number in its partition
    <write>.<partition>.<row>                   a batch: an id that the driver made for this write

The sink is at-least-once: a task that is tried again, and a micro-batch that is run again after a failure, send rows a
second time. Each message has its row's id as the property ``GANTRYMQ_SINK_ID``. It is the same the second time if the
rows of a partition come in the same order again, which holds for rows straight from files and topics, and not behind a
shuffle whose order is left to chance; there, name a column that tells rows apart with option ``idColumn``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import count

from gantrymq_spark.sink.rows import SINK_ID

__all__ = ["SINK_ID", "SeenIds", "row_ids"]


def row_ids(prefix: str, partition: int) -> Iterator[str]:
    """Ids of the rows of one partition, without end."""
    return (f"{prefix}.{partition}.{row}" for row in count())


class SeenIds:
    """Tells a consumer which messages it has not had before, among the last *capacity* ones.

        seen = SeenIds()
        async for message in consumer:
            if seen.first(message.properties):
                work(message)

    What a process forgets when it ends is up to the application: keep ids where the results are, in one transaction.
    Messages without the property are always first ones.
    """

    def __init__(self, capacity: int = 1_000_000) -> None:
        """*capacity*: ids to remember, about 150 bytes each; at least as many as lie between a message and its twin."""
        self._capacity = capacity
        self._ids: OrderedDict[str, None] = OrderedDict()

    def first(self, properties: Mapping[str, str]) -> bool:
        """Whether the message with these properties was not seen before; it is from now on."""
        found = properties.get(SINK_ID)
        if found is None:
            return True
        if found in self._ids:
            self._ids.move_to_end(found)
            return False
        self._ids[found] = None
        if len(self._ids) > self._capacity:
            self._ids.popitem(last=False)
        return True
