"""Jobs that read messages: a search in a topic, a key in all topics, and the live tail of a topic.

All are bounded, and slow enough not to disturb brokers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import attrs

from gantrymq.client import ReceivedMessage
from gantrymq.errors import ClientError, NoRoute
from gantrymq.plugin.model import MessageQueue
from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking, Missing
from gantrymq_console.data import listing
from gantrymq_console.data.cluster import Cluster, readable_of, route_of
from gantrymq_console.data.listing import Pace, Row, Walk, Wanted, row_of
from gantrymq_console.data.table import limited

_MOST_HITS: Final = 1000
MOST_LOOKED: Final = 100_000  # messages
_MOST_BYTES: Final = 256 * 1024 * 1024
_MOST_S: Final = 20.0
BYTES_PER_S: Final = 2 * 1024 * 1024
ROUND_S: Final = 5.0
REQUESTS_PER_S: Final = 200.0
_AT_ONCE: Final = 8
_MOST_EVERYWHERE: Final = 200
_TOPIC_S: Final = 5.0  # for the requests of one topic
_MOST_MISSING: Final = 20  # failures that are listed
MOST_PER_S: Final = 50  # messages
_TAIL_S: Final = 600.0
UNSEEN_MS: Final = 60_000  # time after which a tail stops if its page is not open
_MOST_BYTES_PER_S: Final = 2 * 1024 * 1024
_KEPT: Final = 200  # messages shown
_PULL: Final = 32
EVERY_S: Final = 1.0


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
    """Reports whether the user stopped the job."""

    stop_asked: bool


async def run_search(cluster: Cluster, search: Search, stop: Stop) -> None:
    """Search until the end or a limit. Raises NoRoute: no such topic; ClientError: a refused expression."""
    clock, test = cluster.world.clock, listing.Contains(search.text)

    def keep(message: ReceivedMessage) -> Row | None:
        return listing.row_of(message, with_body=True) if test(message) else None

    walk: Walk[Row] = Walk(cluster, search.wanted, keep, rows=200, body_bytes=listing.SEARCHED_BYTES)
    until, pace = clock.monotonic() + _MOST_S, Pace(clock, BYTES_PER_S)
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
    if len(search.hits) > _MOST_HITS:
        page = listing.page_of(search.hits, _MOST_HITS, walk, search.wanted)
        search.hits, search.reached_ms, search.next_skip = list(page.rows), page.next_ms, page.next_skip
        search.limit = "hits"


def _limit(search: Search, stop: Stop, late: bool) -> str:
    if stop.stop_asked:
        return "stop"
    if len(search.hits) >= _MOST_HITS:
        return "hits"
    if search.looked >= MOST_LOOKED:
        return "looked"
    if search.read_bytes >= _MOST_BYTES:
        return "bytes"
    return "time" if late else ""


def _note(search: Search, walk: Walk[Row]) -> None:
    search.looked, search.read_bytes, search.unreadable = walk.looked, walk.read_bytes, walk.unreadable
    search.missing = list(walk.missing)
    page = listing.page_of(search.hits, len(search.hits), walk, search.wanted)
    search.reached_ms, search.next_skip = page.next_ms, page.next_skip


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
    limit: str = ""  # that ended it: hits, stop; empty if all topics were searched


async def run_everywhere(cluster: Cluster, search: Everywhere, topics: Sequence[str], stop: Stop) -> None:
    """Ask all *topics*."""
    pace = Pace(cluster.world.clock, REQUESTS_PER_S)

    async def ask(topic: str) -> None:
        search.limit = "stop" if stop.stop_asked else "hits" if len(search.hits) >= _MOST_EVERYWHERE else ""
        if search.limit:
            return
        await pace.spend(search.brokers)
        asking = Asking(cluster.world.clock, _TOPIC_S)
        try:
            found = await listing.by_key(cluster, asking, topic, search.query, with_body=False)
            search.hits += found.rows
        except NoRoute:
            pass  # deleted, or kept by name servers only
        search.asked += 1
        search.failed += bool(asking.missing)
        search.missing += [attrs.evolve(each, what=f"{each.what} {topic}") for each in asking.missing]
        del search.missing[_MOST_MISSING:]

    await limited(topics, ask, _AT_ONCE)


@attrs.define
class Tail:
    """The newest messages since a tail began."""

    wanted: Wanted
    seen_ms: int  # monotonic time when the page was last asked for
    rows: deque[Row] = attrs.field(factory=lambda: deque(maxlen=_KEPT))  # the newest first
    arrived: int = 0  # queue entries since the beginning
    shown: int = 0  # messages, also those that are not kept any more
    left_out: int = 0  # queue entries that were not looked at, because too many arrived
    missing: list[Missing] = attrs.field(factory=list)
    unseen: bool = False  # whether it ended because its page was not open


async def run_tail(cluster: Cluster, tail: Tail, stop: Stop) -> None:
    """Follow the topic until the tail is stopped, not looked at, or has run for ten minutes. Raises NoRoute."""
    clock = cluster.world.clock
    until = clock.monotonic() + _TAIL_S
    places: dict[MessageQueue, int] = {}
    while not stop.stop_asked and clock.monotonic() < until:
        if monotonic_ms(clock) - tail.seen_ms > UNSEEN_MS:
            tail.unseen = True
            return
        begun = clock.monotonic()
        asking = Asking(clock)
        await _look(cluster, tail, asking, places)
        tail.missing = asking.missing
        await clock.sleep(max(0.1, EVERY_S - (clock.monotonic() - begun)))


async def _look(cluster: Cluster, tail: Tail, asking: Asking, places: dict[MessageQueue, int]) -> None:
    topic = tail.wanted.topic
    route = await route_of(cluster, asking, topic)
    known = {queue.broker_name for queue in places}
    stats = await asking.all({name: cluster.admin.topic_stats(at, topic) for name, at in readable_of(route).items()})
    grown: dict[MessageQueue, int] = {}
    for broker, part in stats.items():
        for queue, each in part.items():
            place = places.setdefault(queue, each.min_offset if broker in known else each.max_offset)
            if place > each.max_offset:  # the store was replaced
                places[queue] = each.max_offset
            elif place < each.max_offset:
                grown[queue] = each.max_offset
    tail.arrived += sum(end - places[queue] for queue, end in grown.items())
    if not grown:
        return
    shares = _shares({queue: end - places[queue] for queue, end in grown.items()})
    found: list[Row] = []
    read_bytes = [0]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(queue: MessageQueue, end: int) -> None:
        begin = end - shares[queue]
        tail.left_out += begin - places[queue]
        places[queue] = end
        async with gate:
            at = begin
            try:
                while at < end and read_bytes[0] < _MOST_BYTES_PER_S:
                    part, at = await _pull(cluster, tail.wanted, queue, at, end)
                    read_bytes[0] += sum(each.store_size for each in part)
                    found.extend(row_of(each, with_body=True) for each in part)
            finally:
                tail.left_out += end - at

    await asking.all({f"{queue.broker_name}:{queue.queue_id}": read(queue, end) for queue, end in grown.items()})
    found.sort(key=lambda row: (row.stored_ms, row.broker, row.queue_id, row.queue_offset))
    tail.shown += len(found)
    tail.rows.extendleft(found)


async def _pull(
    cluster: Cluster, wanted: Wanted, queue: MessageQueue, at: int, end: int
) -> tuple[list[ReceivedMessage], int]:
    """Return messages from *at* to before *end*, and the offset to continue at."""
    result = await cluster.reader.pull(
        queue,
        at,
        max_count=min(_PULL, end - at),
        expression=wanted.expression,
        expression_type=wanted.expression_type,
    )
    if result.next_offset <= at:
        raise ClientError(f"{queue.broker_name}:{queue.queue_id} cannot be read at {at}")
    return [each for each in result.messages if each.queue_offset < end], min(end, result.next_offset)


def _shares(grown: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Return how many of the new entries of each queue are read, `MOST_PER_S` together."""
    left, shares = MOST_PER_S, dict.fromkeys(grown, 0)
    for place, queue in enumerate(sorted(grown, key=lambda queue: grown[queue])):
        shares[queue] = min(grown[queue], left // (len(grown) - place))
        left -= shares[queue]
    return shares
