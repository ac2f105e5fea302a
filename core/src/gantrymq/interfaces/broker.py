"""All of the broker that a plugin may touch."""

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
    """A member of a group, as its heartbeats tell."""

    connection: Connection
    client_id: str
    version: int  # of its protocol


class ConsumerHeartbeat(NamedTuple):
    """What a client says of one consumer group it is in."""

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    unit_mode: bool
    subscriptions: Sequence[Subscription] | None  # None leaves those that are known


class Heartbeat(NamedTuple):
    """What a client says of itself."""

    client_id: str
    language: str  # as RocketMQ names it
    version: int  # of its protocol
    producers: Sequence[str]  # groups
    consumers: Sequence[ConsumerHeartbeat]
    fingerprint: int = 0  # of its subscriptions; 0 from clients that know no version 2


class Broker(Protocol):
    """What a plugin sees of the broker. Everything is called from the event loop's thread."""

    @property
    def world(self) -> World:
        """Clock, network and files."""

    @property
    def settings(self) -> Settings:
        """The values in force."""

    @property
    def store(self) -> MessageStore:
        """The open store."""

    @property
    def store_host(self) -> bytes:
        """The broker's address as records hold it, see model.hosts."""

    @property
    def root(self) -> Path:
        """The store's folder; RocketMQ's small files lie in its ``config``."""

    @property
    def clean_start(self) -> bool:
        """Whether the store was stopped normally before this start."""

    @property
    def bit_maps(self) -> BitMaps:
        """Who makes the bits of ext units, to be added to; a store without ext files asks nobody."""

    # --- messages

    async def send(self, request: SendRequest) -> SendAnswer:
        """Send as a client does: with its checks, interceptors, placing, gates and counters.

        Raises:
            RequestError: with RocketMQ's code for the first check that fails, or the store refuses the message.
            StoreError: a gate failed.
        """

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates; returns once it is acknowledged and visible.

        Raises:
            RequestError: an interceptor or the store refuses it.
            StoreError: a gate failed or took too long.
        """

    def put_all(
        self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False
    ) -> Awaitable[Sequence[PutResult]]:
        """Store several messages as one append, that of this turn; a result for each, in order.

        One that the store refuses leaves the others alone: look at each result's status.

        Args:
            skip_interceptors: do not call interceptors; for messages that passed them before. Messages of the
                broker's own topics never pass interceptors.

        Raises:
            RequestError: an interceptor refuses one, and none is stored.
            StoreError: a gate failed or took too long.
        """

    async def pull(self, request: PullRequest, connection: Connection | None = None) -> PullAnswer:
        """Pull as a client does: checks, filter, and as long a wait as the request allows.

        Args:
            connection: whose pull it is; one that waits ends when it closes, and counts for it.

        Raises:
            RequestError: with RocketMQ's code for the first check that fails.
            ConnectionLost: *connection* closed while the pull waited.
        """

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without a filter, a subscription or any check."""

    def read(self, log_offset: int) -> RecordView | None:
        """The record at *log_offset*."""

    def bounds(self, queue: Queue) -> Bounds:
        """Offsets of a queue."""

    # --- topics, groups, progress

    def topic(self, name: str) -> TopicConfig | None:
        """A topic's configuration."""

    def topic_for_send(self, request: SendRequest) -> TopicConfig:
        """The topic that a send goes to, made where a send makes it; for a plugin that stores messages of clients.

        Raises:
            RequestError: with RocketMQ's code for the first check of broker and topic that fails.
        """

    def topics(self) -> Mapping[str, TopicConfig]:
        """Every topic; read-only."""

    def is_own_topic(self, name: str) -> bool:
        """Whether a topic is the broker's own: a system topic of RocketMQ, or one named after broker or cluster."""

    def create_topic(self, topic: TopicConfig) -> None:
        """Create or replace a topic, persist it and tell the name servers."""

    def group(self, name: str) -> GroupConfig | None:
        """A group's configuration."""

    def require_group(self, name: str) -> GroupConfig:
        """A group's configuration, created if it may be. Raises GroupNotExist."""

    def committed(self, group: str, queue: Queue) -> int | None:
        """Committed queue offset of a group, None when it has none."""

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set the committed queue offset of a group.

        Raises:
            InvalidParameter: it is below 0, or behind the end of the queue.
            ServiceNotAvailable: the file of the offsets could not be written for too long.
        """

    def take_reset(self, group: str, queue: Queue) -> int | None:
        """The offset that a group was reset to from outside, told once; None where there was no reset.

        It was committed already. Until it is taken, by this or by a pull, commits of the group are left out.
        """

    def count_delivery(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count messages of *size* bytes in all that a plugin read for a group, as those of pulls are."""

    async def cluster_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Queues of a topic that consumers may read, of every broker in its route; in no promised order.

        Raises:
            ClientError: no name server answers.
        """

    def allocation(self, name: str) -> AllocationStrategy:
        """An allocation strategy by name, with its default settings. Raises RefusedWith (code 1): nobody offers it."""

    # --- who is there

    def producers(self, group: str) -> Sequence[OnlineClient]:
        """The producers of a group that are connected, in the order in which they came."""

    def producer(self, client_id: str) -> OnlineClient | None:
        """The producer that is connected with this client id, in any group; of several the latest to come."""

    def consumers(self, group: str) -> Sequence[OnlineClient]:
        """The consumers of a group that are connected, in the order in which they came."""

    def broadcasts(self, group: str) -> bool:
        """Whether a group that is online consumes by broadcasting."""

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """What a group that is online subscribes to of a topic."""

    def filter_of(self, subscription: Subscription) -> MessageFilter:
        """A subscription compiled; the same one again costs nothing.

        Raises:
            SubscriptionParseFailed: the expression does not compile, or failed while running.
            RefusedWith: no plugin serves its type (code 1).
        """

    def guard_filters(self, guard: Callable[[Subscription, FilterType], MessageFilter | None]) -> None:
        """Have *guard* compile each subscription that is new; None where it leaves that to the type.

        Its filters raise FilterFailed alone. It is asked again when the attributes of the subscription's group changed.
        """

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> Sequence[MessageQueue]:
        """Lock queues for a client of a group, or renew its locks for 60 s; returns those that it holds now."""

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up queues that a client holds; those of others are left alone."""

    def queue_status(self, group: str, queue: Queue) -> QueueStatus:
        """How a group reads a queue, as it is now."""

    # --- waiting and hearing

    def hold(
        self,
        queue: Queue,
        queue_offset: int,
        match: MessageFilter,
        timeout_s: float,
        connection: Connection | None,
        wake: Callable[[], None],
    ) -> bool:
        """Call *wake* once: when a matching message with *queue_offset* or later arrives, or at the timeout.

        Where the queue has a message there already, matching or not, it is called soon: read first, and hold at the
        offset that the reading ended at. It is also called when the topic changes and when the broker stops, and never
        after *connection* closed. What it raises is logged.

        Args:
            timeout_s: at most 600.

        Returns:
            False, and *wake* will not be called, when the connection or the broker holds as many as it may, the
            connection is closed, or the broker stops.
        """

    def on_arrival(self, callback: Callable[[Queue, int], Any], queue: Queue | None = None) -> Callable[[], None]:
        """Call *callback* with queue and new maximum offset after each publication. What it raises is logged.

        Args:
            queue: the only one that is asked for; None for every queue.

        Returns:
            What ends it.
        """

    def on_acknowledged(self, callback: Callable[[int, float], Any]) -> None:
        """Call *callback* after each batch of messages that passed its gates and is visible.

        It gets how many messages the batch had, and the seconds from their append to their acknowledgement. What it
        raises is logged.
        """

    def on_heartbeat(self, check: Callable[[Heartbeat, Connection], Any]) -> None:
        """Call *check* with each heartbeat first. What it raises is the answer, and the client joins no group."""

    def on_connection_closed(self, callback: Callable[[Connection], Any]) -> None:
        """Call *callback* with each connection that asked something and closed. What it raises is logged."""

    def on_subscriptions_changed(self, callback: Callable[[str], Any]) -> None:
        """Call *callback* with a consumer group whose members or topics changed. What it raises is logged."""

    def on_deleted(self, callback: Callable[[str, str], Any]) -> None:
        """Call *callback* with each deleted topic and "", or with "" and each group deleted with its offsets.

        What it raises is logged.
        """

    # --- itself

    def metrics(self) -> BrokerMetrics:
        """What the broker counts of itself, as it is now; for monitoring, not for every message."""

    def plugin_metrics(self) -> Iterator[MetricFamily]:
        """The figures of plugins alone, each read when it is taken; others may have their turn in between."""

    def register_metrics(self, read: Callable[[], MetricFamily]) -> None:
        """Have figures of the plugin's own among `figures`: *what* is called at each reading.

        It returns at once, from what is in memory. What it raises is logged and counted, and that figure left out.
        """

    def state_folder(self, plugin: str) -> Path:
        """A folder of the store where *plugin* may keep its files; made on first use."""
