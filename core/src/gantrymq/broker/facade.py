"""The implementation of `gantrymq.interfaces.Broker`, through which plugins use the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gantrymq.broker.counted_plugins import counted, counted_listener, name_of
from gantrymq.broker.counting.plugin_metrics import read_metrics
from gantrymq.broker.metrics import collect_metrics
from gantrymq.broker.parts import Parts
from gantrymq.broker.sending.arrivals import Arrivals
from gantrymq.broker.tables.clients import BROADCASTING, ConsumerGroup, Member
from gantrymq.broker.wire.router import RequestRouter
from gantrymq.errors import RequestRefused, install_command
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import (
    AllocationStrategy,
    Bounds,
    BrokerMetrics,
    Connection,
    FilterType,
    GetLimit,
    GetResult,
    Heartbeat,
    MessageFilter,
    MetricFamily,
    OnlineClient,
    PullAnswer,
    PullRequest,
    PutResult,
    PutStatus,
    QueueStatus,
    SendAnswer,
    SendRequest,
    StoreMessage,
)
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq.model.subscription import Subscription
from gantrymq.model.topic import TopicConfig
from gantrymq.world.folders import make_durable_dirs

log = logging.getLogger(__name__)


class BrokerFacade:
    """The broker as passed to plugins; `gantrymq.interfaces.Broker` documents the methods."""

    def __init__(self, parts: Parts, router: RequestRouter) -> None:
        self.world = parts.world
        self.settings = parts.settings
        self.store = parts.store
        self.store_host = parts.identity.packed_host
        self.root = parts.state.root
        self.bit_maps, self.clean_start = parts.bit_maps, parts.clean_start
        self._parts = parts
        self._router = router
        self._strategies: dict[str, AllocationStrategy] = {}  # created on first use
        self._arrivals = Arrivals(parts.pipeline, parts.settings, parts.stats)

    async def send(self, request: SendRequest) -> SendAnswer:
        """Send a message like a client."""
        return await self._parts.sends.send(request)

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates."""
        (result,) = await self._parts.sends.put([message])
        if result.status is not PutStatus.OK:
            raise RequestRefused(result.status.value, result.problem or result.status.name)
        return result

    def put_all(
        self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False
    ) -> Awaitable[Sequence[PutResult]]:
        """Store several messages in one append."""
        return self._parts.sends.put(messages, skip_interceptors=skip_interceptors)

    async def pull(self, request: PullRequest, connection: Connection | None = None) -> PullAnswer:
        """Pull like a client."""
        return await self._parts.pulls.pull(request, connection)

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without a filter."""
        found = self.store.get(queue, queue_offset, limit, None)
        return found if isinstance(found, GetResult) else await found

    def read(self, log_offset: int) -> RecordView | None:
        """Return the record at *log_offset*."""
        return self.store.read(log_offset)

    def bounds(self, queue: Queue) -> Bounds:
        """Return the offset range of a queue."""
        return self.store.bounds(queue)

    def topic(self, name: str) -> TopicConfig | None:
        """Return the configuration of a topic."""
        return self._parts.topics.get(name)

    def topic_for_send(self, request: SendRequest) -> TopicConfig:
        """Return the topic of a send, creating it like a send does."""
        return self._parts.preparation.topic_of(request)

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return all topics; read-only."""
        return self._parts.topics.view

    def is_own_topic(self, name: str) -> bool:
        """Return whether a topic belongs to the broker."""
        return self._parts.topics.is_own(name)

    def create_topic(self, topic: TopicConfig) -> None:
        """Create or replace a topic, persist it and register it with the name servers."""
        self._parts.topics.put(topic)

    def group(self, name: str) -> GroupConfig | None:
        """Return the configuration of a group."""
        return self._parts.groups.known(name)

    def require_group(self, name: str) -> GroupConfig:
        """Return the configuration of a group, creating it if allowed."""
        return self._parts.groups.require(name)

    def committed(self, group: str, queue: Queue) -> int | None:
        """Return the committed queue offset of a group."""
        return self._parts.offsets.committed(group, queue)

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set the committed queue offset of a group."""
        self._parts.offset_commits.commit(group, queue, queue_offset)

    def take_reset(self, group: str, queue: Queue) -> int | None:
        """Return the offset of a pending reset once."""
        return self._parts.offsets.take_reset(group, queue)

    def count_delivery(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count messages that a plugin delivered to a group."""
        self._parts.stats.pulled(messages, topic, group, size)

    async def cluster_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the readable queues of a topic on every broker of its route."""
        return await self._parts.cluster_queues.readable(topic)

    def allocation(self, name: str) -> AllocationStrategy:
        """Return an allocation strategy with its default settings."""
        if name not in self._strategies:
            offered = self._parts.plugins.allocations
            if name not in offered:
                known = ", ".join(sorted(offered)) or "none"
                raise RequestRefused(
                    1,
                    f"no installed plugin offers the allocation strategy {name} (there is {known}); install one with: "
                    + install_command("gantrymq-allocate"),
                )
            self._strategies[name] = offered[name]({})
        return self._strategies[name]

    def producers(self, group: str) -> Sequence[OnlineClient]:
        """Return the connected producers of a group."""
        return _online(self._parts.clients.producers(group))

    def producer(self, client_id: str) -> OnlineClient | None:
        """Return the connected producer with this client id."""
        found = self._parts.clients.producer(client_id)
        return None if found is None else _online([found])[0]

    def consumers(self, group: str) -> Sequence[OnlineClient]:
        """Return the connected consumers of a group."""
        online = self._parts.clients.consumer_group(group)
        return _online(online.members.values()) if online is not None else ()

    def broadcasts(self, group: str) -> bool:
        """Return whether an online group consumes in broadcasting mode."""
        online = self._parts.clients.consumer_group(group)
        return online is not None and online.message_model == BROADCASTING

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return the subscription of an online group to a topic."""
        online = self._parts.clients.consumer_group(group)
        return online.subscriptions.get(topic) if online is not None else None

    def filter_of(self, subscription: Subscription) -> MessageFilter:
        """Return the compiled filter of a subscription."""
        return self._parts.filters.compiled(subscription)

    def guard_filters(self, guard: Callable[[Subscription, FilterType], MessageFilter | None]) -> None:
        """Let *guard* compile new subscriptions."""
        self._parts.filters.guard_with(guard)

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> Sequence[MessageQueue]:
        """Lock queues for a client, or renew its locks."""
        return self._parts.locks.lock(group, client_id, queues)

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release queues that a client holds."""
        self._parts.locks.unlock(group, client_id, queues)

    def queue_status(self, group: str, queue: Queue) -> QueueStatus:
        """Return the state of a group's consumption of a queue."""
        parts, (topic, queue_id) = self._parts, queue
        last, held = parts.offsets.last_pull(group, queue), parts.held.of(group, queue)
        locked_by = parts.locks.holder(group, MessageQueue(topic, parts.identity.broker_name, queue_id))
        reset, allowed = parts.offsets.waiting_reset(group, queue), parts.groups.may_read(group, topic)
        return QueueStatus(last, held, reset, locked_by, allowed)

    def hold(
        self,
        queue: Queue,
        queue_offset: int,
        match: MessageFilter,
        timeout_s: float,
        connection: Connection | None,
        wake: Callable[[], None],
    ) -> bool:
        """Call *wake* when a message arrives, soon if one exists already, or at the timeout."""
        counted = counted_listener(wake, self._parts.stats)

        def wake_up() -> None:
            try:
                if connection is None or not connection.closed:
                    counted()
            except Exception:
                log.exception("a plugin that waited for messages of %s failed", queue)

        if connection is not None and connection.closed:
            return False
        if self.store.bounds(queue).max_offset > queue_offset:
            asyncio.get_running_loop().call_soon(wake_up)
            return True
        return self._parts.held.hold(queue, queue_offset, match, timeout_s, connection, wake_up)

    def on_arrival(self, callback: Callable[[Queue, int], Any], queue: Queue | None = None) -> Callable[[], None]:
        """Call *callback* with queue and new maximum offset after each publication."""
        return self._arrivals.tell(callback, queue)

    def on_acknowledged(self, callback: Callable[[int, float], Any]) -> None:
        """Call *callback* with number of messages and seconds after each acknowledged batch."""
        self._parts.pipeline.on_acknowledged(counted_listener(callback, self._parts.stats))

    def on_heartbeat(self, check: Callable[[Heartbeat, Connection], Any]) -> None:
        """Call *check* with each heartbeat; it may refuse it."""
        stats = self._parts.stats
        self._parts.heartbeats.checks.append(counted(check, lambda: stats.plugin_failed("listener", name_of(check))))

    def on_connection_closed(self, callback: Callable[[Connection], Any]) -> None:
        """Call *callback* with each closed connection."""
        self._router.on_connection_lost(self._logged(callback))

    def on_subscriptions_changed(self, callback: Callable[[str], Any]) -> None:
        """Call *callback* with a consumer group after its members or topics change."""
        told = self._logged(callback)

        def changed(group: ConsumerGroup) -> None:
            told(group.name)

        self._parts.clients.on_change(changed)

    def on_deleted(self, callback: Callable[[str, str], Any]) -> None:
        """Call *callback* with each deleted topic or group."""
        self._parts.deleted.append(self._logged(callback))

    def metrics(self) -> BrokerMetrics:
        """Return a snapshot of the broker's metrics."""
        return collect_metrics(self._parts, self._router.connections)

    def plugin_metrics(self) -> Iterator[MetricFamily]:
        """Iterate over the metrics of plugins."""
        return read_metrics(tuple(self._parts.plugin_metrics))

    def register_metrics(self, read: Callable[[], MetricFamily]) -> None:
        """Add a metric of a plugin."""
        self._parts.plugin_metrics.append(
            counted(read, lambda: self._parts.stats.plugin_failed("figure", name_of(read)))
        )

    def state_folder(self, plugin: str) -> Path:
        """Return a folder of the store for files of *plugin*."""
        folder = self.root / "plugins" / plugin
        make_durable_dirs(self.world.files, folder)
        return folder

    def _logged(self, callback: Callable[..., Any]) -> Callable[..., None]:
        """Wrap *callback* so that exceptions are logged and not raised."""
        counted = counted_listener(callback, self._parts.stats)

        def tell(*what: Any) -> None:
            try:
                counted(*what)
            except Exception:
                log.exception("a plugin's listener failed")

        return tell


def _online(members: Iterable[Member]) -> list[OnlineClient]:
    return [OnlineClient(member.connection, member.client_id, member.version) for member in members]
