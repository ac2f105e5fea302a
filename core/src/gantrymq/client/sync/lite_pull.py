"""Polling in threads: each method waits for the one of `gantrymq.client.LitePullConsumer` with its name.

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
    """Polled by one thread at a time. Errors are those of `gantrymq.client.LitePullConsumer`."""

    def __iter__(self) -> MessageStream[ReceivedMessage]:
        """Messages one by one, each polled: it counts as consumed when the loop asks for the next one."""
        self._portal.check_caller()
        return self._client.track(MessageStream(self._portal, self._wrapped.__aiter__))

    def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Consume *topic* (as well), or with another expression, as a member of the group."""
        self._portal.call(lambda: self._wrapped.subscribe(topic, expression, expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Consume *topic* no more; harmless where it was not consumed."""
        self._portal.call(lambda: self._wrapped.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], *, expression: str = ALL, expression_type: str = TAG) -> None:
        """Read *queues* and no others; those that it had go on where they are."""
        self._portal.call(lambda: self._wrapped.assign(queues, expression=expression, expression_type=expression_type))

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that it has, sorted."""
        return self._portal.call_sync(lambda: self._wrapped.assignment)

    def wait_assigned(self, timeout_s: float = 10.0) -> tuple[MessageQueue, ...]:
        """The queues that it has, once every topic subscribed to was shared out. Raises CallTimeout."""
        return self._portal.call(lambda: self._wrapped.wait_assigned(timeout_s))

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Readable queues of *topic*."""
        return self._portal.call(lambda: self._wrapped.queues(topic))

    def on_queues_changed(self, topic: str, listener: QueuesChanged) -> tuple[MessageQueue, ...]:
        """Call ``listener(topic, queues)`` whenever the queues of *topic* change; returns those of now.

        It is called in the client's own thread: it may not call the client, nor take long.
        """
        return self._portal.call(lambda: self._wrapped.on_queues_changed(topic, listener))

    def poll(self, timeout_s: float = POLL_TIMEOUT_S, max_count: int = 32) -> tuple[ReceivedMessage, ...]:
        """Messages of one queue, none when the time is over; those of the poll before count as consumed."""
        return self._portal.call(lambda: self._wrapped.poll(timeout_s, max_count))

    def pause(self, *queues: MessageQueue) -> None:
        """Pull *queues* no more, all that it has where none is named; what is pulled is still polled."""
        self._portal.call_sync(lambda: self._wrapped.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Pull *queues* again, all where none is named."""
        self._portal.call_sync(lambda: self._wrapped.resume(*queues))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at *offset* of *queue*: what was pulled of it and not polled is forgotten."""
        self._portal.call(lambda: self._wrapped.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """`seek` to the first message that the queue still has."""
        self._portal.call(lambda: self._wrapped.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """`seek` to the message that comes next."""
        self._portal.call(lambda: self._wrapped.seek_to_end(queue))

    def position(self, queue: MessageQueue) -> int:
        """The offset that `poll` goes on at."""
        return self._portal.call_sync(lambda: self._wrapped.position(queue))

    def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message stored at *time_ms* or later; near the end if there is none."""
        return self._portal.call(lambda: self._wrapped.offset_for_timestamp(queue, time_ms))

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's stored offset in *queue*, None when it has none."""
        return self._portal.call(lambda: self._wrapped.committed(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store *offsets*, None for what was polled so far; done when the brokers have it."""
        self._portal.call(lambda: self._wrapped.commit(offsets))
