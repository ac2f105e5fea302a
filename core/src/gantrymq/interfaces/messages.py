"""Operations on messages, for plugins and for every protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from gantrymq.formats.record import RecordView
from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.interfaces.pulling import PullAnswer, PullRequest
from gantrymq.interfaces.sending import RecallAnswer, RecallRequest, SendAnswer, SendBackRequest, SendRequest
from gantrymq.interfaces.store import BoundaryType, GetLimit, GetResult, PutResult, QueryResult, StoreMessage
from gantrymq.interfaces.transactions import EndTransaction, Outcome
from gantrymq.model.access import Principal
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig

__all__ = ["ClientOperations", "MessageEvents", "Messages", "QueueStatistics", "StoredMessages"]


class QueueStatistics(NamedTuple):
    """The messages in one queue."""

    queue: Queue
    min_offset: int
    max_offset: int
    updated_ms: int  # store time of the newest message, 0 if there is none


class ClientOperations(Protocol):
    """Operations that serve requests of clients, for every protocol, with all checks and counters."""

    async def send(self, request: SendRequest) -> SendAnswer:
        """Send a message with the same checks, interceptors, queue targets, gates and counters as a client's send.

        Raises:
            RequestError: a check failed (with RocketMQ's code) or the store refuses the message.
            StoreError: a gate failed.
        """

    def topic_for_send(self, request: SendRequest) -> TopicConfig:
        """Return the topic of a send, creating it like a send does; for plugins that store messages of clients.

        Raises:
            RequestError: a check of the sender, the broker or the topic failed, with RocketMQ's code.
            ServiceNotAvailable: this broker is a replica, or changes its role.
        """

    async def send_back(self, request: SendBackRequest) -> PutResult | None:
        """Store a failed message for its next attempt or as a dead letter, and return once it is acknowledged.

        Return None, without storing it, if the group has no retry queues.

        Raises:
            GroupNotExist: the group does not exist.
            NoPermission: broker or retry topic are not writable.
            MessageIllegal: no plugin supports delays.
            RequestRefused: code 1, there is no message, or it cannot be stored again.
            StoreError: the disk cannot be read, or a gate failed or took too long.
        """

    def end_transaction(self, request: EndTransaction) -> Awaitable[Outcome]:
        """Commit or roll back a transaction. An undecided state is checked again later.

        Raises:
            RequestNotSupported: no plugin offers transactions.
            RequestError: the half message belongs to another producer, or there is none (when awaited); code 11 on a
                replica.
        """

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Recall a waiting timed message.

        Raises:
            RequestNotSupported: no plugin recalls messages.
            RequestError: a check failed, with RocketMQ's code; 604 if the message is due or the handle is not valid, 11
                on a replica.
        """

    async def pull(self, request: PullRequest, connection: ClientChannel | None = None) -> PullAnswer:
        """Pull like a client, with its checks and filter. Wait for messages as long as the request allows.

        Args:
            connection: the connection the pull belongs to; a waiting pull ends when it closes and counts against its
                limit.

        Raises:
            RequestError: a check failed, with RocketMQ's code.
            ConnectionLost: *connection* was closed while the pull was waiting.
        """

    def suggest_broker(self, suggest: Callable[[PullRequest, PullAnswer], int]) -> None:
        """Let *suggest* choose the broker id that each answered pull recommends for the next one.

        Called on the hot path, once per answer. If it raises, the exception is logged and counted, and 0 (the master)
        is recommended. There is one such function; a later one replaces it.
        """


class StoredMessages(Protocol):
    """Messages as they are stored, for the messages of a plugin and for lookups."""

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates. Return once it is acknowledged and visible.

        A message that replicas do not confirm in time is stored like others.

        Raises:
            RequestError: an interceptor or the store refuses it.
            StoreError: a gate failed, or the disk took too long.
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
            StoreError: a gate failed, or the disk took too long.
        """

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without filter, subscription or checks."""

    def read(self, log_offset: int) -> RecordView | None:
        """Return the record at *log_offset*."""

    async def view(self, log_offset: int, principal: Principal | None = None) -> RecordView:
        """Return the message at *log_offset*, also from the disk, and of a deleted topic.

        Raises:
            RequestRefused: code 16, *principal* may not read the topic.
            RequestRefused: code 1, no message starts there.
            StoreError: the disk cannot be read.
        """

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int | None = None
    ) -> QueryResult | Awaitable[QueryResult]:
        """Return the newest *limit* records of a topic with a unique key or a KEYS entry, oldest first.

        Args:
            begin_ms, end_ms: window in store time, inclusive at both ends.
            limit: None: ``defaultQueryMaxNum``.

        Returns:
            The result, or an awaitable of it if the disk must be read.

        Raises:
            RequestNotSupported: the store does not support it.
        """

    async def offset_at(self, queue: Queue, time_ms: int, edge: BoundaryType = BoundaryType.LOWER) -> int:
        """Return the queue offset for a store time, clamped to the bounds.

        Raises RequestNotSupported if the store does not support it.
        """

    async def store_time(self, queue: Queue, queue_offset: int) -> int:
        """Return the store time (ms) of one message of a queue; -1 if there is none."""

    def statistics(self, topic: TopicConfig) -> AsyncIterator[QueueStatistics]:
        """Iterate over the queues of a topic.

        The caller yields to the loop now and then (`gantrymq.world.clock`).
        """


class MessageEvents(Protocol):
    """News of stored messages."""

    def on_arrival(self, callback: Callable[[Queue, int], Any], queue: Queue | None = None) -> Callable[[], None]:
        """Call *callback* with queue and new maximum offset after each publication. Its exceptions are logged.

        Args:
            queue: the queue to watch; None for all queues.

        Returns:
            A function that removes the callback.
        """

    def on_appended(self, callback: Callable[[int], Any]) -> Callable[[], None]:
        """Call *callback* with the end of the log after each append, before its gates; it must return at once.

        Exceptions are logged. Return a function that removes the callback.
        """

    def on_acknowledged(self, callback: Callable[[int, float], Any]) -> Callable[[], None]:
        """Call *callback* after each batch of messages has passed its gates and is visible.

        Arguments are the number of messages and the seconds from append to acknowledgement. Exceptions are logged.
        Return a function that removes the callback.
        """


class Messages(ClientOperations, StoredMessages, MessageEvents, Protocol):
    """Sends, pulls, reads and queries; `Broker.messages`."""
