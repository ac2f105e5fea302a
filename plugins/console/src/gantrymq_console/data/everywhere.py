"""A key or unique id looked up in all topics, one after the other, at a limited rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import attrs

from gantrymq.errors import NoRoute
from gantrymq_admin.asking import Asking, Missing
from gantrymq_console.data import listing
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.listing import Row
from gantrymq_console.data.reading import Pace
from gantrymq_console.data.table import limited

__all__ = ["REQUESTS_PER_S", "Everywhere", "run"]

REQUESTS_PER_S: Final = 200.0
AT_ONCE: Final = 8
MOST_HITS: Final = 200
TOPIC_S: Final = 5.0  # for the requests of one topic
MOST_MISSING: Final = 20  # failures that are listed


@attrs.define
class Everywhere:
    """A search in all topics, and how far it is."""

    query: str
    topics: int
    brokers: int
    asked: int = 0  # topics
    hits: list[Row] = attrs.field(factory=list)
    failed: int = 0  # topics for which a broker did not answer
    missing: list[Missing] = attrs.field(factory=list)  # the first failures
    limit: str = ""  # that ended it: hits, stop; empty if all topics were asked


class Stop(Protocol):
    """Reports whether the user stopped the search."""

    stop_asked: bool


async def run(cluster: Cluster, search: Everywhere, topics: Sequence[str], stop: Stop) -> None:
    """Ask all *topics*."""
    pace = Pace(cluster.world.clock, REQUESTS_PER_S)

    async def ask(topic: str) -> None:
        search.limit = "stop" if stop.stop_asked else "hits" if len(search.hits) >= MOST_HITS else ""
        if search.limit:
            return
        await pace.spend(search.brokers)
        asking = Asking(cluster.world.clock, TOPIC_S)
        try:
            found = await listing.by_key(cluster, asking, topic, search.query, with_body=False)
            search.hits += found.rows
        except NoRoute:
            pass  # deleted, or kept by name servers only
        search.asked += 1
        search.failed += bool(asking.missing)
        search.missing += [attrs.evolve(each, what=f"{each.what} {topic}") for each in asking.missing]
        del search.missing[MOST_MISSING:]

    await limited(topics, ask, AT_ONCE)
