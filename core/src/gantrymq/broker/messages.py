"""Operations on messages for plugins and for every protocol (`gantrymq.interfaces.Messages`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial

import attrs

from gantrymq.broker.access import AccessControl
from gantrymq.broker.consuming.pull import Pulls
from gantrymq.broker.consuming.query import store_time_at, view_message
from gantrymq.broker.counted_plugins import CountFailure, counted, logged_listener, name_of
from gantrymq.broker.roles import Roles
from gantrymq.broker.sending.arrivals import Arrivals
from gantrymq.broker.sending.pipeline import Pipeline
from gantrymq.broker.sending.prepare import SendPreparation
from gantrymq.broker.sending.send import Sends
from gantrymq.broker.sending.sending_back import SendingBack
from gantrymq.broker.sending.transactions import Transactions
from gantrymq.config import Settings
from gantrymq.errors import RequestNotSupported, install_command
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import (
    BoundaryType,
    ClientChannel,
    EndTransaction,
    GetLimit,
    GetResult,
    MessageRecall,
    MessageStore,
    Outcome,
    PullAnswer,
    PullRequest,
    PutResult,
    PutStatus,
    QueryResult,
    QueueStatistics,
    RecallAnswer,
    RecallRequest,
    SendAnswer,
    SendBackRequest,
    SendRequest,
    Service,
    StoreCapabilities,
    StoreMessage,
    require_capability,
)
from gantrymq.model.access import Action, Principal, topic_resource
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig


@attrs.frozen
class BrokerMessages:
    """Calls the part of the broker that implements each operation."""

    _store: MessageStore
    _capabilities: StoreCapabilities
    _settings: Settings
    _sends: Sends
    _preparation: SendPreparation
    _pulls: Pulls
    _pipeline: Pipeline
    _arrivals: Arrivals
    _sending_back: SendingBack
    _transactions: Transactions | None
    _access: AccessControl
    _roles: Roles
    _services: Iterable[Service]
    _failed: CountFailure  # counts exceptions of listeners

    async def send(self, request: SendRequest) -> SendAnswer:
        """Send a message like a client."""
        return await self._sends.send(request)

    def topic_for_send(self, request: SendRequest) -> TopicConfig:
        """Return the topic of a send, creating it like a send does."""
        self._roles.check_message()
        return self._preparation.topic_of(request)

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates."""
        (result,) = await self._sends.put([message])
        if result.status is not PutStatus.OK:
            raise result.error()
        return result

    def put_all(
        self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False
    ) -> Awaitable[Sequence[PutResult]]:
        """Store several messages in one append."""
        return self._sends.put(messages, skip_interceptors=skip_interceptors)

    async def send_back(self, request: SendBackRequest) -> PutResult | None:
        """Store a failed message for its next attempt or as a dead letter."""
        self._roles.check_message()
        return await self._sending_back.send_back(request)

    def end_transaction(self, request: EndTransaction) -> Awaitable[Outcome]:
        """Commit or roll back a transaction."""
        if self._transactions is None:
            raise RequestNotSupported(
                f"no installed plugin offers transactions; install one with: {install_command('gantrymq-transaction')}"
            )
        self._roles.check_waiting()
        return self._transactions.end(request)

    def end_together(self, requests: Iterable[EndTransaction]) -> int:
        """Commit or roll back the first of *requests*, which get no response, and return their number."""
        if self._transactions is None or not self._transactions.batches:
            return 0
        self._roles.check_waiting()
        return self._transactions.end_together(requests, self._pipeline.has_gates)

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Recall a waiting timed message."""
        self._access.check_send(request.principal, request.topic)
        for service in self._services:
            if isinstance(service, MessageRecall):
                self._roles.check_waiting()
                return await service.recall(request)
        raise RequestNotSupported(
            f"no installed plugin recalls messages; install one with: {install_command('gantrymq-schedule')}"
        )

    async def pull(self, request: PullRequest, connection: ClientChannel | None = None) -> PullAnswer:
        """Pull like a client."""
        return await self._pulls.pull(request, connection)

    def suggest_broker(self, suggest: Callable[[PullRequest, PullAnswer], int]) -> None:
        """Set *suggest* as the function that chooses the broker id recommended by each pull's answer."""
        self._pulls.suggest_broker(counted(suggest, partial(self._failed, "listener", name_of(suggest)), refusals=()))

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without a filter."""
        found = self._store.get(queue, queue_offset, limit, None)
        return found if isinstance(found, GetResult) else await found

    def read(self, log_offset: int) -> RecordView | None:
        """Return the record at *log_offset*."""
        return self._store.read(log_offset)

    async def view(self, log_offset: int, principal: Principal | None = None) -> RecordView:
        """Return the message at *log_offset*, also from the disk."""
        record = await view_message(self._store, self._capabilities.view, log_offset)
        self._access.check(principal, Action.GET, topic_resource(record.topic))
        return record

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int | None = None
    ) -> QueryResult | Awaitable[QueryResult]:
        """Find messages by key."""
        queries = require_capability(self._capabilities.key_queries, "queries by key")
        most = self._settings.number("defaultQueryMaxNum") if limit is None else limit
        return queries.query(topic, key, begin_ms, end_ms, most)

    async def offset_at(self, queue: Queue, time_ms: int, edge: BoundaryType = BoundaryType.LOWER) -> int:
        """Return the queue offset for a store time."""
        search = require_capability(self._capabilities.time_search, "offsets by time")
        return await search.offset_at(queue, time_ms, edge)

    async def store_time(self, queue: Queue, queue_offset: int) -> int:
        """Return the store time of one message of a queue."""
        return await store_time_at(self._store, queue, queue_offset)

    async def statistics(self, topic: TopicConfig) -> AsyncIterator[QueueStatistics]:
        """Iterate over the queues of a topic."""
        for queue_id in range(max(topic.write_queues, topic.read_queues)):
            queue = Queue(topic.name, queue_id)
            min_offset, max_offset = self._store.bounds(queue)
            updated_ms = await self.store_time(queue, max_offset - 1) if max_offset > min_offset else 0
            yield QueueStatistics(queue, min_offset, max_offset, max(0, updated_ms))

    def on_arrival(self, callback: Callable[[Queue, int], object], queue: Queue | None = None) -> Callable[[], None]:
        """Call *callback* with queue and new maximum offset after each publication."""
        return self._arrivals.add(callback, queue)

    def on_appended(self, callback: Callable[[int], object]) -> Callable[[], None]:
        """Call *callback* with the end of the log after each append."""
        return self._pipeline.on_appended(logged_listener(callback, self._failed, "appended messages"))

    def on_acknowledged(self, callback: Callable[[int, float], object]) -> Callable[[], None]:
        """Call *callback* with number of messages and seconds after each acknowledged batch."""
        return self._pipeline.on_acknowledged(logged_listener(callback, self._failed, "acknowledged messages"))
