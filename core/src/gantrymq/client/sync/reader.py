"""Readers for threads: each method waits for its namesake of `gantrymq.client.Reader`."""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.pull_result import PulledRecords, PullResult
from gantrymq.client.reading.reader import Reader as AsyncReader
from gantrymq.client.sync.base import SyncBaseClient
from gantrymq.client.sync.streams import MessageStream
from gantrymq.model.queue import MessageQueue

__all__ = ["Reader"]


class Reader(SyncBaseClient[AsyncReader]):
    """Reads a topic, or single queues. Errors as in `gantrymq.client.Reader`."""

    def __iter__(self) -> MessageStream[ReceivedMessage]:
        """Iterate over the messages of the topic from ``start`` on; each loop starts there again."""
        self._portal.check_caller()
        return self._client.track(MessageStream(self._portal, self._wrapped.__aiter__))

    @property
    def positions(self) -> Mapping[MessageQueue, int]:
        """By queue: the offset after the last message delivered by the last loop; may be passed as ``start``."""
        return self._portal.call_sync(lambda: self._wrapped.positions)

    def read(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        end: int | None = None,
        follow: bool = False,
        expression: str | None = None,
        expression_type: str | None = None,
    ) -> MessageStream[ReceivedMessage]:
        """Iterate over the messages of one queue, from *offset* to before *end*; with *follow* also over later ones."""
        source = self._portal.call_sync(
            lambda: self._wrapped.read(
                queue, offset, end=end, follow=follow, expression=expression, expression_type=expression_type
            )
        )
        return self._client.track(MessageStream(self._portal, lambda: source))

    def queues(self, topic: str | None = None) -> tuple[MessageQueue, ...]:
        """Return the readable queues of *topic*, None for the reader's topic; queried at every call."""
        return self._portal.call(lambda: self._wrapped.queues(topic))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: str | None = None,
        expression_type: str | None = None,
        suspend_ms: int = 0,
    ) -> PullResult:
        """Return messages of one queue from *offset* on, as many as the broker returns at once."""
        return self._portal.call(
            lambda: self._wrapped.pull(
                queue,
                offset,
                max_count=max_count,
                expression=expression,
                expression_type=expression_type,
                suspend_ms=suspend_ms,
            )
        )

    def pull_records(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: str | None = None,
        expression_type: str | None = None,
        suspend_ms: int = 0,
    ) -> PulledRecords:
        """As `pull`, with the records as sent by the broker."""
        return self._portal.call(
            lambda: self._wrapped.pull_records(
                queue,
                offset,
                max_count=max_count,
                expression=expression,
                expression_type=expression_type,
                suspend_ms=suspend_ms,
            )
        )

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that the queue still has; 0 for an empty queue."""
        return self._portal.call(lambda: self._wrapped.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of the queue will get."""
        return self._portal.call(lambda: self._wrapped.max_offset(queue))

    def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at *time_ms* or later; near the end if there is none."""
        return self._portal.call(lambda: self._wrapped.offset_for_timestamp(queue, time_ms))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the stored offset of the group in *queue*, None if it has none."""
        return self._portal.call(lambda: self._wrapped.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store *offset* for the group in *queue*; returns when the broker has it."""
        return self._portal.call(lambda: self._wrapped.commit(queue, offset))
