"""Takes snapshots of a query's queues from brokers, and resolves offsets in them.

A name server drops the routes of a broker that stops, and all routes when it restarts, so a missing route proves
nothing: a queue is gone only if its broker says so. All times are store times by the brokers' clocks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from shlex import quote

import attrs

from gantrymq.client import Admin, Reader
from gantrymq.client.admin import QueueStats
from gantrymq.errors import (
    BrokerRefused,
    CallTimeout,
    ClientError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    NoRoute,
)
from gantrymq.plugin.client import QueueGrant, TopicRoute
from gantrymq.plugin.headers import GetEarliestMsgStoretimeRequest
from gantrymq.plugin.model import PERM_READ, MessageQueue
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic, similar_name
from gantrymq.plugin.remoting import RequestCode, ResponseCode
from gantrymq_spark.live.offsets import Loss, LossKind, Offsets, QueueState, Snapshot
from gantrymq_spark.live.options import QueueSelection
from gantrymq_spark.live.starting_offsets import OffsetKind, StartingOffset, StartingOffsets

_SILENT = (ConnectFailed, ConnectionLost, CallTimeout)
_AT_ONCE = 16  # concurrent requests


class QueueView:
    """The queues that one query selects."""

    def __init__(self, admin: Admin, consumer: Reader, wanted: QueueSelection) -> None:
        """Both clients must be started."""
        self._admin = admin
        self._consumer = consumer
        self._selection = wanted
        self._requests = asyncio.Semaphore(_AT_ONCE)
        self._dated: dict[MessageQueue, QueueState] = {}  # queues with a known first store time

    async def first_snapshot(self) -> Snapshot:
        """Take the snapshot for the start of a query: all named topics and queues must exist, all brokers must respond.

        Raises:
            ConfigError: a topic or a queue does not exist, or no topic matches.
            ConnectFailed: a broker does not respond.
            as `look`: otherwise.
        """
        routes = await self._routes()
        missing = sorted(topic for topic, route in routes.items() if route is None)
        if missing:
            known: Iterable[str] = ()
            with suppress(ClientError):  # such as a missing permission; the error is the same
                known = await self._admin.topics()
            near = similar_name(missing[0], known)
            meant = f" (did you mean {near}?)" if near else ""
            raise ConfigError(
                f"topic {missing[0]} does not exist{meant}, or its brokers are not running; "
                f"gantrymq topic list -n {quote(';'.join(self._admin.name_servers))} shows the existing ones"
            )
        if not routes:
            raise ConfigError(f"option subscribePattern: no topic name matches {self._selection.pattern!r} as a whole")
        found = await self._snapshot(routes, Offsets())
        if found.away:
            raise ConnectFailed(
                f"broker {min(found.away)} of the selected topics does not respond; a query starts only if all do"
            )
        unknown = sorted(self._selection.queues - found.queues.keys())
        if unknown:
            raise ConfigError(
                f"option assign: {unknown[0].topic} has no queue {unknown[0].queue_id} at {unknown[0].broker_name}; "
                f"it has {_listed(queue for queue in found.queues if queue.topic == unknown[0].topic)}"
            )
        return found

    async def look(self, read: Offsets) -> Snapshot:
        """Take a snapshot of the current queues.

        Args:
            read: how far they were read. For a queue with new messages since then, the store time of its first message
                is requested as well, because it may be another queue of the same name.

        Raises:
            ConnectFailed: no name server responds.
            BrokerRefused: a broker rejects the request.
        """
        return await self._snapshot(await self._routes(), read)

    async def resolve(
        self, places: StartingOffsets, snapshot: Snapshot, now_ms: int
    ) -> tuple[dict[MessageQueue, int], list[Loss]]:
        """Return the queue offsets of *places* in every queue of *snapshot*; expired offsets are moved forward and
        reported.

        Raises:
            ConfigError: with offsets by queue, a queue is missing or does not exist, or an offset is after its end.
            as `look`: otherwise.
        """
        unknown = sorted(places.by_queue.keys() - snapshot.queues.keys())
        if unknown:
            raise ConfigError(
                f"option {places.option}: queue {unknown[0].queue_id} of {unknown[0].topic}, {unknown[0].broker_name} "
                "is not among the selected queues"
            )
        found: dict[MessageQueue, int] = {}
        losses: list[Loss] = []
        for queue, there in sorted(snapshot.queues.items()):
            place = places.of(queue)
            found[queue] = await self._offset(place, queue, there, now_ms)
            if place.kind is OffsetKind.OFFSET and place.number > there.end:
                raise ConfigError(
                    f"option {places.option}: offset {place.number} of {queue.topic}, {queue.broker_name}, queue "
                    f"{queue.queue_id} is after its end; the queue has {there.first} to {there.end}"
                )
            if place.kind is OffsetKind.OFFSET and place.number < there.first:
                losses.append(Loss(LossKind.EXPIRED, queue, place.number, there.first))
        return found, losses

    async def offset_at(self, queue: MessageQueue, there: QueueState, time_ms: int) -> int:
        """Return the offset of the first message stored at *time_ms* or later; the queue's end if there is none."""
        if there.first == there.end or there.stored_ms < time_ms:
            return there.end
        return max(there.first, min(await self._consumer.offset_for_timestamp(queue, time_ms), there.end))

    async def _offset(self, place: StartingOffset, queue: MessageQueue, there: QueueState, now_ms: int) -> int:
        match place.kind:
            case OffsetKind.EARLIEST:
                return there.first
            case OffsetKind.LATEST:
                return there.end
            case OffsetKind.OFFSET:
                return max(there.first, min(place.number, there.end))
            case OffsetKind.TIME:
                return await self.offset_at(queue, there, place.number)
            case OffsetKind.AGO:
                return await self.offset_at(queue, there, now_ms - place.number)

    # --- brokers ----------------------------------------------------------------------------------------------------

    async def _routes(self) -> dict[str, TopicRoute | None]:
        """Return routes by topic; None for a topic without one."""
        if self._selection.pattern is not None:
            pattern = re.compile(self._selection.pattern)
            every = await self._admin.topics()
            topics = [topic for topic in every if pattern.fullmatch(topic) and not _is_internal(topic)]
        else:
            topics = sorted({*self._selection.topics, *(queue.topic for queue in self._selection.queues)})
        return dict(zip(topics, await asyncio.gather(*map(self._route, topics)), strict=True))

    async def _route(self, topic: str) -> TopicRoute | None:
        async with self._requests:
            try:
                return await self._admin.route(topic)
            except NoRoute:
                return None

    async def _snapshot(self, routes: Mapping[str, TopicRoute | None], read: Offsets) -> Snapshot:
        grants = [
            (topic, grant, broker.readable())
            for topic, route in routes.items()
            if route is not None
            for grant in route.queues
            if grant.perm & PERM_READ and (broker := route.broker(grant.broker_name)) is not None
        ]
        answers = await asyncio.gather(*(self._ask(*each, read) for each in grants))
        queues: dict[MessageQueue, QueueState] = {}
        away: set[str] = set()
        for (_, grant, _), found in zip(grants, answers, strict=True):
            if found is None:
                away.add(grant.broker_name)
            else:
                queues.update(found)
        if self._selection.queues:
            queues = {queue: there for queue, there in queues.items() if queue in self._selection.queues}
        granted = {
            (topic, grant.broker_name)
            for topic, route in routes.items()
            if route is not None
            for grant in route.queues
            if route.broker(grant.broker_name) is not None
        }
        unrouted = {(queue.topic, queue.broker_name) for queue in read.queues} - granted
        away |= await self._away({each for each in unrouted if each[1] not in away})
        kept = {queue: there for queue, there in sorted(queues.items()) if queue.broker_name not in away}
        return Snapshot(kept, frozenset(away))

    async def _away(self, unrouted: Collection[tuple[str, str]]) -> set[str]:
        """Return brokers of *unrouted* (topic, broker name) that do not confirm that the topic is deleted."""
        if not unrouted:
            return set()
        masters = {broker.name: broker.master for broker in (await self._admin.clusters()).brokers}
        known = await asyncio.gather(*(self._stats(topic, masters.get(name)) for topic, name in unrouted))
        return {name for (_, name), stats in zip(unrouted, known, strict=True) if stats is None or stats}

    async def _ask(
        self, topic: str, grant: QueueGrant, address: str | None, read: Offsets
    ) -> dict[MessageQueue, QueueState] | None:
        """Return the queues of a topic at one broker; None if it does not respond."""
        stats = await self._stats(topic, address)
        if stats is None or address is None:
            return None
        found = {}
        for queue, each in stats.items():
            if queue.queue_id >= grant.read_queues:
                continue
            there = QueueState(max(0, each.min_offset), max(0, each.max_offset), max(0, each.updated_ms))
            before = read.queues.get(queue)
            if before is not None and there.first < there.end and not 0 < there.stored_ms <= before.stored_ms:
                dated = self._dated.get(queue)
                if dated is None or attrs.evolve(dated, first_stored_ms=None) != there:
                    try:
                        dated = attrs.evolve(there, first_stored_ms=await self._first_stored(address, queue))
                    except _SILENT:
                        return None
                there = self._dated[queue] = dated
            found[queue] = there
        return found

    async def _stats(self, topic: str, address: str | None) -> Mapping[MessageQueue, QueueStats] | None:
        """Return a topic's queues at one broker; empty if the broker has no such topic, None if it does not respond."""
        if address is None:
            return None
        async with self._requests:
            try:
                return await self._admin.topic_stats(address, topic)
            except _SILENT:
                return None
            except BrokerRefused as problem:
                if problem.response_code == ResponseCode.TOPIC_NOT_EXIST:
                    return {}
                raise

    async def _first_stored(self, address: str, queue: MessageQueue) -> int | None:
        header = GetEarliestMsgStoretimeRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        async with self._requests:
            reply = await self._admin.request(address, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        told = int((reply.ext or {}).get("timestamp") or -1)
        return told if told >= 0 else None


def _is_internal(topic: str) -> bool:
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _listed(queues: Iterable[MessageQueue]) -> str:
    return ", ".join(f"{queue.broker_name} {queue.queue_id}" for queue in sorted(queues)) or "none"
