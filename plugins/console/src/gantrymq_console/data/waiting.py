"""Messages that are not delivered yet: delayed and timed ones, and half messages of transactions."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import attrs

from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import BrokerRefused, NoRoute
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.model import MessageQueue, is_ip_address, offset_id, pack_host, parse_address
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.asking import Asking, or_none
from gantrymq_admin.pending import MAX_PAGE, PendingMessage, PendingPage, pending_page
from gantrymq_admin.transactions import HalfMessage, TransactionPage, list_transactions
from gantrymq_console.data.cluster import Cluster, readers_of
from gantrymq_console.values import Long, record_of

_SOURCES: Final = ("levels", "timers")
_MOST_GROUPS: Final = 16  # producer groups whose members are counted


@attrs.frozen
class Source:
    """A kind of delay at one broker."""

    broker: str
    name: str
    waiting: Long
    topics: Sequence[tuple[str, Long]]  # the largest numbers of messages, if the broker counts them by topic


@attrs.frozen
class Waiting:
    """A message that waits for its delivery time."""

    broker: str
    due_ms: int
    kind: str
    topic: str
    keys: str
    tags: str
    unique_id: str
    offset_id: str
    stored_ms: int
    bytes: Long


@attrs.frozen
class LevelQueue:
    """A queue of SCHEDULE_TOPIC_XXXX, all that is known at a broker that does not list pending messages."""

    broker: str
    level: int
    stored: Long  # messages in the queue, delivered ones included
    last_ms: int  # store time of the last message


@attrs.frozen
class Delayed:
    """Pending messages of all brokers, the soonest first."""

    sources: Sequence[Source]
    messages: Sequence[Waiting]
    next_place: str  # of the next page of one broker's source; empty after the last, or if several were asked
    level_queues: Sequence[LevelQueue]
    unlisted: Sequence[str]  # brokers that do not list pending messages


async def delayed_of(
    cluster: Cluster, asking: Asking, *, broker: str, source: str, place: str, topic: str, most: int
) -> Delayed:
    """Return the soonest *most* messages of each source, or a page of one broker's source.

    Args:
        cluster: the cluster.
        asking: deadline.
        broker: name of the only broker to ask; empty for all.
        source: the only source to ask; empty for all.
        place: of the page; only with *broker* and *source*.
        topic: only messages that will go to it; empty for all.
        most: number of messages of each source.
    """
    known = await readers_of(cluster, asking)
    readers = {name: each for name, each in known.items() if broker in ("", name)}
    wanted = [source] if source else list(_SOURCES)
    asked = {
        (name, each): _page(cluster, address, each, place if broker and source else "", topic, most)
        for name, address in readers.items()
        for each in wanted
    }
    pages = await asking.all(asked)
    unlisted = sorted({name for (name, _), page in pages.items() if page is None})
    sources: dict[tuple[str, str], Source] = {}
    messages: list[Waiting] = []
    next_place = ""
    for (name, _), page in pages.items():
        if page is None:
            continue
        for each, facts in page.sources.items():
            counts = sorted((facts.get("topics") or {}).items(), key=lambda pair: -int(pair[1]))[:10]
            topics = [(str(one), Long(count)) for one, count in counts]
            sources[name, each] = Source(name, each, Long(facts["waiting"]), topics)
        messages += [_waiting(name, readers[name], message) for message in page.messages]
        next_place = (page.place or "") if broker and source else ""
    messages.sort(key=lambda message: message.due_ms)
    queues = await asking.all({name: _level_queues(cluster, name, readers[name]) for name in unlisted})
    return Delayed(
        [sources[key] for key in sorted(sources)],
        messages,
        next_place,
        [each for found in queues.values() for each in found],
        unlisted,
    )


async def _page(cluster: Cluster, address: str, source: str, place: str, topic: str, most: int) -> PendingPage | None:
    """Return a page of a source; None if the broker does not list pending messages. A missing source is empty."""
    try:
        return await pending_page(
            cluster.admin, address, source, place=place or None, most=min(most, MAX_PAGE), topic=topic or None
        )
    except RequestNotServed:
        return None
    except BrokerRefused as problem:
        if place or source == _SOURCES[0] or problem.response_code == ResponseCode.SERVICE_NOT_AVAILABLE:
            raise
        return PendingPage({}, (), None)  # the broker has no timers


def _waiting(broker: str, address: str, message: PendingMessage) -> Waiting:
    host, port = parse_address(address)
    return Waiting(
        broker,
        message.due_ms,
        message.kind,
        message.topic or "",
        message.keys or "",
        message.tags or "",
        message.unique_id or "",
        offset_id(pack_host(host, port), message.log_offset) if is_ip_address(host) else "",
        message.stored_ms,
        Long(message.size),
    )


async def _level_queues(cluster: Cluster, broker: str, address: str) -> list[LevelQueue]:
    try:
        stats = await cluster.admin.topic_stats(address, names.SCHEDULE_TOPIC)
    except (BrokerRefused, NoRoute):
        return []
    return [
        LevelQueue(broker, queue.queue_id + 1, Long(each.count), each.updated_ms)
        for queue, each in stats.items()
        if each.count
    ]


def recall_handle(topic: str, broker: str, properties: dict[str, str]) -> str | None:
    """Return the recall handle of a stored timed message; None if it is none.

    Source: apache/rocketmq common/.../producer/RecallMessageHandle.java.
    """
    out_ms, unique_id = properties.get(props.TIMER_OUT_MS, ""), properties.get(props.UNIQ_KEY)
    if not out_ms.isdecimal() or not unique_id:
        return None
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} {int(out_ms) + 1} {unique_id}".encode()).decode()


@attrs.frozen
class Half:
    """A half message of a transaction."""

    broker: str
    unique_id: str
    offset_id: str
    producer_group: str
    topic: str
    keys: str
    checks: int
    next_check_ms: int | None
    born_ms: int
    stored_ms: int
    bytes: Long = attrs.field(converter=Long)
    online: int | None  # connected producers of the group at the broker; None if it was not answered


@attrs.frozen
class HalfQueue:
    """The half queue of a broker that does not list transactions: all that can be known."""

    broker: str
    stored: Long  # half messages, decided ones included
    last_ms: int


@attrs.frozen
class HalfList:
    """Undecided or given-up transactions of all brokers, the oldest first."""

    undecided: Long | None  # None if no broker lists them
    oldest_born_ms: int | None
    halves: Sequence[Half]
    next: int | None  # where the next page of one broker starts
    queues: Sequence[HalfQueue]
    unlisted: Sequence[str]
    partial: bool = False  # whether a broker does not answer or does not list them: the count is of the others


async def transactions_of(
    cluster: Cluster, asking: Asking, *, broker: str, start: int, given_up: bool, topic: str, most: int
) -> HalfList:
    """Return the oldest *most* transactions of each broker, or a page of one broker."""
    known = await readers_of(cluster, asking)
    readers = {name: each for name, each in known.items() if broker in ("", name)}
    begin = start if broker else 0
    pages = await asking.all(
        {name: _transactions(cluster, address, begin, given_up, topic, most) for name, address in readers.items()}
    )
    listed = {name: page for name, page in pages.items() if page is not None}
    unlisted = sorted(pages.keys() - listed.keys())
    groups = {(name, half.producer_group) for name, page in listed.items() for half in page.transactions}
    online = await asking.all(
        {pair: _online(cluster, readers[pair[0]], pair[1]) for pair in sorted(groups)[:_MOST_GROUPS]}
    )
    halves = [
        half_of(name, half, online.get((name, half.producer_group)))
        for name, page in listed.items()
        for half in page.transactions
    ]
    queues = await asking.all({name: _half_queue(cluster, name, readers[name]) for name in unlisted})
    oldest = [page.oldest_born_ms for page in listed.values() if page.oldest_born_ms is not None]
    return HalfList(
        Long(sum(page.undecided for page in listed.values())) if listed else None,
        min(oldest, default=None),
        sorted(halves, key=lambda half: half.born_ms),
        next(iter(listed.values())).next if broker and listed else None,
        [each for each in queues.values() if each is not None],
        unlisted,
        len(listed) < len(readers),
    )


async def _transactions(
    cluster: Cluster, address: str, start: int, given_up: bool, topic: str, most: int
) -> TransactionPage | None:
    try:
        return await list_transactions(
            cluster.admin, address, start=start, count=most, topic=topic or None, given_up=given_up
        )
    except RequestNotServed:
        return None


async def _online(cluster: Cluster, address: str, group: str) -> int:
    """Return the number of connected producers of a group."""
    return len(await or_none(cluster.admin.producer_connections(address, group), ResponseCode.SYSTEM_ERROR) or ())


def half_of(broker: str, half: HalfMessage, online: int | None) -> Half:
    """Return a half message of a broker, for a page."""
    return record_of(Half, half, broker=broker, online=online)


async def _half_queue(cluster: Cluster, broker: str, address: str) -> HalfQueue | None:
    try:
        stats = await cluster.admin.topic_stats(address, names.HALF_TOPIC)
    except (BrokerRefused, NoRoute):
        return None
    found = stats.get(MessageQueue(names.HALF_TOPIC, broker, 0))
    return None if found is None else HalfQueue(broker, Long(found.count), found.updated_ms)
