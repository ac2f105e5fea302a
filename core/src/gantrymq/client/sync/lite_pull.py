"""Lite pull consumers for threads: each method waits for its namesake of `gantrymq.client.LitePullConsumer`.

with Client("127.0.0.1:9876") as client:
    consumer = client.lite_pull("ledger", "Orders", auto_commit=False)
    while messages := consumer.poll():
        ...
        consumer.commit()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gantrymq.client.group.lite_pull import POLL_TIMEOUT_S, QueuesChanged
from gantrymq.client.group.lite_pull import LitePullConsumer as AsyncLitePullConsumer
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.sync.base import SyncBaseClient
from gantrymq.client.sync.streams import MessageStream
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG

__all__ = ["LitePullConsumer"]


class LitePullConsumer(SyncBaseClient[AsyncLitePullConsumer]):
    """A consumer polled by one thread at a time. Errors as in `gantrymq.client.LitePullConsumer`."""

    def __iter__(self) -> MessageStream[ReceivedMessage]:
        """Poll messages one by one; a message counts as consumed when the loop requests the next one."""
        self._portal.check_caller()
        return self._client.track(MessageStream(self._portal, self._wrapped.__aiter__))

    def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Consume *topic* as well, or with another expression, as a member of the group."""
        self._portal.call(lambda: self._wrapped.subscribe(topic, expression, expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming *topic*. Does nothing if it is not subscribed."""
        self._portal.call(lambda: self._wrapped.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], *, expression: str = ALL, expression_type: str = TAG) -> None:
        """Read exactly *queues*; queues that were assigned before keep their positions."""
        self._portal.call(lambda: self._wrapped.assign(queues, expression=expression, expression_type=expression_type))

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The assigned queues, sorted."""
        return self._portal.call_sync(lambda: self._wrapped.assignment)

    def wait_assigned(self, timeout_s: float = 10.0) -> tuple[MessageQueue, ...]:
        """Wait until every subscribed topic was rebalanced, and return the assigned queues. Raises CallTimeout."""
        return self._portal.call(lambda: self._wrapped.wait_assigned(timeout_s))

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the readable queues of *topic*."""
        return self._portal.call(lambda: self._wrapped.queues(topic))

    def on_queues_changed(self, topic: str, listener: QueuesChanged) -> tuple[MessageQueue, ...]:
        """Call ``listener(topic, queues)`` when the queues of *topic* change; returns the current queues.

        It is called in the client's own thread: it must not call the client or block.
        """
        return self._portal.call(lambda: self._wrapped.on_queues_changed(topic, listener))

    def poll(self, timeout_s: float = POLL_TIMEOUT_S, max_count: int = 32) -> tuple[ReceivedMessage, ...]:
        """Return the waiting messages of one queue, none after *timeout_s*.

        Messages of the previous poll count as consumed.
        """
        return self._portal.call(lambda: self._wrapped.poll(timeout_s, max_count))

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling *queues*, or all assigned queues if none is given; messages already pulled are still polled."""
        self._portal.call_sync(lambda: self._wrapped.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Pull *queues* again, or all if none is given."""
        self._portal.call_sync(lambda: self._wrapped.resume(*queues))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at *offset* of *queue*; messages pulled but not polled are discarded."""
        self._portal.call(lambda: self._wrapped.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """`seek` to the first message of the queue."""
        self._portal.call(lambda: self._wrapped.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """`seek` to the end of the queue."""
        self._portal.call(lambda: self._wrapped.seek_to_end(queue))

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to poll."""
        return self._portal.call_sync(lambda: self._wrapped.position(queue))

    def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at *time_ms* or later; near the end if there is none."""
        return self._portal.call(lambda: self._wrapped.offset_for_timestamp(queue, time_ms))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the stored offset of the group in *queue*, None if it has none."""
        return self._portal.call(lambda: self._wrapped.committed(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store *offsets*, None for those of the messages polled so far; returns when the brokers have them."""
        self._portal.call(lambda: self._wrapped.commit(offsets))
