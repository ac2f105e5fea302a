"""A search for text in the bodies and properties of a topic: bounded, and slow enough not to disturb the broker."""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from gantrymq.client.message import ReceivedMessage
from gantrymq_admin.asking import Asking, Missing
from gantrymq_console.data import listing
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.listing import Row
from gantrymq_console.data.reading import Pace, Walk, Wanted

__all__ = ["BYTES_PER_S", "MOST_BYTES", "MOST_LOOKED", "MOST_S", "Search", "run"]

MOST_HITS: Final = 1000
MOST_LOOKED: Final = 100_000  # messages
MOST_BYTES: Final = 256 * 1024 * 1024
MOST_S: Final = 20.0
BYTES_PER_S: Final = 2 * 1024 * 1024
ROUND_S: Final = 5.0


@attrs.define
class Search:
    """The condition of a search, and its progress."""

    text: str
    wanted: Wanted
    hits: list[Row] = attrs.field(factory=list)
    looked: int = 0  # queue entries
    read_bytes: int = 0
    unreadable: int = 0
    half_searched: int = 0  # messages with a body so large that only its beginning was searched
    reached_ms: int | None = None  # store time down to which everything was looked at
    next_skip: int = 0
    limit: str = ""  # that ended it: hits, looked, bytes, time, stop; empty if everything was looked at
    missing: list[Missing] = attrs.field(factory=list)


class Stop(Protocol):
    """Reports whether the user stopped the search."""

    stop_asked: bool


async def run(cluster: Cluster, search: Search, stop: Stop) -> None:
    """Search until the end or a limit. Raises NoRoute: no such topic; ClientError: a refused expression."""
    clock, test = cluster.world.clock, listing.Contains(search.text)

    def keep(message: ReceivedMessage) -> Row | None:
        return listing.row_of(message, with_body=True) if test(message) else None

    walk: Walk[Row] = Walk(cluster, search.wanted, keep, rows=200, body_bytes=listing.SEARCHED_BYTES)
    until, pace = clock.monotonic() + MOST_S, Pace(clock, BYTES_PER_S)
    await walk.start(Asking(clock))
    while not walk.is_done:
        search.limit = _limit(search, stop, clock.monotonic() >= until)
        if search.limit:
            break
        before = walk.read_bytes
        search.hits += await walk.more(ROUND_S)
        walk.check_expression()
        search.half_searched = test.half_searched
        _note(search, walk)
        await pace.spend(walk.read_bytes - before)
    _note(search, walk)
    if len(search.hits) > MOST_HITS:
        page = listing.page_of(search.hits, MOST_HITS, walk, search.wanted)
        search.hits, search.reached_ms, search.next_skip = list(page.rows), page.next_ms, page.next_skip
        search.limit = "hits"


def _limit(search: Search, stop: Stop, late: bool) -> str:
    if stop.stop_asked:
        return "stop"
    if len(search.hits) >= MOST_HITS:
        return "hits"
    if search.looked >= MOST_LOOKED:
        return "looked"
    if search.read_bytes >= MOST_BYTES:
        return "bytes"
    return "time" if late else ""


def _note(search: Search, walk: Walk[Row]) -> None:
    search.looked, search.read_bytes, search.unreadable = walk.looked, walk.read_bytes, walk.unreadable
    search.missing = list(walk.missing)
    page = listing.page_of(search.hits, len(search.hits), walk, search.wanted)
    search.reached_ms, search.next_skip = page.next_ms, page.next_skip
