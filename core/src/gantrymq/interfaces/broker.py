"""The broker as plugins see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gantrymq.config import Settings
from gantrymq.formats.record import RecordView
from gantrymq.interfaces.allocation import AllocationStrategy
from gantrymq.interfaces.connection import Connection
from gantrymq.interfaces.filtering import BitMaps, FilterType, MessageFilter
from gantrymq.interfaces.metrics import BrokerMetrics, MetricFamily
from gantrymq.interfaces.pulling import PullAnswer, PullRequest, QueueStatus
from gantrymq.interfaces.sending import SendAnswer, SendRequest
from gantrymq.interfaces.store import Bounds, GetLimit, GetResult, MessageStore, PutResult, StoreMessage
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq.model.subscription import Subscription
from gantrymq.model.topic import TopicConfig
from gantrymq.world import World

__all__ = ["Broker", "ConsumerHeartbeat", "Heartbeat", "OnlineClient"]


class OnlineClient(NamedTuple):
    """A group member, as described by its heartbeats."""

    connection: Connection
    client_id: str
    version: int  # protocol version of the client


class ConsumerHeartbeat(NamedTuple):
    """The part of a heartbeat about one consumer group."""

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    unit_mode: bool
    subscriptions: Sequence[Subscription] | None  # None: unchanged


class Heartbeat(NamedTuple):
    """A heartbeat of a client."""

    client_id: str
    language: str  # RocketMQ's name for it
    version: int  # protocol version of the client
    producers: Sequence[str]  # groups
    consumers: Sequence[ConsumerHeartbeat]
    fingerprint: int = 0  # hash of the subscriptions; 0 from clients without heartbeat version 2


class Broker(Protocol):
    """The broker's interface for plugins. All methods must be called from the event loop's thread."""

    @property
    def world(self) -> World:
        """Clock, network and files."""

    @property
    def settings(self) -> Settings:
        """The current settings."""

    @property
    def store(self) -> MessageStore:
        """The open store."""

    @property
    def store_host(self) -> bytes:
        """The broker's address in the encoding of records, see model.hosts."""

    @property
    def root(self) -> Path:
        """The store's folder; RocketMQ's configuration files are in its ``config`` subfolder."""

    @property
    def clean_start(self) -> bool:
        """Whether the store was shut down normally before this start."""

    @property
    def bit_maps(self) -> BitMaps:
        """Functions that compute the bits of ext units; plugins add theirs. A store without ext files ignores them."""

    # --- messages

    async def send(self, request: SendRequest) -> SendAnswer:
        """Send a message with the same checks, interceptors, queue targets, gates and counters as a client's send.

        Raises:
            RequestError: a check failed (with RocketMQ's code) or the store refuses the message.
            StoreError: a gate failed.
        """

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates. Return once it is acknowledged and visible.

        Raises:
            RequestError: an interceptor or the store refuses it.
            StoreError: a gate failed or took too long.
        """

    def put_all(
        self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False
    ) -> Awaitable[Sequence[PutResult]]:
        """Store several messages in one append, together with the others of this loop iteration.

        Return one result per message, in order. A message that the store refuses does not affect the others: check the
        status of each result.

        Args:
            skip_interceptors: do not call interceptors; for messages that passed them before. Messages of the
                broker's own topics never pass interceptors.

        Raises:
            RequestError: an interceptor refuses a message; none is stored.
            StoreError: a gate failed or took too long.
        """

    async def pull(self, request: PullRequest, connection: Connection | None = None) -> PullAnswer:
        """Pull like a client, with its checks and filter. Wait for messages as long as the request allows.

        Args:
            connection: the connection the pull belongs to; a waiting pull ends when it closes and counts against its
                limit.

        Raises:
            RequestError: a check failed, with RocketMQ's code.
            ConnectionLost: *connection* was closed while the pull was waiting.
        """

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without filter, subscription or checks."""

    def read(self, log_offset: int) -> RecordView | None:
        """Return the record at *log_offset*."""

    def bounds(self, queue: Queue) -> Bounds:
        """Return the offset range of a queue."""

    # --- topics, groups, offsets

    def topic(self, name: str) -> TopicConfig | None:
        """Return the configuration of a topic, None if it does not exist."""

    def topic_for_send(self, request: SendRequest) -> TopicConfig:
        """Return the topic of a send, creating it like a send does; for plugins that store messages of clients.

        Raises:
            RequestError: a check of broker or topic failed, with RocketMQ's code.
        """

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return all topics; read-only."""

    def is_own_topic(self, name: str) -> bool:
        """Return whether a topic belongs to the broker: a system topic, or one named after the broker or cluster."""

    def create_topic(self, topic: TopicConfig) -> None:
        """Create or replace a topic, persist it and register it with the name servers."""

    def group(self, name: str) -> GroupConfig | None:
        """Return the configuration of a group, None if it does not exist."""

    def require_group(self, name: str) -> GroupConfig:
        """Return the configuration of a group, creating it if allowed. Raises GroupNotExist."""

    def committed(self, group: str, queue: Queue) -> int | None:
        """Return the committed queue offset of a group, None if there is none."""

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set the committed queue offset of a group.

        Raises:
            InvalidParameter: the offset is negative or greater than the queue's maximum offset.
            ServiceNotAvailable: the offset file could not be written for too long.
        """

    def take_reset(self, group: str, queue: Queue) -> int | None:
        """Return the offset of a pending reset once, None if there is none.

        The offset is already committed. Until the reset is taken, by this method or by a pull, commits of the group are
        ignored.
        """

    def count_delivery(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count messages that a plugin delivered to a group, *size* bytes in total, like those of pulls."""

    async def cluster_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the readable queues of a topic on every broker of its route, in no particular order.

        Raises:
            ClientError: no name server responds.
        """

    def allocation(self, name: str) -> AllocationStrategy:
        """Return an allocation strategy with its default settings. Raises RequestRefused (code 1) if there is none."""

    # --- connected clients

    def producers(self, group: str) -> Sequence[OnlineClient]:
        """Return the connected producers of a group, in order of registration."""

    def producer(self, client_id: str) -> OnlineClient | None:
        """Return the connected producer with this client id in any group; the most recent one if there are several."""

    def consumers(self, group: str) -> Sequence[OnlineClient]:
        """Return the connected consumers of a group, in order of registration."""

    def broadcasts(self, group: str) -> bool:
        """Return whether an online group consumes in broadcasting mode."""

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return the subscription of an online group to a topic."""

    def filter_of(self, subscription: Subscription) -> MessageFilter:
        """Return the compiled filter of a subscription; results are cached.

        Raises:
            SubscriptionParseFailed: the expression does not compile, or raised an error while running.
            RequestRefused: no plugin serves its type (code 1).
        """

    def guard_filters(self, guard: Callable[[Subscription, FilterType], MessageFilter | None]) -> None:
        """Let *guard* compile each new subscription; if it returns None, the filter type compiles it.

        Its filters may raise only FilterFailed. It is called again after the attributes of the subscription's group
        change.
        """

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> Sequence[MessageQueue]:
        """Lock queues for a client of a group, or renew its locks, for 60 s. Return the queues that it holds."""

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release queues that a client holds; locks of other clients are kept."""

    def queue_status(self, group: str, queue: Queue) -> QueueStatus:
        """Return the current state of a group's consumption of a queue."""

    # --- waiting and notifications

    def hold(
        self,
        queue: Queue,
        queue_offset: int,
        match: MessageFilter,
        timeout_s: float,
        connection: Connection | None,
        wake: Callable[[], None],
    ) -> bool:
        """Call *wake* once: when a matching message at *queue_offset* or later arrives, or at the timeout.

        If the queue already has a message at that offset, matching or not, *wake* is called soon: read first, then hold
        at the offset where the read ended. *wake* is also called when the topic changes and when the broker stops, and
        never after *connection* is closed. Exceptions of *wake* are logged.

        Args:
            timeout_s: at most 600.

        Returns:
            False if *wake* will not be called: the connection or the broker is at its limit of holds, the connection
            is closed, or the broker is stopping.
        """

    def on_arrival(self, callback: Callable[[Queue, int], Any], queue: Queue | None = None) -> Callable[[], None]:
        """Call *callback* with queue and new maximum offset after each publication. Its exceptions are logged.

        Args:
            queue: the queue to watch; None for all queues.

        Returns:
            A function that removes the callback.
        """

    def on_acknowledged(self, callback: Callable[[int, float], Any]) -> None:
        """Call *callback* after each batch of messages has passed its gates and is visible.

        Arguments are the number of messages and the seconds from append to acknowledgement. Exceptions are logged.
        """

    def on_heartbeat(self, check: Callable[[Heartbeat, Connection], Any]) -> None:
        """Call *check* with each heartbeat before it is processed. If it raises, the heartbeat is refused."""

    def on_connection_closed(self, callback: Callable[[Connection], Any]) -> None:
        """Call *callback* with each closed connection that has sent a request. Exceptions are logged."""

    def on_subscriptions_changed(self, callback: Callable[[str], Any]) -> None:
        """Call *callback* with a consumer group after its members or topics change. Exceptions are logged."""

    def on_deleted(self, callback: Callable[[str, str], Any]) -> None:
        """Call *callback* with each deleted topic and "", or with "" and each group deleted with its offsets.

        Exceptions are logged.
        """

    # --- metrics and files

    def metrics(self) -> BrokerMetrics:
        """Return a snapshot of the broker's metrics; for monitoring, too expensive to call per message."""

    def plugin_metrics(self) -> Iterator[MetricFamily]:
        """Iterate over the metrics of plugins. Each is read when it is yielded, so the caller may yield to the loop."""

    def register_metrics(self, read: Callable[[], MetricFamily]) -> None:
        """Add a metric of the plugin to `metrics`: *read* is called for each snapshot.

        It must return immediately, from memory. If it raises, the exception is logged and counted, and the metric is
        omitted.
        """

    def state_folder(self, plugin: str) -> Path:
        """Return a folder of the store for files of *plugin*; created on first use."""
