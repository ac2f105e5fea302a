"""New messages of a topic as they arrive: once a second, a limited number, with a count of those left out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

import attrs

from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.plugin.model import MessageQueue
from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking, Missing
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.listing import Row, row_of
from gantrymq_console.data.reading import Wanted
from gantrymq_console.data.routes import route_of

__all__ = ["MOST_PER_S", "MOST_S", "Tail", "run"]

MOST_PER_S: Final = 50  # messages
MOST_S: Final = 600.0
UNSEEN_MS: Final = 60_000  # time after which a tail stops if its page is not open
MOST_BYTES_PER_S: Final = 2 * 1024 * 1024
KEPT: Final = 200  # messages shown
PULL: Final = 32
AT_ONCE: Final = 8
EVERY_S: Final = 1.0


@attrs.define
class Tail:
    """The newest messages since a tail began."""

    wanted: Wanted
    seen_ms: int  # monotonic time when the page was last asked for
    rows: deque[Row] = attrs.field(factory=lambda: deque(maxlen=KEPT))  # the newest first
    arrived: int = 0  # queue entries since the beginning
    shown: int = 0  # messages, also those that are not kept any more
    left_out: int = 0  # queue entries that were not looked at, because too many arrived
    missing: list[Missing] = attrs.field(factory=list)
    unseen: bool = False  # whether it ended because its page was not open


class Stop(Protocol):
    """Reports whether the user stopped the tail."""

    stop_asked: bool


async def run(cluster: Cluster, tail: Tail, stop: Stop) -> None:
    """Follow the topic until the tail is stopped, not looked at, or has run for ten minutes. Raises NoRoute."""
    clock = cluster.world.clock
    until = clock.monotonic() + MOST_S
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
    stats = await asking.all(
        {
            each.name: cluster.admin.topic_stats(address, topic)
            for each in route.brokers
            if (address := each.readable()) is not None
        }
    )
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
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(queue: MessageQueue, end: int) -> None:
        begin = end - shares[queue]
        tail.left_out += begin - places[queue]
        places[queue] = end
        async with gate:
            at = begin
            try:
                while at < end and read_bytes[0] < MOST_BYTES_PER_S:
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
        max_count=min(PULL, end - at),
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
