"""Pop consumers for threads: each method waits for its namesake of `gantrymq.client.PopConsumer`.

with Client("127.0.0.1:9876") as client:
    for message in client.pop_consumer("packing", "Orders"):
        print(message.body)
"""

from __future__ import annotations

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.consumer import PopConsumer as AsyncPopConsumer
from gantrymq.client.sync.base import SyncBaseClient
from gantrymq.client.sync.streams import MessageStream

__all__ = ["PopConsumer"]


class PopConsumer(SyncBaseClient[AsyncPopConsumer]):
    """A pop consumer for any number of threads. Errors as in `gantrymq.client.PopConsumer`."""

    def __iter__(self) -> MessageStream[ReceivedMessage]:
        """Iterate over messages one by one until the consumer is closed; each loop has its own iterator."""
        self._portal.check_caller()
        return self._client.track(MessageStream(self._portal, self._wrapped.__aiter__))

    def pop(
        self, max_count: int | None = None, *, poll_s: float | None = None, invisible_s: float | None = None
    ) -> tuple[ReceivedMessage, ...]:
        """Pop messages of any queue and hide them from other consumers; returns none if the time is over."""
        return self._portal.call(lambda: self._wrapped.pop(max_count, poll_s=poll_s, invisible_s=invisible_s))

    def ack(self, *messages: ReceivedMessage) -> None:
        """Acknowledge *messages*; returns when their brokers have it, with one request per broker."""
        self._portal.call(lambda: self._wrapped.ack(*messages))

    def nack(self, message: ReceivedMessage, delay_s: float | None = None) -> None:
        """Have *message* delivered again in *delay_s* seconds."""
        self._portal.call(lambda: self._wrapped.nack(message, delay_s))

    def change_invisible_time(self, message: ReceivedMessage, invisible_s: float) -> None:
        """Have *message* delivered again in *invisible_s* seconds unless it is acknowledged before."""
        self._portal.call(lambda: self._wrapped.change_invisible_time(message, invisible_s))
