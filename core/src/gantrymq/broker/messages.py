"""Operations on messages for plugins and for every protocol (`gantrymq.interfaces.Messages`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from gantrymq.broker.consuming.pull import Pulls
from gantrymq.broker.counted_plugins import CountFailure, logged_listener
from gantrymq.broker.sending.arrivals import Arrivals
from gantrymq.broker.sending.pipeline import Pipeline
from gantrymq.broker.sending.prepare import SendPreparation
from gantrymq.broker.sending.send import Sends
from gantrymq.errors import RequestRefused
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import (
    ClientChannel,
    GetLimit,
    GetResult,
    MessageStore,
    PullAnswer,
    PullRequest,
    PutResult,
    PutStatus,
    SendAnswer,
    SendRequest,
    StoreMessage,
)
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig

__all__ = ["BrokerMessages"]


class BrokerMessages:
    """Calls the part of the broker that implements each operation."""

    def __init__(
        self,
        store: MessageStore,
        sends: Sends,
        preparation: SendPreparation,
        pulls: Pulls,
        pipeline: Pipeline,
        arrivals: Arrivals,
        failed: CountFailure,
    ) -> None:
        """*failed* counts exceptions of listeners."""
        self._store = store
        self._sends = sends
        self._preparation = preparation
        self._pulls = pulls
        self._pipeline = pipeline
        self._arrivals = arrivals
        self._failed = failed

    async def send(self, request: SendRequest) -> SendAnswer:
        """Send a message like a client."""
        return await self._sends.send(request)

    def topic_for_send(self, request: SendRequest) -> TopicConfig:
        """Return the topic of a send, creating it like a send does."""
        return self._preparation.topic_of(request)

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates."""
        (result,) = await self._sends.put([message])
        if result.status is not PutStatus.OK:
            raise RequestRefused(result.status.value, result.problem or result.status.name)
        return result

    def put_all(
        self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False
    ) -> Awaitable[Sequence[PutResult]]:
        """Store several messages in one append."""
        return self._sends.put(messages, skip_interceptors=skip_interceptors)

    async def pull(self, request: PullRequest, connection: ClientChannel | None = None) -> PullAnswer:
        """Pull like a client."""
        return await self._pulls.pull(request, connection)

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without a filter."""
        found = self._store.get(queue, queue_offset, limit, None)
        return found if isinstance(found, GetResult) else await found

    def read(self, log_offset: int) -> RecordView | None:
        """Return the record at *log_offset*."""
        return self._store.read(log_offset)

    def on_arrival(self, callback: Callable[[Queue, int], object], queue: Queue | None = None) -> Callable[[], None]:
        """Call *callback* with queue and new maximum offset after each publication."""
        return self._arrivals.add(callback, queue)

    def on_acknowledged(self, callback: Callable[[int, float], object]) -> None:
        """Call *callback* with number of messages and seconds after each acknowledged batch."""
        self._pipeline.on_acknowledged(logged_listener(callback, self._failed, "acknowledged messages"))
